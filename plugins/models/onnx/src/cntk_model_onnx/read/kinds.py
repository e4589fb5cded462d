"""Whether tensors hold numbers, whole numbers or truth values; a network has numbers alone."""

from __future__ import annotations

from collections.abc import Callable

from onnx import NodeProto, TensorProto

from cntk_model_onnx.read.values import Constant, Value

_TRUTH = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Not", "And", "Or", "Xor", "IsNaN", "IsInf"}
_COUNTS = {"ArgMax", "ArgMin", "Shape", "Size", "NonZero"}
_OF_INPUT = {"Where": 1, "OneHot": 2, "CastLike": 1}
_FLOATS = {TensorProto.UNDEFINED, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}


def kind_of_type(number: int) -> str:
    """Return ``f``, ``i`` or ``b`` for a type of elements as files name it; if it says none, numbers."""
    return "f" if number in _FLOATS else "b" if number == TensorProto.BOOL else "i"


def kind_of_value(value: Value | None) -> str:
    """Return the same for a constant; what is computed are numbers, if nothing else is known."""
    if not isinstance(value, Constant):
        return "f"
    return "f" if value.array.dtype.kind in "fV" else "b" if value.array.dtype.kind == "b" else "i"


def kinds_of(node: NodeProto, kind: Callable[[str], str]) -> list[str]:
    """Return the kinds of the outputs of a node.

    Args:
        node: of the graph.
        kind: the kind of an input by its name.
    """
    name = node.op_type
    if name in _TRUTH:
        found = "b"
    elif name in _COUNTS:
        found = "i"
    elif name == "Cast":
        found = kind_of_type(next((each.i for each in node.attribute if each.name == "to"), TensorProto.FLOAT))
    elif name in ("If", "Loop", "Scan") or not node.input:
        found = "f"
    else:
        found = kind(node.input[min(_OF_INPUT.get(name, 0), len(node.input) - 1)])
    return [found, *(["i"] if name == "TopK" else [found]) * (len(node.output) - 1)]
