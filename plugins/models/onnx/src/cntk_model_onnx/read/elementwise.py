"""Operations that go element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from cntk_core.api import Node
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.kinds import kinds_of
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import WHOLE, Array, Constant, Tensor, Unreadable, Value, numbers, operand

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
    made = reader.add(op, nodes, **settings)
    rank = max(value.rank for value in values if value is not None)
    if made.known_shape == (1,) and rank == (fold == 1 and batch != WHOLE):  # a constant has one axis at least
        made = reader.add("Squeeze", [made])
    return Tensor(made, batch, fold)


def of_two(reader: Importer, op: str, left: Value | None, right: Value | None) -> Tensor:
    """Return an operation of two values, element by element."""
    return _combined(reader, op, [left, right])


def chosen(reader: Importer, condition: Value | None, yes: Value | None, no: Value | None) -> Tensor:
    """Return the elements of one value where a condition is not 0, elsewhere those of the other."""
    return _combined(reader, "If", [condition, yes, no])


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
    if reader.kind(node.input[0]) == "i" == reader.kind(node.input[1]):
        return _whole_quotient(reader, left, right)
    if isinstance(right, Constant):
        with np.errstate(divide="ignore"):
            inverse = Constant(np.asarray(1.0 / right.array.astype(np.float64)))
        return _combined(reader, "ElementTimes", [left, inverse])
    return _combined(reader, "ElementTimes", [left, _of(reader, "Reciprocal", right)])


def _inverse(reader: Importer, value: Value | None) -> Value:
    if isinstance(value, Constant):
        with np.errstate(divide="ignore"):
            return Constant(np.asarray(1.0 / value.array.astype(np.float64)))
    return _of(reader, "Reciprocal", value)


def _absolute(reader: Importer, value: Value | None) -> Value:
    return Constant(np.abs(value.array)) if isinstance(value, Constant) else _of(reader, "Abs", value)


def _remainder(reader: Importer, left: Value | None, right: Value | None) -> Tensor:
    """What is left of a division that rounds down. What a rounded quotient misses is put right."""
    share = of_two(reader, "ElementTimes", left, _inverse(reader, right))
    rest = of_two(reader, "Minus", left, of_two(reader, "ElementTimes", _of(reader, "Floor", share), right))
    over = of_two(reader, "GreaterEqual", _absolute(reader, rest), _absolute(reader, right))
    rest = chosen(reader, over, of_two(reader, "Minus", rest, right), rest)
    below = of_two(reader, "Less", of_two(reader, "ElementTimes", rest, right), Constant(np.zeros(1)))
    return chosen(reader, below, of_two(reader, "Plus", rest, right), rest)


def _sign_of(reader: Importer, value: Value | None) -> Value:
    if isinstance(value, Constant):
        return Constant(np.sign(value.array))
    zero = Constant(np.zeros(1))
    sides = [_combined(reader, kind, [value, zero]) for kind in ("Greater", "Less")]
    return _combined(reader, "Minus", sides)


def _whole_quotient(reader: Importer, left: Value | None, right: Value | None) -> Tensor:
    """A division of whole numbers, which rounds to 0."""
    one, other = _absolute(reader, left), _absolute(reader, right)
    exact = of_two(reader, "Minus", one, _remainder(reader, one, other))
    found = of_two(reader, "ElementTimes", exact, _inverse(reader, other))
    found = _of(reader, "Floor", of_two(reader, "Plus", found, Constant(np.full(1, 0.5))))
    signs = _combined(reader, "ElementTimes", [found, _sign_of(reader, left)])
    return of_two(reader, "ElementTimes", signs, _sign_of(reader, right))


@reads("Mod")
def _mod(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    left, right = inputs
    if not attributes_of(node).get("fmod", 0):
        return _remainder(reader, left, right)
    rest = _remainder(reader, _absolute(reader, left), _absolute(reader, right))
    return of_two(reader, "ElementTimes", rest, _sign_of(reader, left))


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


@reads("Identity", "Dropout")
def _identity(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    if inputs[0] is None:
        raise Unreadable("it has no input")
    return inputs[0]


_TYPES: dict[str, Any] = {"f": np.float32, "i": np.int64, "b": np.bool_}


@reads("Cast", "CastLike")
def _cast(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value = inputs[0]
    if value is None:
        raise Unreadable("it has no input")
    (kind, *_), own = kinds_of(node, reader.kind), reader.kind(node.input[0])
    if isinstance(value, Constant):  # cast like a tensor that depends on the data
        plain = value.array.dtype != object
        return Constant(value.array.astype(_TYPES[kind]), value.name) if plain else value
    if kind in ("f", own) or own == "b":
        return value
    if kind == "b":
        return of_two(reader, "NotEqual", value, Constant(np.zeros(1)))
    size = _of(reader, "Floor", _of(reader, "Abs", value))
    return of_two(reader, "ElementTimes", size, _sign_of(reader, value))


@reads("Xor")
def _xor(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return _combined(reader, "NotEqual", inputs)


@reads("IsNaN")
def _is_nan(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return of_two(reader, "NotEqual", inputs[0], inputs[0])


@reads("IsInf")
def _is_infinite(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    given = attributes_of(node)
    sides = [
        of_two(reader, "Equal", inputs[0], Constant(np.full(1, limit)))
        for name, limit in (("detect_negative", -np.inf), ("detect_positive", np.inf))
        if given.get(name, 1)
    ]
    if not sides:
        return of_two(reader, "ElementTimes", of_two(reader, "NotEqual", inputs[0], inputs[0]), Constant(np.zeros(1)))
    return sides[0] if len(sides) == 1 else of_two(reader, "Plus", *sides)


@reads("Round")
def _round(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    return rounded(reader, inputs[0])


def rounded(reader: Importer, value: Value | None) -> Tensor:
    """Round numbers; what is half way goes to the even one."""
    half = of_two(reader, "Plus", value, Constant(np.full(1, 0.5)))
    up = _of(reader, "Floor", half)
    middle = of_two(reader, "Equal", up, half)
    odd = _remainder(reader, up, Constant(np.full(1, 2.0)))
    return of_two(reader, "Minus", up, of_two(reader, "ElementTimes", middle, odd))


@reads("QuantizeLinear")
def _quantized(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, scale, zero = _scaling(node, inputs)
    kind = np.uint8 if operand(inputs, 2) is None else zero.array.dtype
    if not np.issubdtype(kind, np.integer):
        raise Unreadable("it makes no whole numbers")
    found = rounded(reader, of_two(reader, "ElementTimes", value, _inverse(reader, scale)))
    found = of_two(reader, "Plus", found, Constant(zero.array.astype(np.float64)))
    limits = [reader.number(float(limit)) for limit in (np.iinfo(kind).min, np.iinfo(kind).max)]
    return Tensor(reader.add("Clip", [*limits, found.node]), found.batch, found.fold)


@reads("DequantizeLinear")
def _dequantized(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, scale, zero = _scaling(node, inputs)
    shifted = of_two(reader, "Minus", value, Constant(zero.array.astype(np.float64)))
    return of_two(reader, "ElementTimes", shifted, scale)


def _scaling(node: NodeProto, inputs: Sequence[Value | None]) -> tuple[Tensor, Constant, Constant]:
    """What is quantized, its scale and its zero, of all or of each element of an axis."""
    value, scale = inputs[0], numbers(inputs[1], "scale")
    given_zero = operand(inputs, 2)
    zero = np.zeros(scale.shape) if given_zero is None else numbers(given_zero, "zero")
    given = attributes_of(node)
    if not isinstance(value, Tensor) or given.get("block_size", 0) or scale.ndim > 1:
        raise Unreadable("it has scales for blocks")
    if scale.size == 1:
        return value, Constant(scale.reshape(1)), Constant(zero.reshape(1))
    shape = [-1, *[1] * (value.rank - 1 - given.get("axis", 1) % value.rank)]
    return value, Constant(scale.reshape(shape)), Constant(zero.reshape(shape))


@reads("Clip")
def _clip(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    given = attributes_of(node)
    limits = [given.get("min", -np.inf), given.get("max", np.inf)]
    for place, name in enumerate(("smallest value", "largest value")):
        if (limit := operand(inputs, place + 1)) is not None:
            limits[place] = float(numbers(limit, name).reshape(-1)[0])
    value = inputs[0]
    if not isinstance(value, Tensor):
        raise Unreadable("its input is constant")
    limits[0] = min(limits)  # where they cross, the upper one counts
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
    return _sign_of(reader, inputs[0])
