"""Nodes of a graph that do not depend on its inputs: sizes of tensors, and what graphs compute of weights."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from cntk_model_onnx.read.values import Array, Constant, Multiple, Unreadable

_MOST = 1 << 26
"""Most elements that a computed constant may have."""


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name; texts are text."""
    found = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, list) and value and isinstance(value[0], bytes):
            value = [each.decode("utf-8", "replace") for each in value]
        found[attribute.name] = value
    return found


def axes_of(node: NodeProto, inputs: Sequence[Array | None], index: int = 1) -> list[int] | None:
    """Return the axes of a node, an input since version 13 of the operators and an attribute before."""
    if len(inputs) > index and inputs[index] is not None:
        return [int(each) for each in np.asarray(inputs[index]).reshape(-1).tolist()]
    given = attributes_of(node).get("axes")
    return None if given is None else list(given)


def _check(count: int) -> None:
    if not 0 <= count <= _MOST:
        raise Unreadable(f"it would make a constant of {count} elements")


def _sizes(values: Array) -> list[int]:
    """Sizes of a constant: along the samples it has one."""
    found = [1 if isinstance(each, Multiple) else int(each) for each in np.asarray(values).reshape(-1).tolist()]
    count = 1
    for each in found:
        count *= each
    _check(count)
    return found


def _constant(node: NodeProto, x: Sequence[Any]) -> Array:
    given = attributes_of(node)
    for name, value in given.items():
        if name == "value":
            return np.asarray(numpy_helper.to_array(value))
        if name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    raise Unreadable("its value is no tensor of numbers")


def _constant_of_shape(node: NodeProto, x: Sequence[Any]) -> Array:
    value = attributes_of(node).get("value")
    fill = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return np.full(_sizes(x[0]), fill.reshape(-1)[0], fill.dtype)


def _expand(node: NodeProto, x: Sequence[Any]) -> Array:
    shape = np.broadcast_shapes(x[0].shape, tuple(_sizes(x[1])))
    _sizes(np.asarray(shape))
    return np.broadcast_to(x[0], shape)


def _range(node: NodeProto, x: Sequence[Any]) -> Array:
    start, limit, step = (each.reshape(-1)[0] for each in x)
    if not step:
        raise Unreadable("its step is 0")
    _check(max(0, int((limit - start) / step)))
    return np.arange(start, limit, step, dtype=x[0].dtype)


def _slice(node: NodeProto, x: Sequence[Any]) -> Array:
    given = attributes_of(node)
    starts, ends = (x[1], x[2]) if len(x) > 2 else (np.asarray(given["starts"]), np.asarray(given["ends"]))
    axes = axes_of(node, x, 3) or list(range(len(starts)))
    steps = x[4].tolist() if len(x) > 4 and x[4] is not None else [1] * len(axes)
    index = [slice(None)] * x[0].ndim
    for axis, *ends_and_step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        index[axis] = slice(*map(int, ends_and_step))
    return np.asarray(x[0][tuple(index)])


def _reshape(node: NodeProto, x: Sequence[Any]) -> Array:
    target = [int(each) for each in x[1].tolist()]
    if not attributes_of(node).get("allowzero", 0):
        target = [x[0].shape[place] if each == 0 else each for place, each in enumerate(target)]
    return np.asarray(x[0].reshape(target))


def _unsqueeze(node: NodeProto, x: Sequence[Any]) -> Array:
    return np.expand_dims(x[0], tuple(axes_of(node, x) or ()))


def _squeeze(node: NodeProto, x: Sequence[Any]) -> Array:
    axes = axes_of(node, x)
    return np.asarray(np.squeeze(x[0], None if axes is None else tuple(axes)))


def _cast(node: NodeProto, x: Sequence[Any]) -> Array:
    if x[0].dtype == object:
        return np.asarray(x[0])
    return np.asarray(x[0].astype(helper.tensor_dtype_to_np_dtype(attributes_of(node)["to"])))


