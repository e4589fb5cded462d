"""From what a file says of a function to the attributes of our op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cntk_core.api import Node, UnsupportedError, core_ops
from cntk_model_cntk2.axes import axis_number
from cntk_model_cntk2.records import Entry
from cntk_model_cntk2.values import FREE, INFERRED, NOT_STATIC, UNKNOWN, Axis, NDShape

MOST = 2**31 - 1
"""Largest number that is believed."""

_LARGEST_SEED = 2**31
_END = NOT_STATIC - 3
_POOLINGS = {0: "max", 1: "average"}
_PADDINGS = {0: "constant", 1: "reflect", 2: "symmetric"}
_TYPES = {1: "float", 2: "double", 4: "float16"}
_OPS = core_ops()

Inputs = Sequence[Node]
"""The inputs of our op."""


def attributes_of(name: str) -> Any:
    """Return the class of the attributes of one of our ops."""
    op = _OPS.find("", name)
    assert op is not None, name
    return op.attributes


def _sizes(entry: Entry, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Dimensions; an unknown shape is none."""
    if default is not None and key not in entry:
        return default
    dims = entry.take(key, NDShape).dims
    if dims == (UNKNOWN,):
        return ()
    if any(not 0 <= dim <= MOST for dim in dims):
        entry.fail(f"has dimensions in its '{key}' that make no sense")
    return dims


def _count(entry: Entry, key: str) -> int:
    number = entry.take(key, int)
    if not 0 <= number <= MOST:
        entry.fail(f"has a '{key}' of {number}, which makes no sense")
    return number


def _seed(entry: Entry) -> int:
    """The seed of a function; one that the original chose by itself is that of the run here."""
    seed = entry.take("rngSeed", int, -1)
    return int(seed) if 0 <= seed < _LARGEST_SEED else -1


def axes_of(entry: Entry, one: str = "axis", several: str = "axisVec") -> list[Axis]:
    """Return the axes that are named, in either way."""
    return entry.each(several, Axis) if several in entry else [entry.take(one, Axis)]


def _transpose(entry: Entry, inputs: Inputs) -> Any:
    made = attributes_of("TransposeDimensions")
    if "axisVec" in entry:
        permutation = entry.each("axisVec", Axis)
        return made(1, 2, tuple(_from_end(axis, len(permutation), entry) for axis in permutation))
    return made(*(axis_number(entry.take(key, Axis), inputs[0], entry.place) for key in ("axis1", "axis2")))


def _from_end(axis: Axis, rank: int, entry: Entry) -> int:
    if not axis.is_static or not -rank <= axis.index < rank:
        entry.fail("permutes axes that are not there")
    return axis.index % rank + 1


def _slice(entry: Entry, inputs: Inputs) -> Any:
    if "axisVec" in entry:
        begins, ends = entry.each("beginIndexVec", int), entry.each("endIndexVec", int)
    else:
        begins, ends = [entry.take("beginIndex", int)], [entry.take("endIndex", int)]
    numbers = [axis_number(axis, inputs[0], entry.place) for axis in axes_of(entry)]
    return attributes_of("Slice")(tuple(begins), tuple(ends), tuple(numbers))


def strides_of(entry: Entry) -> list[int]:
    """Return the steps of a slice, one for each axis."""
    if "sliceStridesVec" in entry:
        return entry.each("sliceStridesVec", int)
    return [entry.take("sliceStrides", int, 1)]


def _splice(entry: Entry, inputs: Inputs) -> Any:
    axis = entry.take("axis", Axis)
    deepest = max(inputs, key=lambda node: len(node.shape or ()))
    return attributes_of("RowStack")(axis_number(axis, deepest, entry.place))


def _reshape(entry: Entry, inputs: Inputs) -> Any:
    begin, end = entry.take("beginAxis", Axis, Axis(0, "", True)), entry.take("endAxis", Axis, Axis(_END, "", False))
    dims = tuple(0 if dim in (INFERRED, FREE) else dim for dim in entry.take("newShape", NDShape).dims)
    if any(not 0 <= dim <= MOST for dim in dims):
        entry.fail("has dimensions in its 'newShape' that make no sense")
    last = 0 if end.index == _END else axis_number(end, inputs[0], entry.place)
    behind = begin.index == _END and inputs[0].shape is not None  # where new axes are added
    first = len(inputs[0].shape or ()) + 1 if behind else axis_number(begin, inputs[0], entry.place)
    return attributes_of("Reshape")(dims, first, last)


def _windows(entry: Entry) -> dict[str, Any]:
    return {
        "stride": _sizes(entry, "strides") or (1,),
        "auto_padding": tuple(entry.each("autoPadding", bool)),
        "lower_pad": _sizes(entry, "lowerPad") or (0,),
        "upper_pad": _sizes(entry, "upperPad") or (0,),
    }


