"""Operations that go element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from cntk_core.api import Node
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import WHOLE, Array, Constant, Tensor, Unreadable, Value, numbers

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_SAME = {
    "Abs": "Abs", "Cos": "Cosine", "Sin": "Sin", "Tan": "Tan", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan",
    "Sinh": "Sinh", "Cosh": "Cosh", "Asinh": "Asinh", "Acosh": "Acosh", "Atanh": "Atanh", "Erf": "Erf", "Exp": "Exp",
    "Log": "Log", "Sqrt": "Sqrt", "Reciprocal": "Reciprocal", "Neg": "Negate", "Floor": "Floor",
    "Relu": "RectifiedLinear", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Softplus": "SoftPlus", "Softsign": "SoftSign",
    "Add": "Plus", "Sub": "Minus", "Mul": "ElementTimes", "Pow": "Pow", "And": "ElementTimes",
    "Less": "Less", "LessOrEqual": "LessEqual", "Greater": "Greater", "GreaterOrEqual": "GreaterEqual",
    "Equal": "Equal", "Where": "If",
}  # fmt: skip
"""Operations that a network has too."""


def together(reader: Importer, values: Sequence[Value | None]) -> tuple[list[Node], int, int]:
    """Return nodes that can be combined element by element, and where the samples' axis of the result is, and its fold.

    Raises:
        Unreadable: the samples stand at different places.
    """
    present = [value for value in values if value is not None]
    tensors = [value for value in present if isinstance(value, Tensor)]
    rank = max(value.rank for value in present)
    if not tensors:
        raise Unreadable("none of its inputs depends on the data")
    places = {(value.batch_of(rank), value.fold) for value in tensors}
    if len(places) > 1:
        raise Unreadable("the samples of its inputs do not stand along the same axis")
    ((batch, fold),) = places
    nodes: list[Node] = []
    for value in present:
        if isinstance(value, Constant):
            nodes.append(reader.parameter(value, without_samples(value.array, rank, batch, fold)))
        else:
            nodes.append(value.node)
    return nodes, batch, fold


def without_samples(array: Array, rank: int, batch: int, fold: int = 1) -> Array:
    """Return a constant without the axis of the samples, along which it must be the same for all.

    Raises:
        Unreadable: it is not.
    """
    place = batch - (rank - array.ndim)
    if batch == WHOLE or place < 0:
        return array if array.ndim else array.reshape(1)
    if array.shape[place] != 1:
        one = np.take(array, [0], place)
        if fold != 1 or not np.array_equal(array, np.broadcast_to(one, array.shape)):
            raise Unreadable("a constant has other numbers for each sample")
        array = one
    if fold != 1:
        return array
    found = np.squeeze(array, place)
    return found if found.ndim else found.reshape(1)


def _combined(reader: Importer, op: str, values: Sequence[Value | None], **settings: Any) -> Tensor:
    nodes, batch, fold = together(reader, values)
    return Tensor(reader.add(op, nodes, **settings), batch, fold)


def _of(reader: Importer, op: str, value: Value | None, **settings: Any) -> Tensor:
    """An operation of one tensor."""
    if not isinstance(value, Tensor):
        raise Unreadable("its input is constant")
    return Tensor(reader.add(op, [value.node], **settings), value.batch, value.fold)


@reads(*_SAME)
def _same(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return _combined(reader, _SAME[node.op_type], inputs)


@reads("Div")
def _divide(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    left, right = inputs
    if isinstance(right, Constant):
        with np.errstate(divide="ignore"):
            inverse = Constant(np.asarray(1.0 / right.array.astype(np.float64)))
        return _combined(reader, "ElementTimes", [left, inverse])
    return _combined(reader, "ElementTimes", [left, _of(reader, "Reciprocal", right)])


@reads("Min", "Max")
def _extreme(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    found = inputs[0]
    for other in inputs[1:]:
        nodes, batch, fold = together(reader, [found, other])
        kind = "Less" if node.op_type == "Min" else "Greater"
        found = Tensor(reader.add("If", [reader.add(kind, nodes), *nodes]), batch, fold)
    assert found is not None
    return found


@reads("Not")
def _not(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return _combined(reader, "Equal", [inputs[0], Constant(np.zeros(1))])


@reads("Or")
def _or(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return _combined(reader, "Greater", [_combined(reader, "Plus", inputs), Constant(np.zeros(1))])


@reads("Sum", "Mean")
def _sum(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    found = inputs[0]
    for other in inputs[1:]:
        found = _combined(reader, "Plus", [found, other])
    if node.op_type == "Mean":
        found = _combined(reader, "ElementTimes", [found, Constant(np.full(1, 1.0 / len(inputs)))])
    assert found is not None
    return found


@reads("Identity", "Dropout", "Cast")
def _identity(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    if inputs[0] is None:
        raise Unreadable("it has no input")
    return inputs[0]


@reads("Clip")
def _clip(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    given = attributes_of(node)
    limits = [given.get("min", -np.inf), given.get("max", np.inf)]
    for place, name in enumerate(("smallest value", "largest value")):
        if len(inputs) > place + 1 and inputs[place + 1] is not None:
            limits[place] = float(numbers(inputs[place + 1], name).reshape(-1)[0])
    value = inputs[0]
    if not isinstance(value, Tensor):
        raise Unreadable("its input is constant")
    nodes = [*(reader.number(limit) for limit in limits), value.node]
    return Tensor(reader.add("Clip", nodes), value.batch, value.fold)


@reads("Elu", "Selu", "LeakyRelu", "HardSigmoid", "Gelu")
def _with_settings(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    given = attributes_of(node)
    if node.op_type == "Elu":
        return _of(reader, "ExponentialLinearUnit", inputs[0], alpha=given.get("alpha", 1.0))
    if node.op_type == "LeakyRelu":
        return _of(reader, "LeakyReLU", inputs[0], alpha=given.get("alpha", 0.01))
    if node.op_type == "Gelu":
        return _of(reader, "Gelu", inputs[0], approximate=given.get("approximate", "none"))
    return _of(reader, {"Selu": "SELU"}.get(node.op_type, node.op_type), inputs[0], **given)


@reads("PRelu")
def _prelu(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return _combined(reader, "PReLU", [inputs[1], inputs[0]])


@reads("HardSwish")
def _hard_swish(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return _combined(reader, "ElementTimes", [inputs[0], _of(reader, "HardSigmoid", inputs[0], alpha=1 / 6, beta=0.5)])


@reads("Swish")
def _swish(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    alpha = Constant(np.full(1, attributes_of(node).get("alpha", 1.0)))
    share = _of(reader, "Sigmoid", _combined(reader, "ElementTimes", [inputs[0], alpha]))
    return _combined(reader, "ElementTimes", [inputs[0], share])


@reads("Mish")
def _mish(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    share = _of(reader, "Tanh", _of(reader, "SoftPlus", inputs[0]))
    return _combined(reader, "ElementTimes", [inputs[0], share])


@reads("Ceil")
def _ceil(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return _of(reader, "Negate", _of(reader, "Floor", _of(reader, "Negate", inputs[0])))


@reads("Sign")
def _sign(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    zero = Constant(np.zeros(1))
    sides = [_combined(reader, kind, [inputs[0], zero]) for kind in ("Greater", "Less")]
    return _combined(reader, "Minus", sides)
