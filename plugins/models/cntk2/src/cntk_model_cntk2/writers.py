"""From the attributes of our ops to what a file of CNTK 2 says of a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cntk_core.api import Node, UnsupportedError
from cntk_core.api.builders import BATCH, makes_single_steps
from cntk_model_cntk2 import images
from cntk_model_cntk2.axes import EVERYTHING, SAMPLES, SEQUENCE, WHOLE_SAMPLE, dynamic_axes
from cntk_model_cntk2.values import ALL, ALL_STATIC, BATCH_AXIS, NOT_STATIC, SEQUENCE_AXIS, Axis, Float, SizeT
from cntk_model_cntk2.written import Exporter, Written, shape_of

_END = Axis(NOT_STATIC - 3, "", False)
_ANY_SEED = 2**31
"""From here on seeds are those that nobody has chosen."""

_PADDINGS = {"constant": 0, "reflect": 1, "symmetric": 2}
_TYPES = {"float": 1, "double": 2, "float16": 4}


def _axis(number: int) -> Axis:
    return Axis(number - 1, f"staticAxisIdx={number - 1}", True)


def _seed(exporter: Exporter, node: Node) -> dict[str, Any]:
    seed = node.attributes.seed
    if seed < 0:
        seed = _ANY_SEED + exporter.count + exporter.seeds
        exporter.seeds += 1
    return {"rngSeed": SizeT(seed), "rngOffset": SizeT(0)}


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
    return Written({"newShape": shape_of(dims), "beginAxis": _axis(given.begin_axis), "endAxis": end})


def _times(exporter: Exporter, node: Node) -> Written:
    given = node.attributes
    inputs = [exporter.uids[child] for child in node.inputs]
    left, right = (child.known_shape[::-1] for child in node.inputs)
    summed = right[:1] if node.op.name == "TransposeTimes" else left[given.output_rank :]
    if len(summed) == 1 and right[: len(summed)] != summed and np.prod(right) == summed[0]:
        inputs[1] = exporter.helper("Reshape", [inputs[1]], {"newShape": shape_of(summed)})
    return Written(_product(node), inputs)


def _product(node: Node) -> dict[str, Any]:
    given = node.attributes
    return {"outputRank": SizeT(given.output_rank), "inferInputRankToMap": given.infer_input_rank_to_map}


def _look_up(exporter: Exporter, node: Node) -> Written:
    """A product with the table; several words side by side are the columns of a matrix meanwhile."""
    table, words = (child.known_shape for child in node.inputs)
    product = {"outputRank": SizeT(1), "inferInputRankToMap": -1}
    if words == table[:1]:
        return Written(product)
    weights, uid = (exporter.uids[child] for child in node.inputs)
    columns = exporter.helper("Reshape", [uid], {"newShape": shape_of((table[0], math.prod(words) // table[0]))})
    found = exporter.helper("Times", [weights, columns], product)
    return Written({"newShape": shape_of(node.known_shape[::-1])}, [found], ours="Reshape")


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


def _diag_times(exporter: Exporter, node: Node) -> Written:
    """A product of elements, with the diagonal along all axes or the first."""
    diagonal, data = (child.known_shape for child in node.inputs)
    size = math.prod(diagonal)
    wanted = data if size == math.prod(data) else (size,)
    uid, other = (exporter.uids[child] for child in node.inputs)
    if diagonal != wanted:
        uid = exporter.helper("Reshape", [uid], {"newShape": shape_of(wanted[::-1])})
    return Written(inputs=[uid, other])


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
        keys |= {"newShape": shape_of(given.dims), "newDataType": 1}
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
    "Pooling": images.pooling,
    "MaxPooling": images.image_pooling,
    "AveragePooling": images.image_pooling,
    "MaxUnpooling": images.unpooling,
    "ROIPooling": images.roi_pooling,
    "Convolution": images.convolution,
    "Times": _times,
    "TransposeTimes": _times,
    "DiagTimes": _diag_times,
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
