"""Graphs as a viewer shows them: inputs with their axes, nodes with the names of the network, outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cntk_builder_python import Dense, Graph, Recurrence, RNNStep, relu
from cntk_model_onnx.wire import read_model
from judge import written

from cntk_core.api import Network
from cntk_core.api.builders import initialize_parameters


def axes(info: Any) -> str:
    dims = (str(dim.dim_param or dim.dim_value) for dim in info.type.tensor_type.shape.dim)
    return f"{info.name} [{' x '.join(dims)}]"


def lines(nodes: Any, indent: str = "") -> list[str]:
    found = []
    for node in nodes:
        found.append(f"{indent}{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})")
        for attribute in node.attribute:
            found += lines(attribute.g.node, f"{indent}  ") if attribute.HasField("g") else []
    return found


def text(path: Path) -> str:
    read = read_model(path)
    graph = read.model.graph
    head = [f"input {axes(info)}" for info in graph.input] + [f"tensors {', '.join(sorted(read.tensors))}".rstrip()]
    return "\n".join([*head, *lines(graph.node), *(f"output {axes(info)}" for info in graph.output)])


def made(graph: Graph, *outputs: str) -> Network:
    network: Network = graph.finish()
    network.infer()
    initialize_parameters(network, 1)
    for name in outputs:
        network.mark(network[name], "output")
    return network


def samples() -> Network:
    graph = Graph()
    Dense(2, activation=relu, name="dense")(graph.input("x", (3,))).named("y")
    return made(graph, "y")


def steps(function: Any, axis: str = "") -> Network:
    graph = Graph()
    function(graph.input("x", (3,), axis=axis)).named("y")
    return made(graph, "y")


def words() -> Network:
    """Words by their numbers, along an axis with a name, and their vectors beside them."""
    graph = Graph()
    x = graph.input("words", (5,), sparse=True, axis="s")
    vectors = Dense(2, bias=False, name="table")(x).named("vectors")
    Recurrence(RNNStep(2, name="rnn"))(vectors).named("y")
    return made(graph, "vectors", "y")


def passed_on() -> Network:
    """Two outputs: an input, and a node that nothing names otherwise."""
    graph = Graph()
    x = graph.input("x", (3,))
    relu(x).named("y")
    return made(graph, "x", "y")


CASES: dict[str, tuple[Callable[[], Network], dict[str, str], str]] = {
    "samples": (
        samples,
        {},
        """
input x [N x 3]
tensors dense.W, dense.b
Times = MatMul(x, dense.W)
Plus = Add(Times, dense.b)
y = Relu(Plus)
output y [N x 2]
""",
    ),
    "a named axis": (
        partial(steps, Recurrence(RNNStep(2)), "s"),
        {},
        """
input x [N x T_s x 3]
input s_lengths [N]
tensors constant_1, constant_2, constant_3, constant_4, constant_5, rnn.B, rnn.H, rnn.W
y/Transpose = Transpose(x)
y/Transpose_2 = Transpose(rnn.W)
y/Unsqueeze = Unsqueeze(y/Transpose_2, constant_1)
y/Transpose_3 = Transpose(rnn.H)
y/Unsqueeze_2 = Unsqueeze(y/Transpose_3, constant_1)
y/Concat = Concat(rnn.B, constant_2)
y/Unsqueeze_3 = Unsqueeze(y/Concat, constant_1)
y/Shape = Shape(x)
y/Concat_2 = Concat(y/Shape, constant_4)
y/Expand = Expand(constant_3, y/Concat_2)
y/Unsqueeze_4 = Unsqueeze(y/Expand, constant_1)
y/Cast = Cast(s_lengths)
y/RNN = RNN(y/Transpose, y/Unsqueeze, y/Unsqueeze_2, y/Unsqueeze_3, y/Cast, y/Unsqueeze_4)
y/Squeeze = Squeeze(y/RNN, constant_5)
y = Transpose(y/Squeeze)
output y [N x T_s x 2]
""",
    ),
    "one sequence": (
        partial(steps, Recurrence(RNNStep(2))),
        {"sequences": "one"},
        """
