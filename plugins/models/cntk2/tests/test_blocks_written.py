"""Blocks as functions of a file: those of the original come back, and impossible ones are written as their inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.model_format import Cntk2Format
from cntk_model_cntk2.records import BLOCK, read_composite
from cntk_model_cntk2.save import save_model
from golden_files import arrays, write

from cntk_core.api import Network, Node, UsageError, core_ops
from cntk_core.api.builders import Block
from cntk_core.api.training import Model
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine

find_op = core_ops().find


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("block-simple", [("block", "Affine", ["x"])]),
        ("net-lstm", [("Block17005", "LSTM", ["Placeholder17051", "Placeholder17052", "s"])]),
    ],
)
def test_blocks_and_their_arguments_have_the_names_of_the_original(
    name: str, wanted: list[tuple[str, str, list[str]]], tmp_path: Path
) -> None:
    """Where an argument has none, its uid stands."""
    network = load_model(write(name, tmp_path), find_op).network
    assert [(block.name, block.kind, list(block.arguments)) for block in network.blocks] == wanted


@pytest.mark.parametrize("name", ["block-simple", "net-lstm", "net-seq2seq-thought", "mixed-direction-recurrence"])
def test_values_stay(name: str, tmp_path: Path) -> None:
    network = load_model(write(name, tmp_path), find_op).network
    save_model(network, tmp_path / "again.model", blocks=True)
    again = load_model(tmp_path / "again.model", find_op).network
    outputs = [node.name for node in network.roots["output"]]
    data = {}
    for node in network.inputs:
        given = arrays(name, f"in/{node.name}")
        data[node.name] = given[f"in/{node.name}"] if f"in/{node.name}" in given else list(given.values())
    expected = Model(network, engine=ReferenceEngine()).evaluate(data, outputs)
    found = Model(again, engine=ReferenceEngine()).evaluate(data, outputs)
    for output in outputs:
        for one, other in zip(expected[output], found[output], strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-6)


# -- what is hard -----------------------------------------------------------------------------------------


class Drawn:
    """A network of sums of vectors."""

    def __init__(self) -> None:
        self.made = Sketch("float32")
        self.network: Network = self.made.network
        self.x: Node = self.made.input("x", 2)

    def sum(self, name: str, *inputs: Node) -> Node:
        op = find_op("model", "Plus" if len(inputs) == 2 else "Tanh")
        assert op is not None
        return self.network.add(Node(name, op, list(inputs)))

    def block(self, name: str, nodes: list[Node], outputs: list[Node], **arguments: list[tuple[Node, int]]) -> None:
        self.network.add_block(Block(name, "Part", dict.fromkeys(nodes), outputs, dict(arguments)))

    def written(self, path: Path, *roots: Node) -> list[tuple[str, str, int]]:
        """Save it with blocks; return kind, name and number of arguments of those in the file."""
        for root in roots:
            self.network.mark(root, "output")
        self.network.infer()
        save_model(self.network, path, blocks=True)
        data = {"x": [np.array([[1, 2], [3, 4]], np.float32)]}
        names = [root.name for root in roots]
        again = load_model(path, find_op).network
        expected, found = (Model(one, engine=ReferenceEngine()).evaluate(data, names) for one in (self.network, again))
        for name in names:
            np.testing.assert_allclose(found[name][0], expected[name][0], rtol=1e-6)
        functions = read_composite(path).functions.values()
        return [(one.block.kind, one.name, len(one.block.arguments)) for one in functions if one.block is not None]


def test_blocks_inside_each_other_that_read_the_same(tmp_path: Path) -> None:
    drawn = Drawn()
    a = drawn.sum("a", drawn.x, drawn.x)
    b = drawn.sum("b", a, drawn.x)
    c = drawn.sum("c", b, a)
    d = drawn.sum("d", c)
    drawn.block("inner", [b, c], [c], left=[(b, 0), (c, 1)], right=[(b, 1)])
    drawn.block("outer", [b, c, d], [d], left=[(b, 0), (c, 1)], right=[(b, 1)])
    assert drawn.written(tmp_path / "net.model", d) == [("Part", "inner", 2), ("Part", "d", 2)]


def test_a_block_with_several_results(tmp_path: Path) -> None:
    drawn = Drawn()
    a = drawn.sum("a", drawn.x)
    b = drawn.sum("b", a)
    drawn.block("two", [a, b], [a, b], x=[(a, 0)])
    assert drawn.written(tmp_path / "net.model", drawn.sum("c", a, b)) == [("Part", "two", 1)]


def test_a_block_of_which_more_is_read_is_written_as_its_inside(tmp_path: Path) -> None:
    drawn = Drawn()
    a = drawn.sum("a", drawn.x)
    b = drawn.sum("b", a)
    drawn.block("part", [a, b], [b], x=[(a, 0)])
    assert drawn.written(tmp_path / "net.model", drawn.sum("c", a, b)) == []


def test_a_block_with_something_between_its_parts_is_written_as_its_inside(tmp_path: Path) -> None:
    drawn = Drawn()
    a = drawn.sum("a", drawn.x)
    between = drawn.sum("between", a)
    b = drawn.sum("b", between)
    drawn.block("around", [a, b], [a, b], x=[(a, 0)], y=[(b, 0)])
    drawn.block("whole", [between], [between], x=[(between, 0)])
    assert [one[1] for one in drawn.written(tmp_path / "net.model", b)] in (["whole"], [""])


def test_blocks_are_what_is_inside_them_unless_asked_for(tmp_path: Path) -> None:
    network = load_model(write("net-lstm", tmp_path), find_op).network
    form = Cntk2Format()
    for setting, there in (("no", False), ("yes", True)):
        form.take_settings({"blocks": setting})
        form.save(network, tmp_path / "again.model")
        functions = read_composite(tmp_path / "again.model").functions.values()
        assert any(function.operation == BLOCK for function in functions) == there


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block": "yes"}, "CNTK-2 files have no setting 'block'; did you mean 'blocks'?\n    Settings: blocks"),
        ({"blocks": "maybe"}, "the setting blocks cannot be 'maybe'\n    It is yes or no."),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Cntk2Format().take_settings(settings)
    assert str(caught.value) == message


def test_a_loop_through_a_block(tmp_path: Path) -> None:
    """What a delay reads, it may read before the block that makes it is there."""
    drawn = Drawn()
    past: Any = find_op("model", "PastValue")
    delayed = drawn.network.add(Node("before", past, [drawn.x], past.attributes((2,), 1, 0.0)))
    a = drawn.sum("a", drawn.x, delayed)
    b = drawn.sum("b", a)
    delayed.inputs[0] = b
    drawn.block("cell", [a, b], [b], x=[(a, 0)], before=[(a, 1)])
    assert drawn.written(tmp_path / "net.model", drawn.sum("c", b)) == [("Part", "cell", 2)]
