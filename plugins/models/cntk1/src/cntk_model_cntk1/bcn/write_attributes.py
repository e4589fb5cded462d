"""What each operation stores beside its name, to be written, and the version of the format that it needs.

The counterpart of :mod:`.attributes` and :mod:`.images`. A writer adds nothing but what its version has; whether that
is all that the node says is asked before, by :func:`needed_version`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node, Parameter, UnsupportedError
from cntk_core.api.builders import makes_single_steps
from cntk_model_cntk1.bcn.attributes import NO_SEQUENCE, TRACE_FORMAT, UNSET
from cntk_model_cntk1.bcn.writer import BinaryWriter

_WHERE_AXIS = "WhereNodeAxis"
_LAYOUTS = ("HWC", "CHW")
_POOLINGS = {"": 0, "max": 1, "average": 2}


@attrs.frozen(eq=False)
class Target:
    """Where the attributes of a node go.

    Attributes:
        writer: of the file.
        version: of the file.
        dtype: precision of the file.
        node: ours.
    """

    writer: BinaryWriter
    version: int
    dtype: np.dtype[Any]
    node: Node

    @property
    def given(self) -> Any:
        """The node's attributes."""
        return self.node.attributes


Write = Callable[[Target], None]


# -- recurrence, products, reductions, axes ---------------------------------------------------------------


def _delay(target: Target) -> None:
    given, writer = target.given, target.writer
    dims = given.dims if given.dims and all(given.dims) else target.node.known_shape[::-1]
    writer.int32(given.time_step)
    writer.dims(dims)
    # Where the first state is an input, the original wants none here.
    writer.element(given.default_hidden_activation if len(target.node.inputs) == 1 else 0.0, target.dtype)


def _shift(target: Target) -> None:
    given = target.given
    target.writer.int32(given.from_offset, given.boundary_mode, given.dim)


def _stack(target: Target) -> None:
    given, writer = target.given, target.writer
    writer.size(int(given.bidirectional), given.num_layers, given.hidden_size)
    writer.wide(given.recurrent_op)
    writer.int32(given.axis)


def _times(target: Target) -> None:
    target.writer.size(target.given.output_rank)
    if target.version >= 12:
        target.writer.int32(target.given.infer_input_rank_to_map)


def _quantized_times(target: Target) -> None:
    _times(target)
    target.writer.size(target.given.bit_smoothing_a, target.given.bit_smoothing_b)


def _reduce(target: Target) -> None:
    given = target.given
    target.writer.int32(given.axis)
    target.writer.wide(given.reduction_op)
    if target.version >= 24:
        target.writer.flag(given.keeps)


def _transpose(target: Target) -> None:
    given = target.given
    if given.permutation:  # in the file, axes of a permutation count from 0
        target.writer.int32(0, 0)
        target.writer.sizes([axis - 1 for axis in given.permutation])
    else:
        target.writer.int32(given.axis1, given.axis2)


def swaps(permutation: Sequence[int]) -> list[tuple[int, int]]:
    """Return the exchanges of two axes, one after the other, that make a permutation of axes from 1 on."""
    found, held = [], list(range(1, len(permutation) + 1))
    for index, wanted in enumerate(permutation):
        other = held.index(wanted)
        if other != index:
            held[index], held[other] = held[other], held[index]
            found.append((index + 1, other + 1))
    return found


def _reshape(target: Target) -> None:
    target.writer.int32(target.given.begin_axis, target.given.end_axis)
    target.writer.dims(target.given.dims)


def _legacy_reshape(target: Target) -> None:
    target.writer.size(target.given.rows)
    target.writer.dims(target.given.image or (target.given.rows,))


def _slice(target: Target) -> None:
    given, writer = target.given, target.writer
    if target.version >= 22:
        writer.int32(len(given.axis))
    for begin, end, axis in zip(given.begin, given.end, given.axis, strict=True):
        writer.put("qqi", begin, end - begin, axis)


def _row_stack(target: Target) -> None:
    target.writer.int32(target.given.axis)


def _row_repeat(target: Target) -> None:
    target.writer.size(target.given.num_repeats)


def _crop(target: Target) -> None:
    offsets = (target.given.x_offset, target.given.y_offset)
    target.writer.put("dd", *(UNSET if offset is None else offset for offset in offsets))


