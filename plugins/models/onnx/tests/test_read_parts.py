"""Bodies and functions of files, what becomes of cells, names of weights, and how much is written out at most."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cntk_model_onnx.check import session_of
from graphs import SAMPLES, Graph, node, number, one, some, whole
from judge import agrees, gap, load, values
from onnx import TensorProto, helper

from cntk_core.api import UnsupportedError

info = helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT


def with_functions(path: Path, nodes: list[Any], *functions: Any) -> Path:
    graph = helper.make_graph(nodes, "g", [info("x", FLOAT, ["N", 3])], [info("y", FLOAT, None)])
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    onnx.save(helper.make_model(graph, opset_imports=versions, functions=functions, ir_version=9), path)
    return path


def judged(path: Path) -> None:
    x = some(SAMPLES, 3)
    (wanted,) = session_of(path).run(None, {"x": x})
    assert gap(values(load(path), {"x": x}, ["y"])["y"], wanted) < 1e-6


def function(name: str, outputs: list[str], nodes: list[Any]) -> Any:
    return helper.make_function("mine", name, ["a"], outputs, nodes, [helper.make_opsetid("", 20)])


PAIR = function("Pair", ["b", "c"], [node("Add", ["a", "a"], ["b"]), node("Mul", ["a", "a"], ["c"])])


@pytest.mark.parametrize("outputs", [["y", ""], ["", "y"], ["y", "z"]], ids=["the first", "the second", "both"])
def test_outputs_of_functions_that_nobody_wants(outputs: list[str], tmp_path: Path) -> None:
    judged(with_functions(tmp_path / "net.onnx", [node("Pair", ["x"], outputs, domain="mine")], PAIR))


def test_functions_may_be_called_as_often_as_one_likes(tmp_path: Path) -> None:
    """How deep they call each other is limited, not how often they are called."""
    half = function("Half", ["b"], [node("Constant", [], ["h"], value_float=0.5), node("Mul", ["a", "h"], ["b"])])
    names = ["x", *(f"t{step}" for step in range(11)), "y"]
    calls = [node("Half", [before], [after], domain="mine") for before, after in pairwise(names)]
    judged(with_functions(tmp_path / "net.onnx", calls, half))


@pytest.mark.parametrize("given", [{}, {"steepness": 0.7}, {"middle": 0.1}, {"steepness": 0.7, "middle": 0.1}])
def test_settings_of_functions(given: dict[str, float], tmp_path: Path) -> None:
    """What the call does not say has the value that the operation has without it; the others stay."""
    inner = node("HardSigmoid", ["a"], ["b"])
    for name, setting in (("alpha", "steepness"), ("beta", "middle")):
        inner.attribute.add(name=name, ref_attr_name=setting, type=onnx.AttributeProto.FLOAT)
    scaled = helper.make_function(
        "mine", "Steep", ["a"], ["c"], [inner, node("LeakyRelu", ["b"], ["c"], alpha=0.3)],
        [helper.make_opsetid("", 20)], attributes=["steepness", "middle"],
    )  # fmt: skip
    judged(with_functions(tmp_path / "net.onnx", [node("Steep", ["x"], ["y"], domain="mine", **given)], scaled))


def test_an_output_that_a_function_lacks(tmp_path: Path) -> None:
    lacking = function("Lacking", ["b", "c"], [node("Add", ["a", "a"], ["b"])])
    path = with_functions(tmp_path / "net.onnx", [node("Lacking", ["x"], ["y", "z"], domain="mine")], lacking)
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    assert str(caught.value) == f"'{path}' has nodes that cannot be read: Lacking 'y': a part of it has no 'c'"


def body(*nodes: Any, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = ("b",)) -> Any:
    return helper.make_graph(
        list(nodes), "body", [info(each, FLOAT, None) for each in inputs], [info(each, FLOAT, None) for each in outputs]
    )


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        (node("Gelu", ["x"], ["b"], domain="com.microsoft"), "a part of it is Gelu, which cannot be read"),
        (node("Strange", ["x"], ["b"]), "a part of it is Strange, which cannot be read"),
        (node("Relu", ["w"], ["b"]), "a part of it has no 'w'"),
    ],
    ids=["of others", "not known", "without its input"],
)
def test_bodies_that_cannot_be_read(inner: Any, why: str, tmp_path: Path) -> None:
    choice = node("If", ["c"], ["y"], then_branch=body(inner), else_branch=body(node("Relu", ["x"], ["b"])), name="if")
    path = Graph([choice], (3,), {"c": True}).save(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    assert str(caught.value) == f"'{path}' has nodes that cannot be read: If 'if': {why}"


def test_a_scan_of_the_first_axis(tmp_path: Path) -> None:
    """Along the first axis and forward, if the file does not say it."""
    step = body(
        node("Add", ["s", "row"], ["new"]), node("Mul", ["new", "new"], ["out"]),
        inputs=("s", "row"), outputs=("new", "out"),
    )  # fmt: skip
    nodes = [
        node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        node("ReduceMean", ["x", "one"], ["first"], keepdims=0),
        node("Scan", ["first", "steps"], ["last", "rows"], body=step, num_scan_inputs=1),
        node("Transpose", ["rows"], ["turned"], perm=[1, 0, 2]),
        node("Flatten", ["turned"], ["flat"]),
        node("Concat", ["flat", "last"], ["y"], axis=1),
    ]
    agrees(Graph(nodes, (4, 2), {"one": whole(1)}), tmp_path)


def test_a_loop_whose_rows_are_constant_at_first(tmp_path: Path) -> None:
    """What it collects of each step stands along the first axis."""
    step = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["s", "x"], ["new"]), node("Identity", ["s"], ["row"])], "step",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("s", FLOAT, None)],
        [info("on", TensorProto.BOOL, []), info("new", FLOAT, None), info("row", FLOAT, None)],
    )  # fmt: skip
    nodes = [
        node("Loop", ["count", "", "zero"], ["last", "rows"], body=step),
        node("Transpose", ["rows"], ["turned"], perm=[1, 0, 2]),
        node("Flatten", ["turned"], ["flat"]),
        node("Concat", ["flat", "last"], ["y"], axis=1),
    ]
    agrees(Graph(nodes, (3,), {"count": np.asarray(3, np.int64), "zero": number([[1.0, 2, 3]] * SAMPLES)},
                 samples=SAMPLES), tmp_path)  # fmt: skip


def test_a_function_of_other_operators_than_the_graph(tmp_path: Path) -> None:
    """Before version 13 a softmax goes along all axes behind the samples."""
    old = helper.make_function("mine", "Old", ["a"], ["b"], [node("Softmax", ["a"], ["b"])],
                               [helper.make_opsetid("", 11)])  # fmt: skip
    nodes = [node("Reshape", ["x", "s"], ["r"]), node("Old", ["r"], ["y"], domain="mine")]
    graph = helper.make_graph(
        nodes, "g", [info("x", FLOAT, ["N", 4])], [info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(whole(0, 2, 2), "s")],
    )  # fmt: skip
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    onnx.save(helper.make_model(graph, opset_imports=versions, functions=[old], ir_version=9), tmp_path / "net.onnx")
    x = some(SAMPLES, 4)
    powers = np.exp(x)
    found = np.asarray(values(load(tmp_path / "net.onnx"), {"x": x}, ["y"])["y"]).reshape(SAMPLES, 4)
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-5)


# -- cells ------------------------------------------------------------------------------------------------


USUAL = [
    (kind, way, ("b", "n", "h")) for kind in ("LSTM", "GRU", "RNN") for way in ("forward", "reverse", "bidirectional")
]


@pytest.mark.parametrize(("kind", "direction", "more"), [*USUAL, ("LSTM", "forward", ())])
def test_usual_cells_become_one_stack(kind: str, direction: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """With all steps and a first state of 0 too, if the file says so; others are written out step by step."""
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    tensors = {"w": some(ways, gates * 3, 2), "r": some(ways, gates * 3, 3), "b": some(ways, gates * 6)}
    offered = {**tensors, "n": whole(4, 4).astype("int32"), "h": number([[[0] * 3] * SAMPLES] * ways)}
    names = [name if name in ("w", "r", *more) else "" for name in ("w", "r", "b", "n", "h")]
    cell = node(
        kind, ["steps", *names], ["all", "last"], hidden_size=3, direction=direction,
        **({"linear_before_reset": 1} if kind == "GRU" else {}),
    )  # fmt: skip
    turns = (("all", [2, 0, 1, 3]), ("last", [1, 0, 2]))
    nodes = [node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]), cell]
    nodes += [node("Transpose", [name], [f"turned {name}"], perm=perm) for name, perm in turns]
    nodes += [node("Flatten", [f"turned {name}"], [f"flat {name}"]) for name, _ in turns]
    nodes.append(node("Concat", ["flat all", "flat last"], ["y"], axis=1))
    graph = Graph(nodes, (4, 2), {name: offered[name] for name in names if name}, samples=SAMPLES)
    ops = [each.op.name for each in load(graph.save(tmp_path / "net.onnx"))]
    assert ops.count("OptimizedRNNStack") == 1
    agrees(graph, tmp_path)


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "name", "learned"),
    [
        ([node("MatMul", ["x", "w"], ["y"])], "w", True),
        ([node("Identity", ["w"], ["v"]), node("MatMul", ["x", "v"], ["y"])], "w", True),
        ([node("Cast", ["w"], ["v"], to=FLOAT), node("MatMul", ["x", "v"], ["y"])], "w", True),
        ([node("Neg", ["w"], ["v"]), node("MatMul", ["x", "v"], ["y"])], "y_constant", False),
    ],
    ids=["as it is", "passed on", "cast", "computed"],
)
def test_weights_of_the_file_keep_their_names(nodes: list[Any], name: str, learned: bool, tmp_path: Path) -> None:
    """What is computed of them is a constant of the node that needs it."""
    network = load(Graph(nodes, (3,), {"w": some(3, 5)}).save(tmp_path / "net.onnx"))
    found = [(each.name, each.needs_gradient, each.learning_rate_multiplier) for each in network.parameters]
    assert found == [(name, learned, float(learned))]


# -- limits -----------------------------------------------------------------------------------------------

LIMITS = {
    "products of many": (one("CumProd", (257,), whole(1), opset=26), "it multiplies 257 elements"),
    "sums of many": (one("CumSum", (4097,), whole(1)), "it adds 4097 elements up"),
    "tiles": (one("Tile", (1,), whole(1, 1025)), "it repeats its input 1025 times"),
    "places": (one("GatherElements", (513,), whole([0], [0]), axis=1, samples=SAMPLES), "it goes through 513 places"),
    "picked": (one("Gather", (2,), whole(*[0, 1] * 512, 0), axis=1), "it picks 1025 elements"),
    "sizes": (one("Resize", (5000,), None, number([1, 1.5]), mode="linear"), "it makes 7500 of 5000 elements"),
    "places that are not there": (
        one("GatherElements", (3,), whole([3], [0]), axis=1, samples=SAMPLES), "it names places that are not there"
    ),
    "places before the first": (
        one("GatherElements", (3,), whole([-4], [0]), axis=1, samples=SAMPLES), "it names places that are not there"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_what_is_too_much_is_refused(name: str, tmp_path: Path) -> None:
    graph, why = LIMITS[name]
    path = graph.save(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    assert str(caught.value).endswith(f"': {why}")


@pytest.mark.parametrize("name", ["Tile", "Gather"])
def test_what_is_just_not_too_much_is_read(name: str, tmp_path: Path) -> None:
    more = {"Tile": whole(1, 1024), "Gather": whole(*[0, 1] * 512)}
    settings = {"axis": 1} if name == "Gather" else {}
    agrees(one(name, (2,), more[name], **settings), tmp_path)


@pytest.mark.parametrize(("size", "read"), [(6, True), (7, False)])
def test_large_constants_are_not_computed(
    size: int, read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cntk_model_onnx.read.folding._BY_ONNX_MOST", 6)
    graph = Graph([node("Erf", ["w"], ["v"]), node("Mul", ["x", "v"], ["y"])], (size,), {"w": some(size)})
    if read:
        agrees(graph, tmp_path)
        return
    with pytest.raises(UnsupportedError, match="Erf 'v': it is computed of large constants"):
        load(graph.save(tmp_path / "net.onnx"))
