"""What each operation stores beside its name: the attributes of its node, as each version of the format has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from cntk_model_cntk1.bcn.reader import MAX_RANK, MOST, BinaryReader
from cntk_model_cntk1.op_attributes import (
    CropAttributes,
    DelayAttributes,
    DropoutAttributes,
    EditDistanceAttributes,
    ELUAttributes,
    EnvironmentInputAttributes,
    ForwardBackwardAttributes,
    LegacyReshapeAttributes,
    NoAttributes,
    NoiseContrastiveAttributes,
    QuantizedTimesAttributes,
    RandomSampleAttributes,
    ReduceAttributes,
    RepeatAttributes,
    ReshapeAttributes,
    RNNStackAttributes,
    ShiftAttributes,
    SliceAttributes,
    StackAttributes,
    TimesAttributes,
    ToSequenceAttributes,
    TraceAttributes,
    TransposeAttributes,
    UnpackAttributes,
    WhereAttributes,
)

AXES_AND_STRIDES = 27
"""Since this version a reduction has several axes, and a slice has steps. Versions 28 to 31 store the same."""

TRAINS = 2
"""Evaluation mode of noise-contrastive estimation that trains."""

UNSET = float(np.finfo(np.float64).max)
_MOST_LAYERS = 65536
_NODE_TAGS = ("float", "double", "ENodeList")
NO_SEQUENCE = "__noSequenceAxis"
"""The axis of what has one sample each, no sequences, as CNTK 2 calls it when it writes such a file."""

_DEFAULT_AXES = ("WhereNodeAxis", "ToSequenceNodeAxis", NO_SEQUENCE)
_OLD_STACKS = {"LSTM": "lstm", "GRU": "gru", "RNN_RELU": "rnnReLU", "RNN_TANH": "rnnTanh"}
TRACE_FORMAT = (
    "prologue",
    "epilogue",
    "sequenceSeparator",
    "sequencePrologue",
    "sequenceEpilogue",
    "elementSeparator",
    "sampleSeparator",
    "precisionFormat",
)


@attrs.define
class Source:
    """Where the attributes of a node come from.

    Attributes:
        reader: stands at their first byte.
        version: of the file.
        dtype: precision of the node.
        samples: for a normalization that keeps the count itself: how many samples its statistics are made of.
        before: for a reduction over several axes: the reductions over all but the last of them, which come first.
    """

    reader: BinaryReader
    version: int
    dtype: np.dtype[Any]
    samples: int | None = None
    before: list[Any] = attrs.field(factory=list)


Read = Callable[[Source], Any]


# -- recurrence -------------------------------------------------------------------------------------------


def _delay(source: Source) -> DelayAttributes:
    reader = source.reader
    step = reader.int32()
    if source.version > 3:
        dims = reader.dims()
    else:
        dims = (reader.amount("number of rows"),)
        reader.size()
    if source.version < 2:
        return DelayAttributes(dims, step)
    return DelayAttributes(dims, step, reader.element(source.dtype))


def _shift(source: Source) -> ShiftAttributes:
    reader = source.reader
    return ShiftAttributes(reader.int32(), reader.int32(), reader.int32())


def _stack(source: Source) -> RNNStackAttributes:
    reader = source.reader
    bidirectional = reader.size() != 0
    layers, hidden = reader.amount("number of layers", _MOST_LAYERS), reader.amount("size of a layer")
    kind = reader.wide("the recurrent operation")
    axis = -1
    if source.version >= 14:
        axis = reader.int32()
    else:
        kind = _OLD_STACKS.get(kind, kind)
    return RNNStackAttributes(hidden, layers, bidirectional, kind, axis)


# -- products, reductions, axes ---------------------------------------------------------------------------


def _times(source: Source) -> TimesAttributes:
    rank = source.reader.amount("outputRank", MAX_RANK) if source.version >= 3 else 1
    return TimesAttributes(rank, source.reader.int32() if source.version >= 12 else -1)


def _quantized_times(source: Source) -> QuantizedTimesAttributes:
    product, reader = _times(source), source.reader
    left, right = reader.amount("number of bits"), reader.amount("number of bits")
    return QuantizedTimesAttributes(product.output_rank, product.infer_input_rank_to_map, left, right)


def _reduce(source: Source) -> ReduceAttributes:
    reader = source.reader
    count = _axes(source, "a reduction") if source.version >= AXES_AND_STRIDES else 1
    axes = sorted({reader.int32() for _ in range(count)}, reverse=True)  # an axis that is dropped moves no lower one
    operation = reader.wide("the reduction")
    keeps = reader.flag() if source.version >= 24 else None
    *source.before, last = (ReduceAttributes(operation, axis, keeps) for axis in axes)
    return last


def _axes(source: Source, what: str) -> int:
    """How many axes an operation works along, at least one."""
    count = source.reader.int32()
    if not 1 <= count <= MAX_RANK:
        source.reader.fail(f"{what} of {count} axes", source.reader.position - 4)
    return count


def _transpose(source: Source) -> TransposeAttributes:
    reader = source.reader
    if source.version < 3:
        return TransposeAttributes(1, 2)
    first, second = reader.int32(), reader.int32()
    if source.version >= 25 and first == 0 and second == 0:
        # In the file, axes of a permutation count from 0.
        return TransposeAttributes(0, 0, tuple(min(axis, MOST) + 1 for axis in reader.sizes()))
    return TransposeAttributes(first, second)


def _reshape(source: Source) -> ReshapeAttributes:
    begin, end = source.reader.int32(), source.reader.int32()
    return ReshapeAttributes(source.reader.dims(), begin, end)


def _legacy_reshape(source: Source) -> LegacyReshapeAttributes:
    rows = source.reader.amount("number of rows")
    image = source.reader.dims(legacy=source.version < 4)
    return LegacyReshapeAttributes(rows, () if 0 in image else image)


def _slice(source: Source) -> SliceAttributes:
    reader = source.reader
    count = _axes(source, "a slice") if source.version >= 22 else 1
    begins, ends, axes, strides = [], [], [], []
    for _ in range(count):
        begin, length = reader.int64(), reader.int64()
        begins.append(begin)
        ends.append(begin + length)
        axes.append(reader.int32() if source.version >= 3 else 1)
        strides.append(reader.int32() if source.version >= AXES_AND_STRIDES else 1)
    return SliceAttributes(tuple(begins), tuple(ends), tuple(axes), tuple(strides) if set(strides) != {1} else (1,))


def _row_stack(source: Source) -> StackAttributes:
    axis = source.reader.int32() if source.version >= 3 else 1
    if not 1 <= axis <= MAX_RANK:
        source.reader.fail(f"rows joined along axis {axis}", source.reader.position - 4)
    return StackAttributes(axis)


def _row_repeat(source: Source) -> RepeatAttributes:
    return RepeatAttributes(source.reader.amount("number of repetitions"))


def _crop(source: Source) -> CropAttributes:
    return CropAttributes(_offset(source), _offset(source))


def _offset(source: Source) -> int | None:
    value = source.reader.float64()
    if value == UNSET or math.isnan(value):
        return None
    if not 0 <= value <= MOST:
        source.reader.fail(f"{value} is no sensible offset", source.reader.position - 8)
    return int(value)


# -- dynamic axes -----------------------------------------------------------------------------------------


def _where(source: Source) -> WhereAttributes:
    name = source.reader.wide("the name of an axis") if source.version >= 11 else ""
    # What nobody named is called the same everywhere, and yet each is an axis of its own.
    return WhereAttributes("" if name in _DEFAULT_AXES else name)


def _to_sequence(source: Source) -> ToSequenceAttributes:
    name = source.reader.wide("the name of an axis")
    return ToSequenceAttributes("" if name in _DEFAULT_AXES else name)


def _unpack(source: Source) -> UnpackAttributes:
    return UnpackAttributes(source.reader.element(source.dtype), source.reader.flag())


# -- random numbers ---------------------------------------------------------------------------------------


def skip_random_state(source: Source) -> None:
    """Go past seed and position of a generator; ours has other ones.

    In version 16 the seed has the size that a long number had where the file was written: 8 bytes, or 4 on Windows.
    What stands behind it tells which.
    """
    reader = source.reader
    if source.version < 16:
        return
    begin = reader.position
    reader.take(16, "the state of random numbers")
    if source.version == 16 and not any(reader.sees(tag) for tag in _NODE_TAGS):
        reader.position = begin + 12


def _dropout(source: Source) -> DropoutAttributes:
    skip_random_state(source)
    return DropoutAttributes()


def _random_sample(source: Source) -> RandomSampleAttributes:
    again, count = source.reader.flag(), source.reader.amount("number of samples")
    skip_random_state(source)
    return RandomSampleAttributes(count, again)


# -- criteria and tools -----------------------------------------------------------------------------------


def _edit_distance(source: Source) -> EditDistanceAttributes:
    reader = source.reader
    substitution, deletion, insertion = reader.float32(), reader.float32(), reader.float32()
    return EditDistanceAttributes(substitution, deletion, insertion, reader.flag(), reader.sizes())


def _forward_backward(source: Source) -> ForwardBackwardAttributes:
    delay, blank = source.reader.int32(), source.reader.size()
    return ForwardBackwardAttributes(blank if blank <= MOST else -1, delay)


def _noise_contrastive(source: Source) -> NoiseContrastiveAttributes:
    mode = source.reader.int32()
    if 0 <= mode <= TRAINS:
        return NoiseContrastiveAttributes(mode)
    source.reader.position -= 4  # a file of the time before there were modes
    return NoiseContrastiveAttributes(TRAINS)


def _trace(source: Source) -> TraceAttributes:
    reader = source.reader
    say, first, frequency, gradient = reader.narrow(), reader.size(), reader.size(), reader.flag()
    category, mapping, sparse, transpose = reader.flag(), reader.wide(), reader.flag(), reader.flag()
    settings = [f"type={'category' if category else 'sparse' if sparse else 'real'}", f"transpose={transpose}"]
    settings += [f"labelMappingFile={mapping}"] if mapping else []
    settings += [f"{name}={reader.narrow()}" for name in TRACE_FORMAT]
    rows, steps = reader.size(), reader.size()
    return TraceAttributes(say, frequency, first, gradient, rows, steps, tuple(settings))


def _environment(source: Source) -> EnvironmentInputAttributes:
    return EnvironmentInputAttributes(source.reader.wide("the name of a property"))


def _eye(source: Source) -> Any:
    source.reader.flag()  # whether its value was sparse
    return NoAttributes()


def _elu(source: Source) -> ELUAttributes:
    return ELUAttributes()  # the original stores nothing, and its factor is 1


READERS: dict[str, Read] = {
    "PastValue": _delay,
    "FutureValue": _delay,
    "Shift": _shift,
    "OptimizedRNNStack": _stack,
    "Times": _times,
    "TransposeTimes": _times,
    "QuantizedTimes": _quantized_times,
    "ReduceElements": _reduce,
    "TransposeDimensions": _transpose,
    "Reshape": _reshape,
    "LegacyReshape": _legacy_reshape,
    "Slice": _slice,
    "RowStack": _row_stack,
    "RowRepeat": _row_repeat,
    "Crop": _crop,
    "Where": _where,
    "ToSequence": _to_sequence,
    "UnpackSequence": _unpack,
    "Dropout": _dropout,
    "RandomSample": _random_sample,
    "RandomSampleInclusionFrequency": _random_sample,
    "EditDistanceError": _edit_distance,
    "ForwardBackward": _forward_backward,
    "NoiseContrastiveEstimation": _noise_contrastive,
    "Trace": _trace,
    "EnvironmentInput": _environment,
    "ExponentialLinearUnit": _elu,
    "EyeLikeOp": _eye,
}
"""Operation to what reads its attributes; other operations store nothing. Images have a module of their own."""
