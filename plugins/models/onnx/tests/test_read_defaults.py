"""Settings that files leave out, types that inputs have, and bodies and functions inside of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cntk_model_onnx.check import session_of
from graphs import SAMPLES, Graph, node, number, one, some, whole
from judge import agrees, gap, load, values
from onnx import TensorProto, helper, numpy_helper

from cntk_core.api import UnsupportedError

SMALL = number([[0.002, -0.001, 0.004], [0.001, 0.003, -0.005]])
"""Numbers of which the variance is as small as what is added to it."""

DEFAULTS = {
    "LRN": one("LRN", (7, 1, 2), size=5, x=100 * some(2, 7, 1, 2)),
    "BatchNormalization": one("BatchNormalization", (3,), some(3), some(3), some(3), number([0, 1e-5, 3e-5]), x=SMALL),
    "LayerNormalization": one("LayerNormalization", (3,), some(3), x=SMALL),
    "InstanceNormalization": one("InstanceNormalization", (1, 3), some(1), some(1), x=SMALL[:, None]),
    "LpNormalization": one("LpNormalization", (2, 3)),
    **{kind: one(kind, (5,)) for kind in ("Elu", "Selu", "LeakyRelu", "HardSigmoid", "HardSwish", "Celu", "Shrink")},
    **{kind: one(kind, (5,)) for kind in ("Gelu", "Mish", "ThresholdedRelu", "Softplus", "Softsign")},
    "Clip without limits": one("Clip", (5,)),
    "Clip below": one("Clip", (5,), number(-0.5)),
    "Clip above": one("Clip", (5,), None, number(0.5)),
    "Clip of limits that cross": one("Clip", (5,), number(1.0), number(0.5)),
    "Clip before": one("Clip", (5,), opset=6, min=-0.5, max=0.75),
    "Clip before, below": one("Clip", (5,), opset=6, min=-0.5),
    "Gemm": one("Gemm", (3,), some(3, 4)),
    "Gemm with alpha alone": one("Gemm", (3,), some(3, 4), some(4), alpha=0.5),
    "Gemm with beta alone": one("Gemm", (3,), some(3, 4), some(4), beta=0.5),
    "Conv": one("Conv", (1, 4, 5), some(2, 1, 3, 2)),
    "ConvTranspose": one("ConvTranspose", (2, 3), some(2, 3, 2)),
    "MaxPool": one("MaxPool", (1, 4, 5), kernel_shape=[2, 3]),
    "AveragePool": one("AveragePool", (1, 4, 5), kernel_shape=[2, 3]),
    "Trilu": one("Trilu", (3, 3)),
    "DepthToSpace": one("DepthToSpace", (4, 1, 2), blocksize=2),
    "Pad": one("Pad", (3,), whole(0, 1, 0, 2)),
    "Pad before": one("Pad", (3,), opset=10, pads=[0, 1, 0, 2]),
    "Resize": one("Resize", (4,), None, number([1, 1.5])),
    "cubic Resize": one("Resize", (1, 4, 4), None, number([1, 1, 1.5, 1.5]), mode="cubic"),
    "CumSum": one("CumSum", (4,), np.asarray(1, np.int64)),
    "Einsum": one("Einsum", (3,), some(3, 2), equation="bi,ij->bj"),
    "ReduceSum of all": Graph(
        [node("Transpose", ["x"], ["t"]), node("ReduceSum", ["x", "a"], ["s"]), node("Mul", ["x", "s"], ["y"])],
        (3,), {"a": whole(1)},
    ),
    **{
        f"{kind} of {opset}": one(kind, (2, 3), opset=opset)
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (11, 13)
    },
    **{
        f"{kind} of {opset} along axis {axis}": one(kind, (2, 3), opset=opset, axis=axis)
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (11, 13)
        for axis in (1, 2)
    },
    **{
        kind: Graph([node(kind, ["x"], ["i"], axis=1), node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)], (4, 2))
        for kind in ("ArgMax", "ArgMin")
    },
    **{kind: Graph([node(kind, ["x", "c", "x"], ["y"])], (3,), {"c": some(3)}) for kind in ("Sum", "Mean", "Min")},
    "IsInf": Graph(
        [node("IsInf", ["x"], ["t"]), node("Cast", ["t"], ["y"], to=TensorProto.FLOAT)],
        (3,), x=[[np.inf, -np.inf, 0.0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_what_a_file_leaves_out(name: str, tmp_path: Path) -> None:
    agrees(DEFAULTS[name], tmp_path)


# -- types of inputs --------------------------------------------------------------------------------------


def typed(path: Path, kind: int, nodes: list[Any], constants: dict[str, Any], out: int = TensorProto.FLOAT) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    x, y = helper.make_tensor_value_info("x", kind, ["N", 4]), helper.make_tensor_value_info("y", out, None)
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize(
    ("kind", "nodes", "constants"),
    [
        (TensorProto.INT64, [node("Div", ["x", "c"], ["q"])], {"c": whole(2, -2, 3, 3)}),
        (TensorProto.INT32, [node("Div", ["x", "c"], ["q"])], {"c": np.asarray([2, -2, 3, 3], np.int32)}),
        (TensorProto.INT64, [node("Identity", ["x"], ["i"]), node("Div", ["i", "i"], ["q"])], {}),
        (TensorProto.BOOL, [node("Cast", ["x"], ["q"], to=TensorProto.INT64)], {}),
        (TensorProto.FLOAT, [node("Div", ["x", "c"], ["q"])], {"c": number([2, -2, 3, 3])}),
    ],
    ids=["whole", "short", "passed on", "truths", "numbers"],
)
def test_inputs_of_whole_numbers_and_truths(kind: int, nodes: list[Any], constants: Any, tmp_path: Path) -> None:
    path = typed(tmp_path / "net.onnx", kind, [*nodes, node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)], constants)
    x = np.asarray([[7, 7, -7, 8], [-1, -5, 6, -9]]).astype(helper.tensor_dtype_to_np_dtype(kind))
    (wanted,) = session_of(path).run(None, {"x": x})
    found = values(load(path), {"x": x.astype(np.float32)}, ["y"])["y"]
    assert gap(np.asarray(found), wanted) < 1e-6


# -- inside of others -------------------------------------------------------------------------------------


def nested(path: Path, depth: int) -> Path:
    """Functions of which each calls the next; the last one doubles."""
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    functions = [
        helper.make_function("mine", f"F{place}", ["a"], ["b"], [
            node("Add", ["a", "a"], ["b"]) if place == depth else node(f"F{place + 1}", ["a"], ["b"], domain="mine")
        ], versions)
        for place in range(1, depth + 1)
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("F1", ["x"], ["y"], domain="mine", name="call")], "g",
        [info("x", TensorProto.FLOAT, ["N", 2])], [info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=versions, functions=functions, ir_version=9), path)
    return path


def test_functions_call_functions_nine_deep(tmp_path: Path) -> None:
    x = number([[1.0, -2.0]])
    found = values(load(nested(tmp_path / "net.onnx", 9)), {"x": x}, ["y"])["y"]
    assert found.tolist() == [[2.0, -4.0]]
    with pytest.raises(UnsupportedError, match="F1 'call': it calls functions too deep"):
        load(nested(tmp_path / "net.onnx", 10))


def test_a_scan_of_constants(tmp_path: Path) -> None:
    """What is added at each step may be a table of the file, along any of its axes."""
    info = helper.make_tensor_value_info
    step = helper.make_graph(
        [node("Mul", ["s", "row"], ["new"]), node("Identity", ["new"], ["out"])], "step",
        [info("s", TensorProto.FLOAT, None), info("row", TensorProto.FLOAT, None)],
        [info("new", TensorProto.FLOAT, None), info("out", TensorProto.FLOAT, None)],
    )  # fmt: skip
    table = some(2, 3) + 2
    scan = node("Scan", ["x", "t"], ["last", "rows"], body=step, num_scan_inputs=1, scan_input_axes=[1])
    turn = node("Transpose", ["rows"], ["turned"], perm=[1, 0, 2])
    nodes = [scan, turn, node("Flatten", ["turned"], ["flat"]), node("Concat", ["flat", "last"], ["y"], axis=1)]
    agrees(Graph(nodes, (2,), {"t": table}), tmp_path)


# -- samples first ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_cells_with_samples_first_are_those_with_steps_first(kind: str, both: bool, tmp_path: Path) -> None:
    """onnxruntime has no such cells."""
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if both else 1
    states = [some(ways, SAMPLES, 3) / 3, some(ways, SAMPLES, 3)[:, ::-1].copy() / 4][: 2 if kind == "LSTM" else 1]
    weights = {"w": some(ways, gates * 3, 2) / 9, "r": some(ways, gates * 3, 3)[..., ::-1].copy() / 9}
    outputs = ["all", "last", "held"][: len(states) + 1]
    settings = {"hidden_size": 3, "direction": "bidirectional" if both else "forward"}
    names = ["w", "r", "", "", *["h", "c"][: len(states)]]
    after = [node("Reshape", [name, "flat"], [f"f_{name}"]) for name in outputs]
    join = node("Concat", [f"f_{name}" for name in outputs], ["y"], axis=1)
    first = [node(kind, ["x", *names], outputs, layout=1, **settings), *after, join]
    given = {"flat": whole(0, -1)}
    turned = {name: state.swapaxes(0, 1).copy() for name, state in zip("hc", states, strict=False)}
    one_way = Graph(first, (4, 2), {**weights, **given, **turned}, samples=SAMPLES)
    inner = [f"t_{name}" for name in outputs]
    back = [node("Transpose", ["t_all"], ["all"], perm=[2, 0, 1, 3])]
    back += [node("Transpose", [f"t_{name}"], [name], perm=[1, 0, 2]) for name in outputs[1:]]
    steps = [node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node(kind, ["t", *names], inner, **settings)]
    plain = dict(zip("hc", states, strict=False))
    other = Graph([*steps, *back, *after, join], (4, 2), {**weights, **given, **plain}, samples=SAMPLES)
    x = some(SAMPLES, 4, 2)
    found, wanted = (
        np.asarray(values(load(graph.save(tmp_path / f"{place}.onnx")), {"x": x}, ["y"])["y"])
        for place, graph in enumerate((one_way, other))
    )
    assert found.shape == wanted.shape
    assert gap(found, wanted) < 1e-6
    agrees(other, tmp_path)