def _pool_kind(entry: Entry) -> str:
    number = entry.take("poolingType", int, 0)
    if number not in _POOLINGS:
        entry.fail(f"pools in the unknown way {number}")
    return _POOLINGS[number]


def _pooling(entry: Entry, inputs: Inputs) -> Any:
    ceil, padded = (entry.take(key, bool, False) for key in ("ceilOutDim", "includePad"))
    window = _sizes(entry, "poolingWindowShape")
    kind = _pool_kind(entry)
    return attributes_of("Pooling")(window, kind, **_windows(entry), ceil_out_dim=ceil, include_pad=padded)


def _unpooling(entry: Entry, inputs: Inputs) -> Any:
    return attributes_of("MaxUnpooling")(_sizes(entry, "unpoolingWindowShape"), _pool_kind(entry), **_windows(entry))


def _roi_pooling(entry: Entry, inputs: Inputs) -> Any:
    if _pool_kind(entry) != "max":
        raise UnsupportedError(f"'{entry.path}': {entry.place} pools regions by their average, which cannot be read")
    return attributes_of("ROIPooling")(_sizes(entry, "roiOutputShape"), entry.take("spatialScale", float, 1.0))


def _convolution(entry: Entry, inputs: Inputs) -> Any:
    if entry.take("sequential", bool, False):
        raise UnsupportedError(f"'{entry.path}': {entry.place} runs along sequences, which cannot be read")
    weights, data = inputs[0].known_shape[::-1], inputs[1].shape
    if data is None:
        entry.fail("reads something whose axes are not known")
    rank, groups = len(data), entry.take("groups", int, 1)
    maps = weights[rank:]
    if len(maps) > 1 and any(dim != 1 for dim in maps[:-1]):
        raise UnsupportedError(f"'{entry.path}': {entry.place} has maps along several axes, which cannot be read")
    dilation = _sizes(entry, "dilation", (1,)) or (1,)
    return attributes_of("Convolution")(
        kernel_shape=weights[:rank],
        map_count=(maps[-1] if maps else 1,),
        **_windows(entry),
        sharing=tuple(entry.each("sharing", bool)),
        transpose=entry.take("transpose", bool, False),
        output_shape=_sizes(entry, "outputShape", (0,)) or (0,),
        max_temp_mem_size_in_samples=min(entry.take("maxTempMemSizeInSamples", int, 0), MOST),
        dilation=dilation,
        groups=groups,
    )


def _times(entry: Entry, inputs: Inputs) -> Any:
    rank = _count(entry, "outputRank")
    return attributes_of("Times")(rank, entry.take("inferInputRankToMap", int, -1))


def _transpose_times(entry: Entry, inputs: Inputs) -> Any:
    return attributes_of("TransposeTimes")(_count(entry, "outputRank"), entry.take("inferInputRankToMap", int, -1))


def _normalization(entry: Entry, inputs: Inputs) -> Any:
    entry.take("useCuDNNEngine", bool)  # in version 2 both engines take all numbers of the scale, whatever its shape
    return attributes_of("BatchNormalization")(
        spatial=entry.take("spatial", bool),
        normalization_time_constant=entry.take("normalizationTimeConstant", float),
        blend_time_constant=entry.take("blendTimeConstant", float),
        epsilon=entry.take("epsilon", float),
        use_cntk_engine=False,
        disable_regularization=entry.take("disableRegularization", bool, False),
    )


def _dropout(entry: Entry, inputs: Inputs) -> Any:
    return attributes_of("Dropout")(entry.take("dropoutRate", float), _seed(entry))


def _random_sample(entry: Entry, inputs: Inputs) -> Any:
    made = attributes_of("RandomSample")
    return made(_count(entry, "numSamples"), entry.take("allowDuplicates", bool), _seed(entry))


def _random(entry: Entry, inputs: Inputs) -> Any:
    arguments = tuple(entry.each("randomDistributionArgs", float, []))
    kind = entry.take("randomDistributionType", str)
    dims = () if inputs else _sizes(entry, "newShape")
    return attributes_of("RandomDistribution")(kind, arguments, dims, _seed(entry))


def _where(entry: Entry, inputs: Inputs) -> Any:
    """A new axis is called as there, so that what is taken at the same places has the same axis."""
    named = entry.each("newDynamicAxes", Axis, [])
    return attributes_of("Where")(next((axis.name for axis in named if axis.ordered), ""))


def _to_sequence(entry: Entry, inputs: Inputs) -> Any:
    named = entry.each("newDynamicAxes", Axis, [])
    return attributes_of("ToSequence")(next((axis.name for axis in named if axis.ordered), ""))


