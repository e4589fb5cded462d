"""Networks that are made of graphs: names, what learns, what is left out, and what is said of what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graphs import Graph, node, number, one, some, whole
from judge import load, values
from onnx import TensorProto, helper, numpy_helper

from cntk_core.api import CntkError, ModelFormatError, Network, Parameter, UnsupportedError

info = helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT


def text(network: Network) -> list[str]:
    learned = {node.name for node in network if isinstance(node, Parameter) and node.learned}
    return [f"{node.describe()}{' *' if node.name in learned else ''}" for node in network]


def save(path: Path, nodes: list[Any], constants: dict[str, Any], inputs: list[Any], outputs: list[str]) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info(name, FLOAT, None) for name in outputs], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def test_weights_of_the_file_learn_and_keep_their_names(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "W"], ["product"]),
        node("Add", ["product", "b"], ["sum"]),
        node("HardSwish", ["sum"], ["y"]),
        node("Exp", ["sum"], ["unused"]),
    ]
    network = load(Graph(nodes, (2,), {"W": some(2, 3), "b": some(3), "lost": some(3)}).save(tmp_path / "net.onnx"))
    assert text(network) == [
        "x = InputValue () : [2 x *]",
        "W = LearnableParameter () : [3 x 2] *",
        "product = Times (W, x) : [3 x *]",
        "b = LearnableParameter () : [3] *",
        "sum = Plus (product, b) : [3 x *]",
        "y_3 = HardSigmoid (sum) : [3 x *]",
        "y = ElementTimes (sum, y_3) : [3 x *]",
    ]
    assert {role: [one.name for one in group] for role, group in network.roots.items() if group} == {
        "feature": ["x"],
        "output": ["y"],
    }


def test_small_constants_are_one_parameter_that_does_not_learn(tmp_path: Path) -> None:
    nodes = [node("Constant", [], [name], value_floats=[0.5] * size) for name, size in (("a", 1), ("b", 1), ("c", 2))]
    nodes += [node("Mul", ["x", "a"], ["p"]), node("Add", ["p", "b"], ["q"]), node("Sub", ["q", "c"], ["y"])]
    network = load(Graph(nodes, (2,)).save(tmp_path / "net.onnx"))
    assert text(network)[1:] == [
        "p_constant = LearnableParameter () : [1]",
        "p = ElementTimes (x, p_constant) : [2 x *]",
        "q = Plus (p, p_constant) : [2 x *]",
        "y_constant = LearnableParameter () : [2]",
        "y = Minus (q, y_constant) : [2 x *]",
    ]
    assert not any(parameter.needs_gradient for parameter in network.parameters)


@pytest.mark.parametrize(("size", "count"), [(16, 1), (17, 2)])
def test_constants_of_more_elements_are_kept_each_by_itself(size: int, count: int, tmp_path: Path) -> None:
    nodes = [node("Constant", [], [name], value_floats=[0.5] * size) for name in "ab"]
    nodes += [node("Mul", ["x", "a"], ["p"]), node("Add", ["p", "b"], ["y"])]
    assert len(load(Graph(nodes, (size,)).save(tmp_path / "net.onnx")).parameters) == count


def test_one_tensor_that_is_read_twice_is_one_parameter(tmp_path: Path) -> None:
    nodes = [node("Mul", ["x", "w"], ["p"]), node("Mul", ["p", "w"], ["q"]), node("MatMul", ["q", "m"], ["r"]),
             node("MatMul", ["r", "m"], ["y"])]  # fmt: skip
    network = load(Graph(nodes, (3,), {"w": some(3), "m": some(3, 3)}).save(tmp_path / "net.onnx"))
    assert [parameter.name for parameter in network.parameters] == ["w", "m"]


def test_outputs_that_are_inputs_or_come_twice(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["again"]), node("Identity", ["x"], ["same"])]
    path = save(tmp_path / "net.onnx", nodes, {}, [info("x", FLOAT, ["N", 2])], ["y", "again", "same"])
    network = load(path)
    assert [one.name for one in network.roots["output"]] == ["y", "again", "same"]
    found = values(network, {"x": number([[-1, 2]])}, ["y", "again", "same"])
    assert [np.asarray(each).tolist() for each in found.values()] == [[[0, 2]], [[0, 2]], [[-1, 2]]]


def test_names_that_differ_in_case_alone(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["A"]), node("Exp", ["A"], ["a"]), node("Neg", ["a"], ["y"])]
    assert [one.name for one in load(Graph(nodes, (2,)).save(tmp_path / "net.onnx"))] == ["x", "A", "a_2", "y"]


def test_precisions(tmp_path: Path) -> None:
    for kind, wanted in ((np.float32, np.float32), (np.float64, np.float64), (np.float16, np.float32)):
        kinds = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        path = save(tmp_path / "net.onnx", [node("Mul", ["x", "w"], ["y"])], {"w": some(2).astype(kind)},
                    [info("x", kinds, ["N", 2])], ["y"])  # fmt: skip
        network = load(path)
        assert network.dtype == wanted
        assert all(parameter.value.dtype == wanted for parameter in network.parameters if parameter.value is not None)


@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        (["N", 3], "[3 x *]"),
        ([3, "N"], "[3 x *]"),
        (["time", "batch", 2], "[2 x ? x *]"),
        (["a", "b", 2], "[2 x ? x *]"),
        ([4, 3], "[3 x *]"),
        ([4, "size", "Batch_Size"], "[? x 4 x *]"),
    ],
)
def test_which_axis_of_an_input_is_that_of_the_samples(dims: list[Any], shape: str, tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", [node("Relu", ["x"], ["y"])], {}, [info("x", FLOAT, dims)], ["y"])
    assert text(load(path))[0] == f"x = InputValue () : {shape}"


def failure(path: Path, kind: type[CntkError]) -> str:
    with pytest.raises(kind) as caught:
        load(path)
    return str(caught.value).replace(f"'{path}'", "PATH")


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        ([info("x", FLOAT, None)], UnsupportedError, "PATH: the input 'x' is no tensor with a shape"),
        ([info("x", FLOAT, [])], UnsupportedError, "PATH: the input 'x' is no tensor with a shape"),
        ([info("x", FLOAT, [1] * 17)], ModelFormatError, "PATH is damaged: the sizes of 'x' make no sense"),
        ([info("x", FLOAT, ["N", 2**31])], ModelFormatError, "PATH is damaged: the sizes of 'x' make no sense"),
        ([info("x", FLOAT, [2, 3]), info("z", FLOAT, [3, 3])], UnsupportedError,
         "PATH: its inputs are for different numbers of samples"),
    ],
    ids=["no shape", "no axes", "many axes", "a large axis", "two numbers of samples"],
)  # fmt: skip
def test_inputs_that_are_refused(inputs: list[Any], kind: type[CntkError], message: str, tmp_path: Path) -> None:
    nodes = [node("Softmax", ["x"], ["p"]), node("Add", ["p", inputs[-1].name], ["y"])]
    assert failure(save(tmp_path / "net.onnx", nodes, {}, inputs, ["y"]), kind) == message


def test_sizes_that_are_just_small_enough(tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", [node("Relu", ["x"], ["y"])], {}, [info("x", FLOAT, ["N", *[1] * 15])], ["y"])
    assert len(load(path)["x"].known_shape) == 15


def test_further_outputs_are_named(tmp_path: Path) -> None:
    scale = {name: some(2) for name in "smbv"}
    norm = node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "mean", "var"])
    inputs = [info("x", FLOAT, ["N", 2])]
    path = save(tmp_path / "a.onnx", [norm], scale, inputs, ["y", "mean"])
    assert failure(path, UnsupportedError) == (
        "PATH has the output 'mean', a further output of BatchNormalization, which is not read"
    )
    path = save(tmp_path / "b.onnx", [norm, node("Add", ["y", "var"], ["z"], name="sum")], scale, inputs, ["z"])
    assert failure(path, UnsupportedError) == (
        "PATH has nodes that cannot be read: Add 'sum': it needs a further output of BatchNormalization, "
        "which is not read"
    )
    path = save(tmp_path / "c.onnx", [node("Relu", ["x"], ["y"])], {}, inputs, ["z"])
    assert failure(path, ModelFormatError) == "PATH is damaged: nothing computes the output 'z'"
    path = save(tmp_path / "d.onnx", [node("Relu", ["z"], ["y"])], {}, inputs, ["y"])
    assert failure(path, ModelFormatError) == "PATH is damaged: nothing computes the tensor 'z'"


@pytest.mark.parametrize(("count", "rest"), [(20, ""), (21, "; and 1 more"), (25, "; and 5 more")])
def test_twenty_problems_are_listed(count: int, rest: str, tmp_path: Path) -> None:
    nodes = [node("Softmax", ["x"], [f"y{place}"], axis=0, name=f"n{place}") for place in range(count)]
    path = save(tmp_path / "net.onnx", nodes, {}, [info("x", FLOAT, ["N", 2])], ["y0"])
    listed = "; ".join(f"Softmax 'n{place}': it works along the samples of a minibatch" for place in range(20))
    assert failure(path, UnsupportedError) == f"PATH has nodes that cannot be read: {listed}{rest}"


def test_what_reads_something_that_cannot_be_read_is_not_named(tmp_path: Path) -> None:
    nodes = [node("Softmax", ["x"], ["p"], axis=0, name="first"), node("Exp", ["p"], ["q"]), node("Neg", ["q"], ["y"])]
    assert failure(Graph(nodes, (2,)).save(tmp_path / "net.onnx"), UnsupportedError) == (
        "PATH has nodes that cannot be read: Softmax 'first': it works along the samples of a minibatch"
    )


def test_bodies_that_run_too_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = helper.make_graph(
        [node("Add", ["s", "s"], ["new"]), node("Identity", ["going"], ["out"])], "body",
        [info("i", TensorProto.INT64, []), info("going", TensorProto.BOOL, []), info("s", FLOAT, None)],
        [info("out", TensorProto.BOOL, []), info("new", FLOAT, None)],
    )  # fmt: skip
    loop = node("Loop", ["count", "", "x"], ["y"], body=body, name="loop")
    path = Graph([loop], (2,), {"count": np.asarray(3, np.int64)}).save(tmp_path / "net.onnx")
    monkeypatch.setattr("cntk_model_onnx.read.importer._MOST_STEPS", 6)
    assert values(load(path), {"x": number([[1, 2]])}, ["y"])["y"].tolist() == [[8, 16]]
    monkeypatch.setattr("cntk_model_onnx.read.importer._MOST_STEPS", 5)
    assert failure(path, UnsupportedError) == (
        "PATH has nodes that cannot be read: Loop 'loop': it runs too often to be written out"
    )


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (one("Gather", (3,), whole(*[0, 2] * 512 + [0]), axis=1), "it picks 1025 elements"),
        (one("Tile", (2,), whole(1, 1025)), "it repeats its input 1025 times"),
        (one("LRN", (4, 1, 1), size=2), "it has more neighbours on one side"),
        (one("LpNormalization", (3,), p=3), "its norm is neither the first nor the second"),
        (one("Resize", (2,), None, number([2, 1])), "it works along the samples of a minibatch"),
        (one("Resize", (2,), None, number([1, 0])), "its scales make no sense"),
        (one("MatMul", (2, 3), some(2, 3)), "Times 'y': "),
        (one("BatchNormalization", (2,), *[some(2)] * 4, training_mode=1),
         "it does not normalize channels by the statistics of training"),
        (one("InstanceNormalization", (2, 3), some(3), some(3)),
         "its scale and bias must be constant, a number for each channel"),
        (one("ConvTranspose", (2, 3), some(2, 3, 2), auto_pad="SAME_UPPER"), "its padding is not written out"),
    ],
    ids=["many elements", "many times", "even", "a third norm", "samples", "scale", "sizes", "training", "channels",
         "padding"],
)  # fmt: skip
def test_limits(graph: Graph, why: str, tmp_path: Path) -> None:
    said = failure(graph.save(tmp_path / "net.onnx"), UnsupportedError)
    assert said.partition("': ")[2].startswith(why)


@pytest.mark.parametrize("count", [1023, 1024])
def test_as_many_repetitions_as_there_may_be(count: int, tmp_path: Path) -> None:
    network = load(one("Tile", (2,), whole(1, count)).save(tmp_path / "net.onnx"))
    assert network["y"].known_shape == (2 * count,)


@pytest.mark.parametrize("more", [b"\x79" + bytes(8), b"\x7d" + bytes(4), b"\x78\x80\x01", b"\x7a\x02ab"])
def test_fields_of_later_versions_are_passed_over(more: bytes, tmp_path: Path) -> None:
    path = Graph([node("Mul", ["x", "w"], ["y"])], (2,), {"w": some(2)}).save(tmp_path / "net.onnx")
    wanted, content = text(load(path)), path.read_bytes()
    for changed in (more + content, content + more):
        path.write_bytes(changed)
        assert text(load(path)) == wanted


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 12, b"\x08\xff", b"\x08" + b"\x80" * 10 + b"\x01", b"\x79" + bytes(7), b"\x7d" + bytes(3), b"\x7b",
     b"\x02\x01", b"\x7a\x05ab"],
    ids=["nothing", "a long number", "half a number", "eleven bytes", "7 of 8", "3 of 4", "a strange kind", "no number",
         "2 of 5"],
)  # fmt: skip
def test_bytes_that_are_no_message(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert failure(path, ModelFormatError) == "PATH is damaged: it is no message of ONNX, or ends too early"