def _concat(node: NodeProto, x: Sequence[Any]) -> Array:
    mixed = any(each.dtype == object for each in x)
    return np.concatenate([each.astype(object) if mixed else each for each in x], axis=attributes_of(node)["axis"])


def _divide(a: Any, b: Any) -> Any:
    if a.dtype == object:
        return a // b
    # Whole quotients are cut, not rounded down.
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)) if b.dtype.kind in "iu" else a / b


def _modulo(node: NodeProto, x: Sequence[Any]) -> Any:
    return (np.fmod if attributes_of(node).get("fmod", 0) else np.mod)(x[0], x[1])


def _matmul(node: NodeProto, x: Sequence[Any]) -> Array:
    _check(x[0].size * x[1].shape[-1])
    return np.asarray(np.matmul(x[0], x[1]))


def _prod(node: NodeProto, x: Sequence[Any]) -> Array:
    given, axes = attributes_of(node), axes_of(node, x)
    kept = bool(given.get("keepdims", 1))
    if x[0].dtype != object:
        none = not axes and given.get("noop_with_empty_axes", 0)
        return np.asarray(x[0] if none else np.prod(x[0], tuple(axes or range(x[0].ndim)), x[0].dtype, keepdims=kept))
    found: Any = 1
    for each in x[0].reshape(-1).tolist():
        found = each * found if isinstance(each, Multiple) else found * each
    return np.asarray(found, object).reshape([1] * x[0].ndim if kept else [])


FOLDS: Mapping[str, Callable[[NodeProto, Sequence[Any]], Any]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Range": _range,
    "Slice": _slice,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Cast": _cast,
    "Concat": _concat,
    "ReduceProd": _prod,
    "Identity": lambda node, x: x[0],
    "Dropout": lambda node, x: x[0],
    "Shape": lambda node, x: np.asarray(
        x[0].shape[attributes_of(node).get("start", 0) : attributes_of(node).get("end")], np.int64
    ),
    "Size": lambda node, x: np.asarray(x[0].size, np.int64),
    "Gather": lambda node, x: np.take(x[0], x[1].astype(np.int64), axis=attributes_of(node).get("axis", 0)),
    "Transpose": lambda node, x: np.transpose(x[0], attributes_of(node).get("perm")),
    "Flatten": lambda node, x: x[0].reshape(int(np.prod(x[0].shape[: attributes_of(node).get("axis", 1)])), -1),
    "Add": lambda node, x: x[0] + x[1],
    "Sub": lambda node, x: x[0] - x[1],
    "Mul": lambda node, x: x[0] * x[1],
    "Div": lambda node, x: _divide(x[0], x[1]),
    "Mod": _modulo,
    "MatMul": _matmul,
    "Abs": lambda node, x: np.abs(x[0]),
    "Floor": lambda node, x: np.floor(x[0]),
    "Neg": lambda node, x: -x[0],
    "Sqrt": lambda node, x: np.sqrt(x[0]),
    "Exp": lambda node, x: np.exp(x[0]),
    "Reciprocal": lambda node, x: 1 / x[0],
    "Pow": lambda node, x: np.power(x[0], x[1]).astype(x[0].dtype),
    "Not": lambda node, x: ~x[0].astype(bool),
    "Equal": lambda node, x: x[0] == x[1],
    "Less": lambda node, x: x[0] < x[1],
    "Greater": lambda node, x: x[0] > x[1],
    "GreaterOrEqual": lambda node, x: x[0] >= x[1],
    "And": lambda node, x: x[0] & x[1],
    "Where": lambda node, x: np.where(x[0], x[1], x[2]),
}
"""Operation to what computes it of constants."""


