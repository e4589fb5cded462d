"""From the attributes of our ops to what a file of CNTK 2 says of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np

from cntk_core.api import Node, Parameter, UnsupportedError
from cntk_core.api.builders import BATCH, makes_single_steps
from cntk_model_cntk2.axes import EVERYTHING, SAMPLES, SEQUENCE, WHOLE_SAMPLE, dynamic_axes
from cntk_model_cntk2.values import ALL, ALL_STATIC, BATCH_AXIS, NOT_STATIC, SEQUENCE_AXIS, Axis, Float, NDShape, SizeT

_END = Axis(NOT_STATIC - 3, "", False)
_ANY_SEED = 2**31
"""From here on seeds are those that nobody has chosen."""

_POOLINGS = {"max": 0, "average": 1}
_PADDINGS = {"constant": 0, "reflect": 1, "symmetric": 2}
_TYPES = {"float": 1, "double": 2, "float16": 4}


class Exporter(Protocol):
    """What a writer needs of the exporter."""

    uids: dict[Node, str]
    readers: dict[Node, set[str]]
    count: int

    def constant(self, value: Any, name: str = "", *, learned: bool = False) -> str:
        """Add a parameter or a constant, and return its uid."""

    def helper(self, called: str, inputs: list[str], attributes: dict[str, Any]) -> str:
        """Add a function that no node of ours is, and return the uid of its output."""


@attrs.frozen
class Written:
    """What is said of a function.

    Attributes:
        attributes: by key.
        inputs: uids in the original's order; None are those of the node's.
    """

    attributes: dict[str, Any] = attrs.field(factory=dict)
    inputs: list[str] | None = None


def _axis(number: int) -> Axis:
    return Axis(number - 1, f"staticAxisIdx={number - 1}", True)


def _shape(dims: Any) -> NDShape:
    return NDShape(tuple(int(dim) for dim in dims))


def _seed(exporter: Exporter, node: Node) -> dict[str, Any]:
    chosen = node.attributes.seed
    return {"rngSeed": SizeT(chosen if chosen >= 0 else _ANY_SEED + exporter.count), "rngOffset": SizeT(0)}


def _transpose(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    if given.permutation:
        return Written({"axisVec": [_axis(number) for number in given.permutation]})
    return Written({"axis1": _axis(given.axis1), "axis2": _axis(given.axis2)})


def _slice(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    strides = list(getattr(given, "strides", [1] * len(given.axis)))
    if len(given.axis) == 1:
        keys = {"axis": _axis(given.axis[0]), "beginIndex": given.begin[0], "endIndex": given.end[0]}
        return Written({**keys, "sliceStrides": strides[0]})
    axes = [_axis(number) for number in given.axis]
    keys = {"axisVec": axes, "beginIndexVec": list(given.begin), "endIndexVec": list(given.end)}
    return Written({**keys, "sliceStridesVec": strides})


def _splice(exporter: Exporter, node: Node) -> Written:
    return Written({"axis": _axis(node.attributes.axis)})


def _reshape(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    end = _END if given.end_axis == 0 else _axis(given.end_axis)
    dims = tuple(-1 if dim == 0 else dim for dim in given.dims)
    return Written({"newShape": _shape(dims), "beginAxis": _axis(given.begin_axis), "endAxis": end})


def _windows(node: Node) -> dict[str, Any]:
    given = node.attributes
    if given.image_layout != "CHW":
        raise UnsupportedError(
            f"{node.op.name} '{node.name}' has images with channels first in CNTK's order (HWC), which CNTK 2 has not",
            where=node.where,
        )
    return {
        "strides": _shape(given.stride),
        "autoPadding": [bool(flag) for flag in given.auto_padding],
        "lowerPad": _shape(given.lower_pad),
        "upperPad": _shape(given.upper_pad),
    }


def _pooling(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    window = given.kernel_shape or node.inputs[0].known_shape[:0:-1]
    keys: dict[str, Any] = {"poolingType": SizeT(_POOLINGS[given.pool_kind]), **_windows(node)}
    keys |= {"poolingWindowShape": _shape(window), "ceilOutDim": given.ceil_out_dim, "includePad": given.include_pad}
    return Written(keys)


def _unpooling(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    keys = {"poolingType": SizeT(0), "unpoolingWindowShape": _shape(given.kernel_shape)}
    return Written({**keys, **_windows(node)})


def _roi_pooling(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    keys = {"poolingType": SizeT(0), "roiOutputShape": _shape(given.roi_output_shape)}
    return Written({**keys, "spatialScale": float(given.spatial_scale)})


def first_values(weights: Parameter, dims: tuple[int, ...]) -> Any:
    """Return the weights of NDL's convolution, a matrix [maps x kernel], as [kernel x maps], in memory order."""
    assert weights.value is not None
    return weights.value.reshape(-1, dims[-1]).T.reshape(dims[::-1])


