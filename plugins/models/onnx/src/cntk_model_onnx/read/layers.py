"""Convolution, pooling and normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx import NodeProto

from cntk_core.api import Node, Parameter
from cntk_model_onnx.read.borders import padded
from cntk_model_onnx.read.dilated import dilated_pool
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.shapes import tensor, with_shape
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import Constant, Tensor, Unreadable, Value, numbers, operand
from cntk_model_onnx.read.windows import Windows
from cntk_model_onnx.sizes import are_free

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_TIME_CONSTANT = 5000.0
"""Samples after which running statistics forget, where training goes on; ONNX does not say."""


def _image(value: Value | None) -> Tensor:
    found = tensor(value)
    if found.batch or found.fold != 1 or len(found.shape) < 2:
        raise Unreadable("its input has not samples, channels and places, in this order")
    return found


def _with_bias(reader: Importer, found: Node, bias: Value | None, rank: int) -> Node:
    """Add a number for each channel."""
    if bias is None:
        return found
    if not isinstance(bias, Constant):
        raise Unreadable("its bias must be constant")
    return reader.add("Plus", [found, reader.parameter(bias, bias.array.reshape(-1, *[1] * rank))])


@reads("Conv")
def _convolution(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    image, given, weights = _image(inputs[0]), attributes_of(node), numbers(inputs[1], "weights")
    assert isinstance(inputs[1], Constant)
    windows = Windows.of(given, image, weights.shape[2:])
    groups = given.get("group", 1)
    image = windows.placed(reader, image, 0.0)
    found = reader.add(
        "Convolution",
        [reader.parameter(inputs[1], weights), image.node],
        **windows.settings(),
        map_count=(weights.shape[0],),
        dilation=tuple(windows.dilations[::-1]),
        groups=groups,
    )
    bias = operand(inputs, 2)
    return Tensor(_with_bias(reader, found, bias, len(windows.kernel)))


@reads("ConvTranspose")
def _transposed(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    image, given, weights = _image(inputs[0]), attributes_of(node), numbers(inputs[1], "weights")
    assert isinstance(inputs[1], Constant)
    if "output_shape" in given or given.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unreadable("its padding is not written out")
    windows = Windows.of(given, image, weights.shape[2:])
    rank = len(windows.kernel)
    more = list(given.get("output_padding", [0] * rank))
    extra = [max(0, each - high) for each, high in zip(more, windows.upper, strict=True)]
    windows.upper = [max(0, high - each) for each, high in zip(more, windows.upper, strict=True)]
    settings = windows.settings()
    settings["kernel_shape"] = (*settings["kernel_shape"], weights.shape[1])
    settings["lower_pad"], settings["upper_pad"] = (*settings["lower_pad"], 0), (*settings["upper_pad"], 0)
    found = reader.add(
        "Convolution",
        [reader.parameter(inputs[1], weights), image.node],
        **settings,
        map_count=(weights.shape[0],),
        transpose=True,
        dilation=tuple(windows.dilations[::-1]),
        groups=given.get("group", 1),
    )
    wide = padded(reader, Tensor(found), {axis + 1: (0, each) for axis, each in enumerate(extra)})
    bias = operand(inputs, 2)
    return Tensor(_with_bias(reader, wide.node, bias, rank))


@reads("MaxPool", "AveragePool")
def _pool(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    image, given = _image(inputs[0]), attributes_of(node)
    windows = Windows.of(given, image, given["kernel_shape"])
    ceil = bool(given.get("ceil_mode", 0))
    include = bool(given.get("count_include_pad", 0))
    if max(windows.dilations) > 1:
        return dilated_pool(reader, image, windows, average=node.op_type == "AveragePool", include=include, ceil=ceil)
    if node.op_type == "MaxPool":
        image = windows.placed(reader, image, -math.inf, ceil=ceil)
        found = reader.add("Pooling", [image.node], pool_kind="max", **windows.settings())
        return Tensor(found)
    rests = windows.rests(image.shape[1:], ceil=ceil)
    if any(windows.lower + windows.upper):
        if include and not ceil:
            image = windows.placed(reader, image, 0.0)
        elif rests is None or min(rests) < 0:
            raise Unreadable("its windows reach beyond the image, and do not fill it")
        else:  # what is behind the last window does not count
            windows.upper = [max(0, high - rest) for high, rest in zip(windows.upper, rests, strict=True)]
    elif ceil and (rests is None or min(rests) < 0):
        found = reader.add("Pooling", [image.node], pool_kind="average", ceil_out_dim=True, **windows.settings())
        return Tensor(found)
    settings = windows.settings()
    return Tensor(reader.add("Pooling", [image.node], pool_kind="average", include_pad=include, **settings))


@reads("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    image = _image(inputs[0])
    kind = "average" if node.op_type == "GlobalAveragePool" else "max"
    return Tensor(reader.add("Pooling", [image.node], kernel_shape=(), pool_kind=kind, auto_padding=(False,)))


@reads("BatchNormalization")
def _batch_normalization(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    if value.batch or value.fold != 1 or given.get("training_mode", 0) or not given.get("spatial", 1):
        raise Unreadable("it does not normalize channels by the statistics of training")
    parameters = []
    for place, each in enumerate(inputs[1:5]):
        if not isinstance(each, Constant):
            raise Unreadable("its statistics must be constant")
        made = _own_parameter(reader, each)
        if place > 1:
            made.learning_rate_multiplier, made.needs_gradient = 0.0, False
        parameters.append(made)
    found = reader.add(
        "BatchNormalization",
        [value.node, *parameters],
        spatial=True,
        epsilon=given.get("epsilon", 1e-5),
        normalization_time_constant=_TIME_CONSTANT,
    )
    return Tensor(found)


def _own_parameter(reader: Importer, constant: Constant) -> Parameter:
    """A parameter that nothing else has: statistics change with training."""
    return reader.parameter(Constant(constant.array.copy(), constant.name), constant.array.reshape(-1))


@reads("LayerNormalization")
def _layer_normalization(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, given = tensor(inputs[0]), attributes_of(node)
    axis = given.get("axis", -1) % value.rank
    if value.batch >= axis or value.fold != 1:
        raise Unreadable("it works along the samples of a minibatch")
    parameters = []
    for each in inputs[1:3]:
        if isinstance(each, Tensor):
            raise Unreadable("its scale and bias must be constant")
        if each is not None:
            parameters.append(reader.parameter(each, each.array))
    count = value.rank - axis
    settings = {"axes": count, "epsilon": given.get("epsilon", 1e-5)}
    return Tensor(reader.add("LayerNormalization", [value.node, *parameters], **settings), value.batch)


@reads("InstanceNormalization", "GroupNormalization")
def _instance_normalization(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    image, given = _image(inputs[0]), attributes_of(node)
    groups = given.get("num_groups", image.shape[0])
    rank = len(image.shape) - 1
    flat = with_shape(reader, image.node, (groups, -1 if are_free(image.shape) else math.prod(image.shape) // groups))
    found = reader.add("LayerNormalization", [flat], axes=1, epsilon=given.get("epsilon", 1e-5))
    found = with_shape(reader, found, image.shape)
    for kind, each in zip(("ElementTimes", "Plus"), inputs[1:3], strict=True):
        if not isinstance(each, Constant) or each.array.size != image.shape[0]:
            raise Unreadable("its scale and bias must be constant, a number for each channel")
        found = reader.add(kind, [found, reader.parameter(each, each.array.reshape(-1, *[1] * rank))])
    return Tensor(found)


@reads("LRN")
def _response(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    image, given = _image(inputs[0]), attributes_of(node)
    size = given["size"]
    if not size % 2:
        raise Unreadable("it has more neighbours on one side")
    found = reader.add(
        "LocalResponseNormalization",
        [image.node],
        depth_radius=size // 2,
        bias=given.get("bias", 1.0),
        alpha=given.get("alpha", 1e-4) / size,
        beta=given.get("beta", 0.75),
    )
    return Tensor(found)