FOLDED_BY_ONNX = {
    "Acos", "Acosh", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "CastLike", "Ceil", "Clip", "Compress", "Cos", "Cosh", "CumSum", "CumProd",
    "DequantizeLinear", "Einsum", "Elu", "Erf", "EyeLike", "GatherElements", "GatherND", "Gelu", "Gemm", "HardSigmoid",
    "HardSwish", "Hardmax", "IsInf", "IsNaN", "LayerNormalization", "LeakyRelu", "LessOrEqual", "Log", "LogSoftmax",
    "Max", "Mean", "Min", "NonZero", "OneHot", "Or", "PRelu", "Pad", "QuantizeLinear", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare", "Relu",
    "ReverseSequence", "Round", "ScatterElements", "ScatterND", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax",
    "Softplus", "Softsign", "Split", "Sum", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK", "Trilu", "Xor",
}  # fmt: skip
"""What ONNX's own implementation in Python computes of constants."""

_GROWING = {"OneHot", "Pad", "Tile", "Einsum", "Gemm", "EyeLike", "CumSum"}
_BY_ONNX_MOST = 1 << 22


def _by_onnx(node: NodeProto, arrays: Sequence[Array | None], opset: int) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    if sum(each.size for each in arrays if each is not None) > _BY_ONNX_MOST:
        raise Unreadable("it is computed of large constants")
    if node.op_type in _GROWING and sum(_largest(each) for each in arrays if each is not None) > 1 << 12:
        raise Unreadable("it is computed of large constants")
    if node.op_type in _OF_ROWS and opset < _BY_AXIS and arrays[0] is not None:
        return [_of_rows(node, arrays[0])]
    names = [name if array is not None else "" for name, array in zip(node.input, arrays, strict=True)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in dict(zip(names, arrays, strict=True)).items()
        if array is not None
    ]
    wanted = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "constant", infos, wanted)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    found = iter(ReferenceEvaluator(model).run(None, feeds))
    return [np.asarray(next(found)) if name else np.full((), None, object) for name in node.output]


_OF_ROWS = {"Softmax", "LogSoftmax", "Hardmax"}
_BY_AXIS = 13
"""From this version on these go along one axis; before, along all from one on, as ONNX's own code does not."""


def _of_rows(node: NodeProto, array: Array) -> Array:
    begin = attributes_of(node).get("axis", 1) % max(array.ndim, 1)
    rows = array.reshape(math.prod(array.shape[:begin]), -1)
    along = helper.make_node(node.op_type, ["x"], ["y"], axis=1)
    (found,) = _by_onnx(along, [rows], _BY_AXIS)
    return found.reshape(array.shape)


def _largest(array: Array) -> int:
    """How large something may become that is made with an array: its elements, or what they count."""
    if array.dtype.kind not in "iu" or not array.size:
        return 0
    return int(np.abs(array).max())


def folded(node: NodeProto, inputs: Sequence[Constant | None], opset: int) -> Constant | list[Constant]:
    """Return the value of a node whose inputs are constant.

    Raises:
        Unreadable: it is not one that is computed while a file is read.
    """
    arrays = [None if each is None else each.array for each in inputs]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if node.op_type not in FOLDS:
                return [Constant(each) for each in _by_onnx(node, arrays, opset)]
            if node.op_type in _TOGETHER:
                _check(math.prod(np.broadcast_shapes(*(each.shape for each in arrays if each is not None))))
            found = FOLDS[node.op_type](node, arrays)
    except _SENSELESS:
        raise Unreadable("its inputs make no sense") from None
    found = np.asarray(found)
    if found.dtype == object and all(type(each) is int for each in found.reshape(-1).tolist()):
        found = found.astype(np.int64)
    same = node.op_type in ("Identity", "Cast") and inputs and inputs[0] is not None
    return Constant(found, inputs[0].name if same and inputs[0] is not None else "")


_SENSELESS = (
    ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError, NotImplementedError,
    RuntimeError, AssertionError, ImportError,
)  # fmt: skip
_TOGETHER = {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Less", "Greater", "GreaterOrEqual", "And", "Where"}


def folds(name: str) -> bool:
    """Whether an operation is computed of constants."""
    return name in FOLDS or name in FOLDED_BY_ONNX