def _convolution(exporter: Exporter, node: Node) -> Written:
    if getattr(node.attributes, "sequential", False):
        raise UnsupportedError(
            f"Convolution '{node.name}' runs along sequences, which is not written", where=node.where
        )
    given, weights, data = node.attributes, node.inputs[0], node.inputs[1].known_shape[::-1]
    kernel = (*given.kernel_shape, *data[len(given.kernel_shape) :])
    inputs = [exporter.uids[child] for child in node.inputs]
    maps = node.known_shape[0] if not given.transpose else weights.known_shape[0]
    whole = (*kernel[: len(data) - 1], kernel[len(data) - 1] // max(given.groups, 1), maps)
    if given.convolution_2d or (len(weights.known_shape) == 2 and len(kernel) > 1):
        if not isinstance(weights, Parameter) or given.transpose:
            raise UnsupportedError(
                f"Convolution '{node.name}' takes its weights as a matrix, which CNTK 2 does not", where=node.where
            )
        inputs[0] = exporter.constant(first_values(weights, whole), weights.name, learned=weights.learned)
    keys: dict[str, Any] = {
        **_windows(node),
        "sharing": [bool(flag) for flag in given.sharing],
        "transpose": given.transpose,
        "outputShape": _shape(given.output_shape),
        "maxTempMemSizeInSamples": SizeT(given.max_temp_mem_size_in_samples),
        "kernelShape": _shape(
            weights.known_shape[: -len(data) - 1 : -1] if inputs[0] == exporter.uids[weights] else whole[:-1]
        ),
        "dilation": _shape(given.dilation),
        "groups": SizeT(given.groups),
    }
    return Written(keys, inputs)


def _times(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    inputs = [exporter.uids[child] for child in node.inputs]
    left, right = (child.known_shape[::-1] for child in node.inputs)
    summed = right[:1] if node.op.name == "TransposeTimes" else left[given.output_rank :]
    if len(summed) == 1 and right[: len(summed)] != summed and np.prod(right) == summed[0]:
        inputs[1] = exporter.helper("Reshape", [inputs[1]], {"newShape": _shape(summed)})
    return Written(_product(node), inputs)


def _product(node: Node) -> dict[str, Any]:
    given = node.attributes
    return {"outputRank": SizeT(given.output_rank), "inferInputRankToMap": given.infer_input_rank_to_map}


def _look_up(exporter: Exporter, node: Node) -> Written:
    return Written({"outputRank": SizeT(1), "inferInputRankToMap": -1})


def _normalization(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    return Written(
        {
            "spatial": given.spatial,
            "normalizationTimeConstant": float(given.normalization_time_constant),
            "blendTimeConstant": float(given.blend_time_constant),
            "epsilon": float(given.epsilon),
            "useCuDNNEngine": not given.use_cntk_engine,
            "disableRegularization": given.disable_regularization,
        }
    )


def _by_statistics(exporter: Exporter, node: Node) -> Written:
    """(x - mean) * invStdDev: a difference, then the product that bears the name."""
    x, mean, inverse = (exporter.uids[child] for child in node.inputs)
    return Written(inputs=[exporter.helper("Minus", [x, mean], {}), inverse])


def _from_statistics(exporter: Exporter, node: Node) -> Written:
    """X / invStdDev + mean: a quotient, then the sum that bears the name."""
    x, mean, inverse = (exporter.uids[child] for child in node.inputs)
    deviation = exporter.helper("Reciprocal", [inverse], {})
    return Written(inputs=[exporter.helper("ElementTimes", [x, deviation], {}), mean])


def _dropout(exporter: Exporter, node: Node) -> Written:
    return Written({"dropoutRate": max(float(node.attributes.dropout_rate), 0.0), **_seed(exporter, node)})


def _sample(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    keys = {"numSamples": SizeT(given.num_samples), "allowDuplicates": given.allow_duplicates}
    return Written({**keys, **_seed(exporter, node)})


def _random(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    keys: dict[str, Any] = {"randomDistributionType": given.type, **_seed(exporter, node)}
    keys["randomDistributionArgs"] = [float(number) for number in given.args]
    if not node.inputs:
        keys |= {"newShape": _shape(given.dims), "newDataType": 1}
    return Written(keys)


def finds_one_step(node: Node) -> bool:
    """Whether a Where has no sequences there: it finds one step in each, and nobody has called its axis."""
    return makes_single_steps(node) and not node.attributes.dynamic_axis_name


def _where(exporter: Exporter, node: Node) -> Written:
    return Written({"newDynamicAxes": dynamic_axes(True, BATCH if finds_one_step(node) else node.axis)})


def _to_sequence(exporter: Exporter, node: Node) -> Written:
    return Written({"newDynamicAxes": dynamic_axes(True, node.axis), "sequenceAxis": "toSequence_"})


def _unpack(exporter: Exporter, node: Node) -> Written:
    keys = {"sequenceUnpackPaddingValue": float(node.attributes.padding_value)}
    return Written({**keys, "sequenceUnpackSuppressMaskOutput": True})


def _delay(exporter: Exporter, node: Node) -> Written:
    given, inputs = node.attributes, [exporter.uids[child] for child in node.inputs]
    if len(inputs) == 1:
        inputs.append(exporter.constant(np.array(given.default_hidden_activation)))
    return Written({"offset": SizeT(given.time_step)}, inputs)


def _stack(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    if given.axis != -1:
        raise UnsupportedError(f"OptimizedRNNStack '{node.name}' does not run along sequences", where=node.where)
    keys = {"hiddenSize": SizeT(given.hidden_size), "numLayers": SizeT(given.num_layers)}
    return Written({**keys, "bidirectional": given.bidirectional, "recurrentOp": given.recurrent_op})


def _reduced(number: int) -> Axis:
    found = {
        WHOLE_SAMPLE: Axis(ALL_STATIC, "AllStaticAxes", False),
        EVERYTHING: Axis(ALL, "AllAxes", False),
        SEQUENCE: Axis(NOT_STATIC, SEQUENCE_AXIS, True),
        SAMPLES: Axis(NOT_STATIC, BATCH_AXIS, False),
    }
    return found.get(number) or _axis(number)


def makes_number(node: Node) -> bool:
    """Whether a reduction leaves one number without axes."""
    if node.op.name != "ReduceElements":
        return node.op.name == "SumColumnElements"
    return node.attributes.axis in (WHOLE_SAMPLE, EVERYTHING) and not node.attributes.keeps


def _reduce(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    keys = {"reductionOpName": given.operation, "axis": _reduced(given.axis), "reductionKeepDimensions": given.keeps}
    return Written(keys)


def _sum(exporter: Exporter, node: Node) -> Written:
    return Written({"reductionOpName": "Sum", "axis": _reduced(WHOLE_SAMPLE), "reductionKeepDimensions": False})


def _edit_distance(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    keys: dict[str, Any] = {
        "SubstitutionPenalty": Float(given.substitution_penalty),
        "DeletionPenalty": Float(given.deletion_penalty),
        "InsertionPenalty": Float(given.insertion_penalty),
    }
    ignored = [SizeT(number) for number in given.tokens_to_ignore]
    return Written({**keys, "SquashInputs": given.squash_inputs, "TokensToIgnore": ignored})


def _forward_backward(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    return Written({"BlankTokenId": SizeT(given.blank_token_id % 2**64), "DelayConstraint": given.delay_constraint})


def _negatives(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    numbers = [exporter.constant(np.array([float(number)])) for number in (given.shift, given.negatives)]
    return Written(inputs=[*(exporter.uids[child] for child in node.inputs[:2]), *numbers])


def _one_hot(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    axis = Axis(given.axis, f"staticAxisIdx={given.axis}", True)
    return Written({"numClass": SizeT(given.num_class), "oneHotOutputSparse": False, "onehotAxis": axis})


def _crop(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    known = given.x_offset is not None and given.y_offset is not None
    return Written({"offset": [SizeT(given.x_offset), SizeT(given.y_offset)]} if known else {})


def _pad(exporter: Exporter, node: Node) -> Written:
    given, rank = node.attributes, len(node.known_shape)
    head, foot = ([SizeT(size) for size in (*sizes, *[0] * rank)[:rank]] for sizes in (given.head, given.foot))
    keys: dict[str, Any] = {"paddingHead": head, "paddingFoot": foot, "paddingMode": SizeT(_PADDINGS[given.mode])}
    return Written({**keys, "paddingConstantValue": float(given.value)})


def _squeeze(exporter: Exporter, node: Node) -> Written:
    axes = [_axis(number) for number in node.attributes.axes]
    return Written({"axisVec": axes} if axes else {})


def _fill(exporter: Exporter, node: Node) -> Written:
    return Written({"fillValue": float(node.attributes.fill_value)})


def _eye(exporter: Exporter, node: Node) -> Written:
    return Written({"OutputSparse": False})


def _cast(exporter: Exporter, node: Node) -> Written:
    """Half precision that meets other numbers is single: all parameters are written so, and the original mixes none."""
    kind = node.attributes.new_data_type
    meets = kind == "float16" and not exporter.readers.get(node, set()) <= {"Cast", "Pass"}
    return Written({"newDataType": _TYPES["float" if meets else kind]})


def _elu(exporter: Exporter, node: Node) -> Written:
    if node.attributes.alpha != 1.0:
        raise UnsupportedError(f"ExponentialLinearUnit '{node.name}' has an alpha other than 1", where=node.where)
    return Written()


def _top(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    return Written({"numItems": SizeT(given.k), "axis": _axis(given.axis)})


WRITERS: dict[str, Callable[[Any, Node], Written]] = {
    "TransposeDimensions": _transpose,
    "Slice": _slice,
    "RowStack": _splice,
    "Reshape": _reshape,
    "Pooling": _pooling,
    "MaxUnpooling": _unpooling,
    "ROIPooling": _roi_pooling,
    "Convolution": _convolution,
    "Times": _times,
    "TransposeTimes": _times,
    "LookupTable": _look_up,
    "BatchNormalization": _normalization,
    "PerDimMeanVarNormalization": _by_statistics,
    "PerDimMeanVarDeNormalization": _from_statistics,
    "Dropout": _dropout,
    "RandomSample": _sample,
    "RandomSampleInclusionFrequency": _sample,
    "RandomDistribution": _random,
    "Where": _where,
    "ToSequence": _to_sequence,
    "UnpackSequence": _unpack,
    "PastValue": _delay,
    "FutureValue": _delay,
    "OptimizedRNNStack": _stack,
    "ReduceElements": _reduce,
    "SumColumnElements": _sum,
    "EditDistanceError": _edit_distance,
    "ForwardBackward": _forward_backward,
    "CosDistanceWithNegativeSamples": _negatives,
    "OneHot": _one_hot,
    "Crop": _crop,
    "Pad": _pad,
    "Squeeze": _squeeze,
    "ConstantOp": _fill,
    "EyeLikeOp": _eye,
    "Cast": _cast,
    "ExponentialLinearUnit": _elu,
    "TopK": _top,
}
"""Our op to what is said of its attributes; other ops have none."""
