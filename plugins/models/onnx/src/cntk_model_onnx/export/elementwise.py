"""Operations that go element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cntk_core.api import Node
from cntk_model_onnx.export.graph import TYPES
from cntk_model_onnx.export.scope import Scope, Value
from cntk_model_onnx.export.table import WRITERS, writes
from cntk_model_onnx.sizes import are_free

_SAME = {
    "Abs": "Abs", "Cosine": "Cos", "Sin": "Sin", "Tan": "Tan", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan",
    "Sinh": "Sinh", "Cosh": "Cosh", "Asinh": "Asinh", "Acosh": "Acosh", "Atanh": "Atanh", "Erf": "Erf", "Exp": "Exp",
    "Negate": "Neg", "Floor": "Floor", "RectifiedLinear": "Relu", "Sigmoid": "Sigmoid", "StableSigmoid": "Sigmoid",
    "Tanh": "Tanh", "SoftSign": "Softsign", "Plus": "Add", "Minus": "Sub", "ElementTimes": "Mul",
}  # fmt: skip
"""Operations that have one of ONNX of the same meaning."""

_COMPARISONS = {"Less": "Less", "LessEqual": "LessOrEqual", "Equal": "Equal", "Greater": "Greater",
                "GreaterEqual": "GreaterOrEqual"}  # fmt: skip

_SMALLEST_LOG, _LOG_FLOOR = 1e-37, -85.1
_SMALLEST_DIVISOR = 1e-30

Compute = Callable[[Scope, Node, Sequence[str]], str]


def _elementwise(*names: str) -> Callable[[Compute], Compute]:
    """Make a function of tensors, which fit each other, the one that writes operations."""

    def add(function: Compute) -> Compute:
        def write(scope: Scope, node: Node, values: Sequence[Value]) -> str:
            rank = max(len(value.shape) for value in values)
            lead = scope.lead_of(node)
            return function(scope, node, [scope.aligned(value, rank, lead) for value in values])

        WRITERS.update(dict.fromkeys(names, write))
        return function

    return add


@_elementwise(*_SAME)
def _same(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op(_SAME[node.op.name], *x)


@_elementwise(*_COMPARISONS)
def _compare(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.to_numbers(scope.op(_COMPARISONS[node.op.name], *x))


@_elementwise("NotEqual")
def _not_equal(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.to_numbers(scope.op("Not", scope.op("Equal", *x)))


@_elementwise("If")
def _if(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("Where", scope.op("Equal", x[0], scope.number(0)), x[2], x[1])


@_elementwise("ExponentialLinearUnit")
def _elu(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("Elu", *x, alpha=float(node.attributes.alpha))


@_elementwise("SELU")
def _selu(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("Selu", *x, alpha=float(node.attributes.alpha), gamma=float(node.attributes.gamma))


@_elementwise("HardSigmoid")
def _hard_sigmoid(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("HardSigmoid", *x, alpha=float(node.attributes.alpha), beta=float(node.attributes.beta))


@_elementwise("LeakyReLU")
def _leaky(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("LeakyRelu", *x, alpha=float(node.attributes.alpha))


@writes("PReLU")
def _prelu(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    rank, lead = max(len(value.shape) for value in values), scope.lead_of(node)
    slope, x = (scope.aligned(value, rank, lead) for value in values)
    if not values[0].lead and len(values[0].shape) <= len(values[1].shape) and node.shape == values[1].shape:
        return scope.op("PRelu", x, slope)
    return scope.op("Where", scope.op("Less", x, scope.number(0)), scope.op("Mul", slope, x), x)


@_elementwise("Gelu")
def _gelu(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("Gelu", *x, approximate=node.attributes.approximate)


@_elementwise("SoftPlus")
def _soft_plus(scope: Scope, node: Node, x: Sequence[str]) -> str:
    steepness = node.attributes.steepness
    if steepness == 1.0:
        return scope.op("Softplus", *x)
    return scope.op("Div", scope.op("Softplus", scope.op("Mul", *x, scope.number(steepness))), scope.number(steepness))


@_elementwise("StraightThrough")
def _sign(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("Where", scope.op("Greater", *x, scope.number(0)), scope.number(1), scope.number(-1))


@_elementwise("Log")
def _log(scope: Scope, node: Node, x: Sequence[str]) -> str:
    small = scope.op("Less", *x, scope.number(_SMALLEST_LOG))
    return scope.op("Where", small, scope.number(_LOG_FLOOR), scope.op("Log", *x))


@_elementwise("Sqrt")
def _sqrt(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("Sqrt", scope.op("Relu", *x))


@_elementwise("Reciprocal")
def _reciprocal(scope: Scope, node: Node, x: Sequence[str]) -> str:
    zero = scope.number(0)
    return scope.op("Where", scope.op("Equal", *x, zero), zero, scope.op("Reciprocal", *x))


@_elementwise("Clip")
def _clip(scope: Scope, node: Node, x: Sequence[str]) -> str:
    low, high, value = x  # where the limits cross, each counts for what is beyond it, the lower one first
    return scope.op("Where", scope.op("Less", value, low), low, scope.op("Min", value, high))


@_elementwise("LogPlus")
def _log_plus(scope: Scope, node: Node, x: Sequence[str]) -> str:
    apart = scope.op("Neg", scope.op("Abs", scope.op("Sub", *x)))
    return scope.op("Add", scope.op("Max", *x), scope.op("Softplus", apart))


@_elementwise("Pow")
def _pow(scope: Scope, node: Node, x: Sequence[str]) -> str:
    exponent = node.inputs[1].value
    if exponent is not None and bool(np.all(exponent >= 0)):
        return scope.op("Pow", *x)
    zero = scope.number(0)
    of_zero = scope.to_numbers(scope.op("Equal", x[1], zero))
    return scope.op("Where", scope.op("Equal", x[0], zero), of_zero, scope.op("Pow", *x))


@_elementwise("PerDimMeanVarNormalization")
def _normalize(scope: Scope, node: Node, x: Sequence[str]) -> str:
    return scope.op("Mul", scope.op("Sub", x[0], x[1]), x[2])


@_elementwise("PerDimMeanVarDeNormalization")
def _denormalize(scope: Scope, node: Node, x: Sequence[str]) -> str:
    value, mean, inverse = x
    floor = scope.op(
        "Where",
        scope.op("Greater", inverse, scope.number(0)),
        scope.number(_SMALLEST_DIVISOR),
        scope.number(-_SMALLEST_DIVISOR),
    )
    small = scope.op("Less", scope.op("Abs", inverse), scope.number(_SMALLEST_DIVISOR))
    return scope.op("Add", scope.op("Div", value, scope.op("Where", small, floor, inverse)), mean)


@_elementwise("ConstantOp")
def _constant(scope: Scope, node: Node, x: Sequence[str]) -> str:
    sizes = scope.op("Shape", *x)
    return scope.op("Expand", scope.number(node.attributes.fill_value), sizes)


@_elementwise("Cast")
def _cast(scope: Scope, node: Node, x: Sequence[str]) -> str:
    wanted = np.dtype({"float16": np.float16, "float": np.float32, "double": np.float64}[node.attributes.new_data_type])
    if wanted.itemsize >= scope.dtype.itemsize:
        return scope.op("Identity", *x)
    return scope.to_numbers(scope.op("Cast", *x, to=TYPES[wanted]))


@_elementwise("EyeLikeOp")
def _eye(scope: Scope, node: Node, x: Sequence[str]) -> str:
    rows, columns = node.known_shape
    if are_free((rows, columns)):  # without samples, so that a matrix is all there is
        return scope.op("EyeLike", *x, dtype=TYPES[scope.dtype])
    zeros = scope.op("Expand", scope.number(0), scope.op("Shape", *x))
    return scope.op("Add", zeros, scope.numbers(np.eye(rows, columns)))


@writes("BroadcastLike")
def _broadcast_like(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    like = values[1] if values[1].lead else values[0]
    return scope.expanded(values[0], node.known_shape, like)