def _where(target: Target) -> None:
    if target.version >= 11:
        default = NO_SEQUENCE if makes_single_steps(target.node) else _WHERE_AXIS
        target.writer.wide(target.given.dynamic_axis_name or default)


# -- random numbers, criteria, tools ----------------------------------------------------------------------


def _random_state(target: Target) -> None:
    """A seed and a position. One that nobody has chosen is 0, as that of the original's first node."""
    if target.version >= 16:
        target.writer.size(max(target.given.seed, 0), 0)


def _random_sample(target: Target) -> None:
    target.writer.flag(target.given.allow_duplicates)
    target.writer.size(target.given.num_samples)
    _random_state(target)


def _edit_distance(target: Target) -> None:
    given, writer = target.given, target.writer
    writer.put("fff", given.substitution_penalty, given.deletion_penalty, given.insertion_penalty)
    writer.flag(given.squash_inputs)
    writer.sizes(given.tokens_to_ignore)


def _forward_backward(target: Target) -> None:
    target.writer.int32(target.given.delay_constraint)
    target.writer.size(target.given.blank_token_id)


def _noise_contrastive(target: Target) -> None:
    target.writer.int32(target.given.eval_mode)


def _trace(target: Target) -> None:
    given, writer = target.given, target.writer
    found = dict(setting.split("=", 1) for setting in given.format)
    kind = found.get("type", "real")
    writer.narrow(given.say)
    writer.size(given.log_first, given.log_frequency)
    writer.flag(given.log_gradient_too, kind == "category")
    writer.wide(found.get("labelMappingFile", ""))
    writer.flag(kind == "sparse", found.get("transpose", "True").lower() == "true")
    for name in TRACE_FORMAT:
        writer.narrow(found.get(name, ""))
    writer.size(given.only_up_to_row, given.only_up_to_t)


def _environment(target: Target) -> None:
    target.writer.wide(target.given.property_name)


# -- images and normalization -----------------------------------------------------------------------------


@attrs.frozen
class _Windows:
    """What convolutions store and poolings have no use for; these are the values of poolings."""

    pooling: int = 0
    maps: tuple[int, ...] = (1,)
    sharing: tuple[bool, ...] = (True,)
    memory: int = 0
    transpose: bool = False
    output: tuple[int, ...] = (0,)
    ceil: bool = False
    include_pad: bool = False


def _windows(target: Target, more: _Windows) -> None:
    given, writer, version = target.given, target.writer, target.version
    for dims in (given.kernel_shape, more.maps, given.stride):
        writer.dims(dims)
    writer.flags(more.sharing)
    writer.flags(given.auto_padding)
    writer.dims(given.lower_pad)
    writer.dims(given.upper_pad)
    writer.int32(more.pooling, _LAYOUTS.index(given.image_layout))
    writer.size(more.memory)
    writer.flag(more.transpose)
    if version >= 20:
        writer.dims(more.output)
    if version >= 21:
        writer.flag(more.ceil)
    if version >= 23:
        writer.flag(more.include_pad)


def _convolution(target: Target) -> None:
    given = target.given
    _windows(
        target,
        _Windows(
            maps=given.map_count,
            sharing=given.sharing,
            memory=given.max_temp_mem_size_in_samples,
            transpose=given.transpose,
            output=given.output_shape,
        ),
    )
    target.writer.flag(given.convolution_2d)
    if target.version >= 18:
        target.writer.dims((1,))  # the dilation, which was never stored


def _pooling(target: Target) -> None:
    given = target.given
    sharing = (True,) * len(given.auto_padding)
    kind = _POOLINGS[given.pool_kind]
    _windows(target, _Windows(kind, sharing=sharing, ceil=given.ceil_out_dim, include_pad=given.include_pad))


def _unpooling(target: Target) -> None:
    _windows(target, _Windows(sharing=(True,) * len(target.given.auto_padding)))  # it says that it pools nothing


def _legacy_pooling(target: Target) -> None:
    given, layout = target.given, _LAYOUTS.index(target.given.image_layout)
    target.writer.put("Ii", given.window_width, layout)
    target.writer.size(given.window_height, given.horizontal_subsample, given.vertical_subsample)


def _roi_pooling(target: Target) -> None:
    target.writer.dims(target.given.roi_output_shape)
    if target.version >= 26:
        target.writer.int32(_POOLINGS["max"])
        target.writer.put("d", target.given.spatial_scale)