input x [T x 3]
tensors constant_1, constant_2, constant_3, constant_4, constant_5, rnn.B, rnn.H, rnn.W
x/Unsqueeze = Unsqueeze(x, constant_1)
x/Shape = Shape(x/Unsqueeze)
y/Transpose = Transpose(x/Unsqueeze)
y/Transpose_2 = Transpose(rnn.W)
y/Unsqueeze = Unsqueeze(y/Transpose_2, constant_1)
y/Transpose_3 = Transpose(rnn.H)
y/Unsqueeze_2 = Unsqueeze(y/Transpose_3, constant_1)
y/Concat = Concat(rnn.B, constant_2)
y/Unsqueeze_3 = Unsqueeze(y/Concat, constant_1)
y/Shape = Shape(x/Unsqueeze)
y/Concat_2 = Concat(y/Shape, constant_4)
y/Expand = Expand(constant_3, y/Concat_2)
y/Unsqueeze_4 = Unsqueeze(y/Expand, constant_1)
y/Cast = Cast(x/Shape)
y/RNN = RNN(y/Transpose, y/Unsqueeze, y/Unsqueeze_2, y/Unsqueeze_3, y/Cast, y/Unsqueeze_4)
y/Squeeze = Squeeze(y/RNN, constant_5)
y = Transpose(y/Squeeze)
y/Squeeze_2 = Squeeze(y, constant_1)
y_output = Identity(y/Squeeze_2)
output y_output [T x 2]
""",
    ),
    "a loop": (
        partial(steps, Recurrence(RNNStep(2))),
        {"loops": "scan"},
        """
input x [N x T x 3]
tensors constant_1, constant_2, rnn.B, rnn.H, rnn.W
Times = MatMul(x, rnn.W)
recurrence.h/Shape = Shape(x)
recurrence.h/Concat = Concat(recurrence.h/Shape, constant_2)
recurrence.h/Expand = Expand(constant_1, recurrence.h/Concat)
recurrence.h/state/end, y/all = Scan(recurrence.h/Expand, Times)
  Times1/MatMul = MatMul(recurrence.h/state, rnn.H)
  Plus/Add = Add(Times/frame, Times1/MatMul)
  Plus1/Add = Add(Plus/Add, rnn.B)
  y/Sigmoid = Sigmoid(Plus1/Add)
  recurrence.h/Identity = Identity(y/Sigmoid)
  y/Identity = Identity(y/Sigmoid)
y = Identity(y/all)
output y [N x T x 2]
""",
    ),
    "a loop backward of one sequence": (
        partial(steps, Recurrence(RNNStep(2), go_backwards=True)),
        {"loops": "scan", "sequences": "one"},
        """
input x [T x 3]
tensors constant_1, constant_2, constant_3, constant_4, constant_5, constant_6, rnn.B, rnn.H, rnn.W
x/Unsqueeze = Unsqueeze(x, constant_1)
x/Shape = Shape(x/Unsqueeze)
Times = MatMul(x/Unsqueeze, rnn.W)
recurrence.h/Shape = Shape(x/Unsqueeze)
recurrence.h/Concat = Concat(recurrence.h/Shape, constant_3)
recurrence.h/Expand = Expand(constant_2, recurrence.h/Concat)
recurrence.h/Unsqueeze = Unsqueeze(x/Shape, constant_4)
recurrence.h/Shape_2 = Shape(x/Unsqueeze)
recurrence.h/Squeeze = Squeeze(recurrence.h/Shape_2)
recurrence.h/Range = Range(constant_5, recurrence.h/Squeeze, constant_6)
recurrence.h/Less = Less(recurrence.h/Range, recurrence.h/Unsqueeze)
recurrence.h/state/end, y/all = Scan(recurrence.h/Expand, Times, recurrence.h/Less)
  Times1/MatMul = MatMul(recurrence.h/state, rnn.H)
  Plus/Add = Add(Times/frame, Times1/MatMul)
  Plus1/Add = Add(Plus/Add, rnn.B)
  y/Sigmoid = Sigmoid(Plus1/Add)
  recurrence.h/Unsqueeze_2 = Unsqueeze(recurrence.h/Less/frame, constant_4)
  recurrence.h/Where = Where(recurrence.h/Unsqueeze_2, y/Sigmoid, recurrence.h/state)
  recurrence.h/Identity = Identity(recurrence.h/Where)
  y/Identity = Identity(y/Sigmoid)