def _unpack(entry: Entry, inputs: Inputs) -> Any:
    padding = entry.take("sequenceUnpackPaddingValue", float, 0.0)
    return attributes_of("UnpackSequence")(padding, entry.take("sequenceUnpackSuppressMaskOutput", bool, False))


def _delay(entry: Entry, inputs: Inputs) -> Any:
    return attributes_of("PastValue")((), _count(entry, "offset"))


def _stack(entry: Entry, inputs: Inputs) -> Any:
    layers, hidden = _count(entry, "numLayers"), _count(entry, "hiddenSize")
    kind = entry.take("recurrentOp", str)
    return attributes_of("OptimizedRNNStack")(hidden, layers, entry.take("bidirectional", bool), kind)


def _edit_distance(entry: Entry, inputs: Inputs) -> Any:
    substitution, deletion, insertion = (
        entry.take(f"{which}Penalty", float) for which in ("Substitution", "Deletion", "Insertion")
    )
    ignored = tuple(min(int(number), MOST) for number in entry.each("TokensToIgnore", int, []))
    squash = entry.take("SquashInputs", bool)
    return attributes_of("EditDistanceError")(substitution, deletion, insertion, squash, ignored)


def _forward_backward(entry: Entry, inputs: Inputs) -> Any:
    blank = entry.take("BlankTokenId", int)
    return attributes_of("ForwardBackward")(int(blank) if blank <= MOST else -1, entry.take("DelayConstraint", int))


def _one_hot(entry: Entry, inputs: Inputs) -> Any:
    axis = entry.take("onehotAxis", Axis, Axis(-1, "", True))
    return attributes_of("OneHot")(_count(entry, "numClass"), axis.index)


def _crop(entry: Entry, inputs: Inputs) -> Any:
    offset = entry.each("offset", int, [])
    if len(offset) not in (0, 2):
        entry.fail("has an 'offset' that is not one of two axes")
    return attributes_of("Crop")(*offset)


def _pad(entry: Entry, inputs: Inputs) -> Any:
    mode = entry.take("paddingMode", int, 0)
    if mode not in _PADDINGS:
        entry.fail(f"pads in the unknown way {mode}")
    head, foot = (tuple(map(int, entry.each(key, int))) for key in ("paddingHead", "paddingFoot"))
    if any(not 0 <= size <= MOST for size in (*head, *foot)):
        entry.fail("pads by sizes that make no sense")
    return attributes_of("Pad")(head, foot, _PADDINGS[mode], entry.take("paddingConstantValue", float, 0.0))


def _squeeze(entry: Entry, inputs: Inputs) -> Any:
    axes = axes_of(entry) if "axisVec" in entry or "axis" in entry else []
    named = tuple(axis_number(axis, inputs[0], entry.place) for axis in axes if axis.is_static)
    return attributes_of("Squeeze")(named)


def _fill(entry: Entry, inputs: Inputs) -> Any:
    return attributes_of("ConstantOp")(entry.take("fillValue", float))


def _cast(entry: Entry, inputs: Inputs) -> Any:
    number = entry.take("newDataType", int)
    if number not in _TYPES:
        raise UnsupportedError(f"'{entry.path}': {entry.place} makes numbers of the unknown type {number}")
    return attributes_of("Cast")(_TYPES[number])


def _top(entry: Entry, inputs: Inputs) -> Any:
    axis = entry.take("axis", Axis, Axis(0, "", True))
    return attributes_of("TopK")(_count(entry, "numItems"), axis_number(axis, inputs[0], entry.place))


Read = Callable[[Entry, Inputs], Any]

READERS: dict[str, Read] = {
    "TransposeDimensions": _transpose,
    "Slice": _slice,
    "RowStack": _splice,
    "Reshape": _reshape,
    "Pooling": _pooling,
    "MaxUnpooling": _unpooling,
    "ROIPooling": _roi_pooling,
    "Convolution": _convolution,
    "Times": _times,
    "TransposeTimes": _transpose_times,
    "BatchNormalization": _normalization,
    "Dropout": _dropout,
    "RandomSample": _random_sample,
    "RandomSampleInclusionFrequency": _random_sample,
    "RandomDistribution": _random,
    "Where": _where,
    "ToSequence": _to_sequence,
    "UnpackSequence": _unpack,
    "PastValue": _delay,
    "FutureValue": _delay,
    "OptimizedRNNStack": _stack,
    "EditDistanceError": _edit_distance,
    "ForwardBackward": _forward_backward,
    "OneHot": _one_hot,
    "Crop": _crop,
    "Pad": _pad,
    "Squeeze": _squeeze,
    "ConstantOp": _fill,
    "Cast": _cast,
    "TopK": _top,
}
"""Our op to what reads its attributes; other ops have none."""
