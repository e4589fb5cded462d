"""Loops, conditions and functions of other programs' graphs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cntk_model_onnx.check import session_of
from judge import load, values
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cntk_core.api import Network, UnsupportedError

F, WHOLE, TRUTH = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def number(values: Any) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)


def whole(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)


info = helper.make_tensor_value_info
node = helper.make_node


def network(path: Path, nodes: list[Any], shape: list[Any], constants: dict[str, Any], **more: Any) -> Network:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [info("x", F, shape)], [info("y", F, None)], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], **more), path)
    return load(path)


def loop_body(*, going: str = "going") -> onnx.GraphProto:
    """A step: ``s = s * W + x``, and what it gives is twice the state."""
    weights = numpy_helper.from_array(number([2.0, 3.0]), "W")
    nodes = [
        node("Mul", ["s", "W"], ["scaled"]),
        node("Add", ["scaled", "x"], ["new"]),
        node("Add", ["new", "new"], ["row"]),
        node("Identity", ["going"], ["going_out"]) if going else node("Less", ["total", "limit"], ["going_out"]),
    ]
    if not going:
        nodes.insert(3, node("ReduceSum", ["new", "axis"], ["total"], keepdims=0))
    return helper.make_graph(
        nodes,
        "body",
        [info("i", WHOLE, []), info("going", TRUTH, []), info("s", F, None)],
        [info("going_out", TRUTH, []), info("new", F, None), info("row", F, None)],
        [weights, numpy_helper.from_array(number(9.0), "limit"), numpy_helper.from_array(whole([-1]), "axis")],
    )


def test_a_loop_of_a_known_number_of_steps(tmp_path: Path) -> None:
    loop = node("Loop", ["count", "", "x"], ["last", "rows"], body=loop_body())
    made = network(tmp_path / "net.onnx", [loop, node("Identity", ["rows"], ["y"])], ["N", 2], {"count": whole(3)})
    x = number([[1.0, 2.0], [0.5, -1.0]])
    states = [x * [3.0, 4.0]]
    for _ in range(2):
        states.append(states[-1] * [2.0, 3.0] + x)
    found = values(made, {"x": x}, ["y"])["y"]
    np.testing.assert_allclose(found, 2 * np.stack(states, 1), atol=1e-5)
    assert [parameter.name for parameter in made.parameters if parameter.learned] == ["W"]


def test_a_loop_of_an_unknown_number_of_steps(tmp_path: Path) -> None:
    loop = node("Loop", ["count", "", "x"], ["y", "rows"], body=loop_body(going=""), name="loop")
    path = tmp_path / "net.onnx"
    with pytest.raises(UnsupportedError, match=re.escape("Loop 'loop': how many steps it takes is known only with")):
        network(path, [loop], ["N", 2], {"count": whole(3)})
    with pytest.raises(UnsupportedError, match="Loop 'loop': it takes more than 512 steps"):
        network(path, [node("Loop", ["", "", "x"], ["y", "rows"], body=loop_body(), name="loop")], ["N", 2], {})


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan(backward: int, tmp_path: Path) -> None:
    step = helper.make_graph(
        [node("Add", ["s", "row"], ["new"]), node("Identity", ["new"], ["out"])],
        "step", [info("s", F, None), info("row", F, None)], [info("new", F, None), info("out", F, None)],
    )  # fmt: skip
    zero = np.zeros((1, 2), np.float32)
    scan = node(
        "Scan", ["zero", "x"], ["last", "y"], body=step, num_scan_inputs=1, scan_input_axes=[1],
        scan_output_axes=[1], scan_input_directions=[backward], scan_output_directions=[backward],
    )  # fmt: skip
    made = network(tmp_path / "net.onnx", [scan], ["N", 4, 2], {"zero": zero})
    x = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    wanted = x[:, ::-1].cumsum(1)[:, ::-1] if backward else x.cumsum(1)
    np.testing.assert_allclose(values(made, {"x": x}, ["y"])["y"], wanted, atol=1e-6)


def branch(kind: str) -> onnx.GraphProto:
    return helper.make_graph([node(kind, ["x"], [kind])], kind, [], [info(kind, F, None)])


@pytest.mark.parametrize(("condition", "wanted"), [(True, 2.0), (False, -2.0)])
def test_a_condition_that_is_known(condition: bool, wanted: float, tmp_path: Path) -> None:
    chosen = node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))
    made = network(tmp_path / "net.onnx", [chosen], ["N", 1], {"c": np.bool_(condition)})
    assert values(made, {"x": number([[2.0]])}, ["y"])["y"] == [[wanted]]


def test_a_condition_of_each_sample(tmp_path: Path) -> None:
    """Elsewhere such a file runs for one sample at a time; here samples are chosen one by one."""
    nodes = [
        node("ReduceMax", ["x", "axis"], ["largest"], keepdims=0),
        node("Greater", ["largest", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"), name="if"),
    ]
    constants = {"axis": whole([1]), "zero": number(0.0)}
    made = network(tmp_path / "net.onnx", nodes, ["N", 2], constants)
    x = number([[2.0, -3.0], [-4.0, -5.0], [-1.0, 1.0]])
    found = values(made, {"x": x}, ["y"])["y"]
    assert found.tolist() == [[2.0, 0.0], [4.0, 5.0], [0.0, 1.0]]
    session = session_of(tmp_path / "net.onnx")
    for row, wanted in zip(x, found, strict=True):
        np.testing.assert_array_equal(session.run(None, {"x": row[None]})[0][0], wanted)


def test_conditions_that_are_refused(tmp_path: Path) -> None:
    chosen = node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"), name="if")
    greater = node("Greater", ["x", "zero"], ["c"])
    with pytest.raises(UnsupportedError, match="If 'if': its condition is more than one truth"):
        network(tmp_path / "net.onnx", [greater, chosen], ["N", 2], {"zero": number(0.0)})
    constant = [
        helper.make_graph([node("Identity", [name], [f"{name}_out"])], name, [], [info(f"{name}_out", F, None)])
        for name in ("one", "two")
    ]
    chosen = node("If", ["c"], ["y"], then_branch=constant[0], else_branch=constant[1], name="if")
    numbers = {"zero": number(0.0), "one": number([1.0]), "two": number([2.0])}
    with pytest.raises(UnsupportedError, match="If 'if': none of its inputs depends on the data"):
        network(tmp_path / "net.onnx", [greater, chosen], ["N", 1], numbers)


def test_functions_of_a_file(tmp_path: Path) -> None:
    inner = [node("Mul", ["a", "b"], ["p"]), node("LeakyRelu", ["p"], ["r"])]
    inner[1].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function(
        "mine", "Scaled", ["a", "b"], ["r"], inner, [helper.make_opsetid("", 20)], attributes=["slope"]
    )
    call = node("Scaled", ["x", "w"], ["y"], domain="mine", slope=0.5)
    made = network(tmp_path / "net.onnx", [call], ["N", 2], {"w": number([1.0, -2.0])}, functions=[function])
    assert values(made, {"x": number([[2.0, 3.0]])}, ["y"])["y"].tolist() == [[2.0, -3.0]]


def test_what_onnx_defines_by_others_is_read_by_its_definition(tmp_path: Path) -> None:
    made = network(tmp_path / "net.onnx", [node("Celu", ["x"], ["y"], alpha=2.0)], ["N", 2], {})
    found = values(made, {"x": number([[-1.0, 3.0]])}, ["y"])["y"]
    np.testing.assert_allclose(found, [[2 * np.expm1(-0.5), 3.0]], rtol=1e-5)


def test_inputs_without_samples(tmp_path: Path) -> None:
    """Of a graph of fixed sizes that mixes what would be samples all is one value."""
    made = network(tmp_path / "net.onnx", [node("MatMul", ["x", "x"], ["y"])], [3, 3], {})
    x = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    np.testing.assert_allclose(values(made, {"x": x}, ["y"])["y"], x @ x, atol=1e-6)
    with pytest.raises(UnsupportedError):
        network(tmp_path / "net.onnx", [node("MatMul", ["x", "x"], ["y"])], ["N", "M"], {})
