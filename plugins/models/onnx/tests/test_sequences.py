"""Networks with sequences: loops, stacks, attention, frames chosen and moved; judged by onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cntk_model_onnx.wire import read_model
from judge import difference, gap_between, load, same, stripped, written

from cntk_core.api import Network, UnsupportedError
from cntk_testing.networks import Sketch
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, SequenceSketch

OVER_ALL = {"opened", "reduced"}
"""Networks that compute something of all sequences together, so that one alone gives another value."""

REFUSED = {"accumulated", "convolved", "linear_chain", "side_by_side"}
OF_GRADIENTS = {"AttentionMemory", "AttentionProducts"}
NAMES = [
    name
    for name, make in SEQUENCE_SAMPLES.items()
    if name not in REFUSED and OF_GRADIENTS.isdisjoint(node.op.name for node in make("float32").network)
]


def network(name: str) -> Network:
    made = SEQUENCE_SAMPLES[name]("float32")
    made.network.roots["output"] = list(made.roots)
    return made.network


@pytest.mark.parametrize("name", NAMES)
def test_padded_sequences_with_their_lengths(name: str, tmp_path: Path) -> None:
    made = network(name)
    path = tmp_path / "net.onnx"
    assert difference(made, path) < 1e-6
    back = load(path)
    same(back, made)
    assert gap_between(made, back) == 0


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OVER_ALL])
def test_one_sequence(name: str, tmp_path: Path) -> None:
    assert difference(network(name), tmp_path / "net.onnx", sequences="one") < 1e-6


def test_best_paths(tmp_path: Path) -> None:
    made = network("linear_chain")
    made.roots["output"] = [made["path"]]
    for settings in ({}, {"sequences": "one"}):
        assert difference(made, tmp_path / "net.onnx", **settings) == 0


def delays(made: SequenceSketch, op: str, step: int, *initial: float) -> Network:
    table = made.network
    attributes = type(made.delay()[0].attributes)((), step, 0.25)
    more = [made.given(f"state{step}{op}", np.array(initial))] if initial else []
    root = made.op(op, made.x, *more, attributes=attributes, name=f"{op}{step}")
    for node in [node for node in table if not node.inputs and node.op.name in ("PastValue", "FutureValue")]:
        table.remove(node)
    table.infer()
    table.roots["output"] = [root]
    return table


@pytest.mark.parametrize("op", ["PastValue", "FutureValue"])
@pytest.mark.parametrize("step", [1, 3, 9])
@pytest.mark.parametrize("initial", [(), (1.0, 2.0, 3.0)])
def test_delays_outside_of_loops(op: str, step: int, initial: tuple[float, ...], tmp_path: Path) -> None:
    made = delays(SequenceSketch("float32"), op, step, *initial)
    for settings in ({}, {"sequences": "one"}):
        assert difference(made, tmp_path / "net.onnx", **settings) == 0


def test_sparse_inputs(tmp_path: Path) -> None:
    made = Sketch("float32")
    from cntk_core.api import Input

    words = made.network.add(Input.make("words", (7,), sparse=True))
    embedded = made.op("Times", made.parameter("E", 7, 3), words, name="embedded")
    root = made.op("RowStack", embedded, words, name="both")
    made.finish(None, root)
    made.network.roots["output"] = [root]
    for settings in ({}, {"sparse": "dense"}):
        assert difference(made.network, tmp_path / "net.onnx", **settings) < 1e-6


@pytest.mark.parametrize(
    ("op", "step", "default", "zero", "simple"),
    [
        ("PastValue", 1, 1.0, True, True),
        ("FutureValue", 1, 1.0, True, True),
        ("PastValue", 2, 1.0, True, False),
        ("PastValue", 1, 0.0, True, False),
        ("FutureValue", 1, 1.0, False, False),
    ],
)
def test_one_end_of_each_sequence(op: str, step: int, default: float, zero: bool, simple: bool, tmp_path: Path) -> None:
    """A delay of zeros that begins with 1 chooses one frame, which needs no sums; any other may choose more."""
    made = SequenceSketch("float32")
    flag = made.op("Greater", made.op("SumColumnElements", made.x), made.given("least", np.array([0.3])))
    if zero:
        flag = made.op("ElementTimes", flag, made.given("none", np.zeros(1)))
    flags = made.op(op, flag, attributes=type(made.delay()[0].attributes)((), step, default), name="flags")
    where = made.op("Where", flags, name="where")
    index = made.op("PackedIndex", made.x, where)
    chosen = made.op("GatherPacked", index, made.x, name="chosen")
    back = made.op("ScatterPacked", made.x, index, chosen, name="back")
    for node in [node for node in made.network if not node.inputs and node.op.name == "PastValue"]:
        made.network.remove(node)
    made.network.infer()
    made.network.roots["output"] = [chosen, back]
    assert difference(made.network, tmp_path / "net.onnx") == 0
    kinds = {node.op_type for node in read_model(tmp_path / "net.onnx").model.graph.node}
    assert ("CumSum" not in kinds) == simple


@pytest.mark.parametrize("kind", ["greater", "rate"])
def test_frames_that_are_chosen(kind: str, tmp_path: Path) -> None:
    made = SequenceSketch("float32")
    flag = made.op("SumColumnElements", made.x)
    if kind == "greater":
        flag = made.op("Greater", flag, made.given("zero", np.zeros(1)))
    else:  # numbers add up to frames
        flag = made.op("Abs", flag)
    where = made.op("Where", flag, name="where")
    index = made.op("PackedIndex", flag, where)
    chosen = made.op("GatherPacked", index, made.x, name="chosen")
    back = made.op("ScatterPacked", made.x, index, chosen, name="back")
    made.network.infer()
    made.network.roots["output"] = [where, chosen, *([back] if kind == "greater" else [])]
    for settings in ({}, {"sequences": "one"}):
        assert difference(made.network, tmp_path / "net.onnx", **settings) == 0


@pytest.mark.parametrize("name", NAMES)
def test_graphs_with_sequences_alone_are_refused_node_by_node(name: str, tmp_path: Path) -> None:
    """Without what our files say beside their graph, its nodes are named that cannot be read; it is not damaged."""
    path = written(network(name), tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match=r"has nodes that cannot be read: \w+ '") as caught:
        load(stripped(path))
    assert not re.search(r"\d{6}", caught.value.message.partition("cannot be read: ")[2])