def count_of(node: Node) -> Parameter | None:
    """Return the parameter in which a normalization counts its samples, None if it has none."""
    found = node.inputs[5] if node.op.name == "BatchNormalization" and len(node.inputs) > 5 else None
    return found if isinstance(found, Parameter) else None


def _normalization(target: Target) -> None:
    given, writer, count = target.given, target.writer, count_of(target.node)
    samples = 0 if count is None or count.value is None else int(count.value.flat[0])
    writer.flag(given.spatial)
    writer.put("dd", given.normalization_time_constant, given.blend_time_constant)
    writer.int32(_LAYOUTS.index(given.image_layout))
    if target.version == 19:
        writer.flag(samples == 0)
    else:
        writer.size(samples)
    writer.put("d", given.epsilon)
    writer.flag(given.use_cntk_engine)


WRITERS: dict[str, Write] = {
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
    "Dropout": _random_state,
    "RandomSample": _random_sample,
    "RandomSampleInclusionFrequency": _random_sample,
    "EditDistanceError": _edit_distance,
    "ForwardBackward": _forward_backward,
    "NoiseContrastiveEstimation": _noise_contrastive,
    "Trace": _trace,
    "EnvironmentInput": _environment,
    "Convolution": _convolution,
    "Pooling": _pooling,
    "MaxUnpooling": _unpooling,
    "MaxPooling": _legacy_pooling,
    "AveragePooling": _legacy_pooling,
    "ROIPooling": _roi_pooling,
    "BatchNormalization": _normalization,
}
"""Operation to what writes its attributes; other operations store nothing."""


# -- what a version can say -------------------------------------------------------------------------------


def _needs_slice(node: Node) -> int:
    return 22 if len(node.attributes.axis) != 1 else 0


def _needs_reduction(node: Node) -> int:
    given = node.attributes
    return 0 if given.keeps == attrs.evolve(given, keep_dimensions=None).keeps else 24


def _needs_windows(node: Node) -> int:
    given = node.attributes
    if getattr(given, "include_pad", False):
        return 23
    if getattr(given, "ceil_out_dim", False):
        return 21
    return 20 if any(getattr(given, "output_shape", ())) else 0


def _needs_normalization(node: Node) -> int:
    """Since version 19 the count is an input, as it has to be if it is learned or computed."""
    if len(node.inputs) < 6:
        return 0
    count = count_of(node)
    return 20 if count is None or count.learned else 13


_NEEDS: dict[str, Callable[[Node], int]] = {
    "Slice": _needs_slice,
    "ReduceElements": _needs_reduction,
    "Convolution": _needs_windows,
    "Pooling": _needs_windows,
    "BatchNormalization": _needs_normalization,
    "OptimizedRNNStack": lambda node: 14,
    "LambdaRank": lambda node: 15,
    "NDCG1Eval": lambda node: 15,
    "Dropout": lambda node: 17 if node.attributes.seed >= 0 else 0,
    "RandomSample": lambda node: 17 if node.attributes.seed >= 0 else 0,
    "RandomSampleInclusionFrequency": lambda node: 17 if node.attributes.seed >= 0 else 0,
    "ROIPooling": lambda node: 26 if node.attributes.spatial_scale != _OLD_SCALE else 0,
    "Where": lambda node: 11 if node.attributes.dynamic_axis_name else 0,
    "Times": lambda node: 12 if node.attributes.infer_input_rank_to_map != -1 else 0,
    "TransposeTimes": lambda node: 12 if node.attributes.infer_input_rank_to_map != -1 else 0,
}
_OLD_SCALE = 0.0625


def needed_version(node: Node) -> int:
    """Return the oldest version of the format that can say all that a node says; 0 if any can.

    Raises:
        UnsupportedError: none can.
    """
    _check(node)
    found = _NEEDS.get(node.op.name)
    return 0 if found is None else found(node)


def _check(node: Node) -> None:
    given, name = node.attributes, node.op.name
    missing = ""
    if name == "Convolution":
        missing = "runs along sequences" if given.sequential else ""
        missing = "has groups" if given.groups != 1 else missing
        missing = "is dilated" if any(step != 1 for step in given.dilation) else missing
    elif name == "Slice" and any(step != 1 for step in given.stride):
        missing = "takes every so-manieth element"
    if missing:
        raise UnsupportedError(f"{name} '{node.name}' {missing}, which version 1 cannot say", where=node.where)