y/Squeeze = Squeeze(y/all, constant_1)
y = Identity(y/Squeeze)
output y [T x 2]
""",
    ),
    "words by their numbers": (
        words,
        {},
        """
input words [N x T_s]
input s_lengths [N]
tensors constant_1, constant_2, constant_3, constant_4, constant_5, rnn.B, rnn.H, rnn.W, table.W
vectors = Gather(table.W, words)
y/Transpose = Transpose(vectors)
y/Transpose_2 = Transpose(rnn.W)
y/Unsqueeze = Unsqueeze(y/Transpose_2, constant_1)
y/Transpose_3 = Transpose(rnn.H)
y/Unsqueeze_2 = Unsqueeze(y/Transpose_3, constant_1)
y/Concat = Concat(rnn.B, constant_2)
y/Unsqueeze_3 = Unsqueeze(y/Concat, constant_1)
y/Shape = Shape(words)
y/Concat_2 = Concat(y/Shape, constant_4)
y/Expand = Expand(constant_3, y/Concat_2)
y/Unsqueeze_4 = Unsqueeze(y/Expand, constant_1)
y/Cast = Cast(s_lengths)
y/RNN = RNN(y/Transpose, y/Unsqueeze, y/Unsqueeze_2, y/Unsqueeze_3, y/Cast, y/Unsqueeze_4)
y/Squeeze = Squeeze(y/RNN, constant_5)
y = Transpose(y/Squeeze)
output vectors [N x T_s x 2]
output y [N x T_s x 2]
""",
    ),
    "words as vectors": (
        words,
        {"sparse": "dense"},
        """
input words [N x T_s x 5]
input s_lengths [N]
tensors constant_1, constant_2, constant_3, constant_4, constant_5, rnn.B, rnn.H, rnn.W, table.W
vectors = MatMul(words, table.W)
y/Transpose = Transpose(vectors)
y/Transpose_2 = Transpose(rnn.W)
y/Unsqueeze = Unsqueeze(y/Transpose_2, constant_1)
y/Transpose_3 = Transpose(rnn.H)
y/Unsqueeze_2 = Unsqueeze(y/Transpose_3, constant_1)
y/Concat = Concat(rnn.B, constant_2)
y/Unsqueeze_3 = Unsqueeze(y/Concat, constant_1)
y/Shape = Shape(words)
y/Concat_2 = Concat(y/Shape, constant_4)
y/Expand = Expand(constant_3, y/Concat_2)
y/Unsqueeze_4 = Unsqueeze(y/Expand, constant_1)
y/Cast = Cast(s_lengths)
y/RNN = RNN(y/Transpose, y/Unsqueeze, y/Unsqueeze_2, y/Unsqueeze_3, y/Cast, y/Unsqueeze_4)
y/Squeeze = Squeeze(y/RNN, constant_5)
y = Transpose(y/Squeeze)
output vectors [N x T_s x 2]
output y [N x T_s x 2]
""",
    ),
    "an input that is an output": (
        passed_on,
        {},
        """
input x [N x 3]
tensors
y = Relu(x)
x_output = Identity(x)
output x_output [N x 3]
output y [N x 3]
""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written(name: str, tmp_path: Path) -> None:
    make, settings, wanted = CASES[name]
    assert text(written(make(), tmp_path / "net.onnx", **settings)) == wanted.strip()
