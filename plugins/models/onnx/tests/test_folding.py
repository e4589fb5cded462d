"""Nodes that do not depend on the data: what they give is computed while a file is read, as onnxruntime computes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Graph, node, number, some, whole
from judge import agrees, load
from onnx import TensorProto, helper

from cntk_core.api import UnsupportedError


def shown(nodes: list[Any], constants: dict[str, Any], opset: int = 20) -> Graph:
    """A graph that adds the elements of a constant ``r`` to its input."""
    row = [node("Cast", ["r"], ["f"], to=TensorProto.FLOAT), node("Reshape", ["f", "flat"], ["row"])]
    more = {**constants, "flat": whole(1, -1)}
    return Graph([*nodes, *row, node("Add", ["x", "row"], ["y"])], (1,), more, opset=opset)


def of(kind: str, *given: Any, opset: int = 20, outputs: int = 1, which: int = 0, **settings: Any) -> Graph:
    """A node of constants, of which one output is shown; None leaves an input out."""
    named = {f"c{place}": each for place, each in enumerate(given) if each is not None}
    inputs = [f"c{place}" if each is not None else "" for place, each in enumerate(given)]
    names = [f"r{place}" if place != which else "r" for place in range(outputs)]
    return shown([node(kind, inputs, names, **settings)], named, opset)


def filled(value: Any = None) -> Graph:
    given = {} if value is None else {"value": helper.make_tensor("v", TensorProto.INT64, [1], [value])}
    return of("ConstantOfShape", whole(2, 3), **given)


A, B = number([[1.5, -2.0, 4.0], [0.25, 3.0, -1.0]]), number([2.0, 4.0, -0.5])
TRUE, OTHER = np.asarray([True, True, False, False]), np.asarray([True, False, True, False])
NOT_NEGATIVE = np.abs(A)

ARITHMETIC = {
    **{kind: of(kind, A, B) for kind in ("Add", "Sub", "Mul", "Div", "Equal", "Less", "Greater", "GreaterOrEqual")},
    **{f"{kind} of equal ones": of(kind, A, A) for kind in ("Equal", "Less", "Greater", "GreaterOrEqual")},
    **{kind: of(kind, A) for kind in ("Abs", "Floor", "Neg", "Exp", "Reciprocal", "Identity", "Size")},
    "Sqrt": of("Sqrt", NOT_NEGATIVE),
    "Pow": of("Pow", NOT_NEGATIVE, B),
    "Pow of whole numbers": of("Pow", whole(2, 3, -1), whole(3, 0, 2)),
    "Div of whole numbers": of("Div", whole(7, -7, 7, -7, 6), whole(2, 2, -2, -2, 3)),
    "Mod": of("Mod", whole(7, -7, 7, -7, 6), whole(3, 3, -3, -3, 3)),
    "Mod with the sign of the first": of("Mod", whole(7, -7, 7, -7), whole(3, 3, -3, -3), fmod=1),
    "Mod of numbers": of("Mod", A, B, fmod=1),
    "Not": of("Not", TRUE),
    "And": of("And", TRUE, OTHER),
    "Where": of("Where", OTHER, number([1, 2, 3, 4]), number([5, 6, 7, 8])),
    "MatMul": of("MatMul", A, some(3, 4)),
    "MatMul of vectors": of("MatMul", B, B),
    "Dropout": of("Dropout", A),
}

SHAPES = {
    "filled with 0": filled(),
    "filled with a number": filled(7),
    "Expand": of("Expand", some(3, 1), whole(2, 1, 4)),
    "Expand to less": of("Expand", some(3, 4), whole(1)),
    "Range": of("Range", number(1), number(4.5), number(0.75)),
    "Range down": of("Range", np.asarray(5, np.int64), np.asarray(-2, np.int64), np.asarray(-3, np.int64)),
    "Concat with none": of("Concat", some(2), some(0), axis=0),
    "Slice": of("Slice", some(5, 6), whole(1, -4), whole(4, 6)),
    "Slice of axes": of("Slice", some(5, 6), whole(1, -4), whole(4, 6), whole(1, 0)),
    "Slice with steps": of("Slice", some(5, 6), whole(1, 0), whole(6, 5), whole(1, 0), whole(2, 3)),
    "Slice back to the begin": of("Slice", some(5, 2), whole(-1), whole(-(2**63)), whole(0), whole(-2)),
    "Slice back to a place": of("Slice", some(5, 2), whole(-1), whole(1), whole(0), whole(-1)),
    "Slice by attributes": of("Slice", some(5, 6), opset=9, starts=[1, 2], ends=[4, 5], axes=[1, 0]),
    "Slice of the first axes": of("Slice", some(5, 6), opset=9, starts=[1, 2], ends=[4, 5]),
    "Reshape": of("Reshape", some(2, 6), whole(3, -1)),
    "Reshape that keeps sizes": of("Reshape", some(2, 6), whole(0, 3, -1)),
    "Unsqueeze": of("Unsqueeze", some(2, 3), whole(0, -1)),
    "Unsqueeze by an attribute": of("Unsqueeze", some(2, 3), opset=11, axes=[1]),
    "Squeeze": of("Squeeze", some(1, 3, 1), whole(2)),
    "Squeeze of all": of("Squeeze", some(1, 3, 1)),
    "Cast": of("Cast", number([1.7, -1.7, 0.2]), to=TensorProto.INT64),
    "Cast to truths": of("Cast", number([1.7, 0.0, -2.0]), to=TensorProto.BOOL),
    "Concat": of("Concat", some(2, 3), some(2, 2), axis=1),
    "Gather": of("Gather", some(4, 3), whole(2, -1)),
    "Gather of columns": of("Gather", some(4, 3), whole(2, 0), axis=1),
    "Transpose": of("Transpose", some(2, 3, 4), perm=[1, 2, 0]),
    "Transpose of all axes": of("Transpose", some(2, 3, 4)),
}


def sized(*nodes: Any, shape: tuple[int, ...] = (2, 3, 4), **more: Any) -> Graph:
    """What the sizes ``s`` of a constant ``r0`` are."""
    return shown([*nodes, node("Shape", ["r0"], ["r"])], {"a": some(*shape), **more})


SIZES = {
    "of a constant": of("Shape", some(2, 3, 4)),
    "of some axes": of("Shape", some(2, 3, 4, 5), start=1, end=-1),
    "from an axis on": of("Shape", some(2, 3, 4, 5), start=-2),
    "flat": sized(node("Flatten", ["a"], ["r0"])),
    "flat in one row": sized(node("Flatten", ["a"], ["r0"], axis=0)),
    "flat behind": sized(node("Flatten", ["a"], ["r0"], axis=2)),
    "flat from the end": sized(node("Flatten", ["a"], ["r0"], axis=-1)),
    "of products": sized(node("ReduceProd", ["a", "n"], ["r0"]), n=whole(1)),
    "of products without the axis": sized(node("ReduceProd", ["a", "n"], ["r0"], keepdims=0), n=whole(1)),
    "of a product of all": sized(node("ReduceProd", ["a"], ["r0"])),
    "of no product": sized(node("ReduceProd", ["a"], ["r0"], noop_with_empty_axes=1)),
    "with more axes": sized(node("Unsqueeze", ["a", "n"], ["r0"]), n=whole(1, -1)),
    "with fewer axes": sized(node("Squeeze", ["a", "n"], ["r0"]), shape=(1, 3, 1), n=whole(0)),
    "with none of 1": sized(node("Squeeze", ["a"], ["r0"]), shape=(1, 3, 1)),
    "expanded": sized(node("Expand", ["a", "n"], ["r0"]), shape=(3, 1), n=whole(2, 1, 4)),
    "a scan of no elements": sized(node("Reshape", ["a", "n"], ["r0"], allowzero=1), shape=(0, 3), n=whole(3, 0)),
}

PRODUCTS = {
    "of rows": of("ReduceProd", some(2, 3), whole(1)),
    "of columns": of("ReduceProd", some(2, 3), whole(0), keepdims=0),
    "of all": of("ReduceProd", some(2, 3)),
    "of none": of("ReduceProd", some(2, 3), whole(), noop_with_empty_axes=1),
    "of whole numbers": of("ReduceProd", whole([2, 3], [4, 5]), whole(0)),
}

BY_ONNX = {
    "Clip below": of("Clip", A, number(0.0)),
    "Clip above": of("Clip", A, None, number(1.0)),
    "the largest": of("TopK", A, whole(2), outputs=2),
    "the places of the largest": of("TopK", A, whole(2), outputs=2, which=1),
    "the first part": of("Split", some(4, 2), outputs=2, num_outputs=2),
    "the last part": of("Split", some(4, 2), outputs=2, which=1, num_outputs=2),
    "sums": of("ReduceSum", A, whole(0)),
    "repetitions": of("Tile", A, whole(2, 3)),
    "a norm": of("LayerNormalization", A, B, outputs=1),
    **{
        f"{kind} of {opset}": of(kind, some(2, 3, 2) / 4, opset=opset)
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (11, 13)
    },
    "an axis of an old version": of("Softmax", some(2, 3, 2) / 4, opset=11, axis=-1),
    "all axes of an old version": of("Softmax", some(2, 3, 2) / 4, opset=11, axis=0),
}

KINDS = {"arithmetic": ARITHMETIC, "shapes": SHAPES, "sizes": SIZES, "products": PRODUCTS, "ONNX's own": BY_ONNX}


@pytest.mark.parametrize(
    "graph",
    [pytest.param(graph, id=f"{kind}: {name}") for kind, graphs in KINDS.items() for name, graph in graphs.items()],
)
def test_what_is_computed_of_constants(graph: Graph, tmp_path: Path) -> None:
    agrees(graph, tmp_path)


MOST = 1 << 26
LARGE = "it is computed of large constants"


def large(count: int) -> str:
    return f"it would make a constant of {count} elements"


REFUSED = {
    "a range": (of("Range", np.asarray(0, np.int64), np.asarray(MOST + 1, np.int64), np.asarray(1, np.int64)),
                large(MOST + 1)),
    "a filled one": (of("ConstantOfShape", whole(MOST, 2)), large(2 * MOST)),
    "an expanded one": (of("Expand", some(2, 1), whole(1, MOST)), large(2 * MOST)),
    "a sum": (of("Add", np.zeros((1 << 13, 1), np.float32), np.zeros((1, (1 << 13) + 1), np.float32)),
              large((1 << 26) + (1 << 13))),
    "a product": (of("MatMul", np.zeros((1 << 13, 1), np.float32), np.zeros((1, (1 << 13) + 1), np.float32)),
                  large((1 << 26) + (1 << 13))),
    "repetitions": (of("Tile", some(1), whole((1 << 12) + 1)), LARGE),
    "more than one of many": (of("Softplus", np.zeros((1 << 22) + 1, np.float32)), LARGE),
    "sizes that do not fit": (of("Add", some(2), some(3)), "its inputs make no sense"),
    "an axis that there is not": (of("Concat", some(2), some(3), axis=1), "its inputs make no sense"),
    "a constant of text": (shown([node("Constant", [], ["r"], value_string="text")], {}),
                           "its value is no tensor of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_computed_of_constants(name: str, tmp_path: Path) -> None:
    graph, why = REFUSED[name]
    path = graph.save(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    said = str(caught.value).removeprefix(f"'{path}' has nodes that cannot be read: ")
    assert said.partition("': ")[2] == why


@pytest.mark.parametrize(
    "graph",
    [of("Tile", some(1), whole(1 << 12)), of("Pad", some(2), whole(0, 1 << 12))],
    ids=["repetitions", "a border"],
)
def test_constants_that_are_just_small_enough(graph: Graph, tmp_path: Path) -> None:
    agrees(graph, tmp_path)
