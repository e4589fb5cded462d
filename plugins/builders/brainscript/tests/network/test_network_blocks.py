"""Blocks of networks that are loaded, edited, or of which a part becomes a function."""

from __future__ import annotations

import pytest

from cntk_core.api import Network
from cntk_core.api.builders import Block


@pytest.fixture
def model(trained):
    """``hidden`` is ``h`` and what it is made of, ``all`` also what is made of it."""
    network = trained()
    t, h, p, z = (network[name] for name in "thpz")
    network.add_block(Block("hidden", "Dense", {t: None, h: None}, [h], {"x": [(t, 1)]}))
    network.add_block(Block("all", "Net", dict.fromkeys((t, h, p, z)), [z], {"x": [(t, 1)]}))
    return network


@pytest.fixture
def edit(build, loader, model):
    """Build a network from the model, which is called ``old``."""
    return lambda text: build(text, load_model=loader(old=model))


def shown(network: Network) -> list[tuple[str, list[str], dict[str, str]]]:
    return [
        (block.name, [node.name for node in block.nodes], {name: node.name for name, node in block.operands.items()})
        for block in network.blocks
    ]


def test_a_loaded_network_has_its_blocks(edit):
    network = edit("( BS.Network.Load ('old') )")
    assert shown(network) == [("hidden", ["t", "h"], {"x": "x"}), ("all", ["t", "h", "p", "z"], {"x": "x"})]
    assert network.blocks[1].outputs == [network["z"]]


def test_a_part_of_a_network_has_the_blocks_that_are_whole_in_it(edit):
    assert shown(edit("{ net = BS.Network.Load ('old') ; top = Exp (net.h) }")) == [("hidden", ["t", "h"], {"x": "x"})]
    assert shown(edit("{ net = BS.Network.Load ('old') ; top = Exp (net.t) }")) == []


EDIT = """(
[
  net = BS.Network.Load ('old')
  out = BS.Network.Edit (net, BS.Network.Editing.ReplaceLinksToNode (net.{}, {}), BS.Constants.None)
].out )"""


def test_what_replaces_a_node_is_in_its_blocks(edit):
    network = edit(EDIT.format("h", "Exp (net.t)"))
    (hidden, whole) = network.blocks
    assert [node.op.name for node in hidden.nodes] == ["Times", "Exp"]
    assert [node.op.name for node in whole.nodes] == ["Times", "Exp", "Times", "Plus"]
    assert whole.outputs == [network["z"]]
    assert hidden.outputs == [network["p"].inputs[1]]


def test_an_argument_that_is_replaced(edit, model):
    network = edit(EDIT.format("x", "Exp (Input { 4 })"))
    assert [block.operands["x"].op.name for block in network.blocks] == ["Exp", "Exp"]
    assert [block.operands["x"].op.name for block in model.blocks] == ["InputValue", "InputValue"]


def test_an_edited_network_is_edited_again(edit):
    network = edit(
        """(
    [
      net = BS.Network.Load ('old')
      one = BS.Network.Edit (net, BS.Network.Editing.ReplaceLinksToNode (net.h, Exp (net.t)), BS.Constants.None)
      two = BS.Network.Edit (one, BS.Network.Editing.ReplaceLinksToNode (one.z, Abs (one.p)), BS.Constants.None)
    ].two )"""
    )
    assert [block.name for block in network.blocks] == ["hidden", "all"]
    assert [[node.op.name for node in block.nodes] for block in network.blocks] == [
        ["Times", "Exp"],
        ["Times", "Exp", "Times", "Abs"],
    ]


@pytest.mark.parametrize("parameters", ["learnable", "shared"])
def test_a_cloned_function_has_copies_of_the_blocks(edit, parameters):
    network = edit(
        f"""{{
        net = BS.Network.Load ('old')
        f = BS.Network.CloneFunction (net.x, net.z, parameters='{parameters}')
        y = Input {{ 4 }}
        made = Exp (f (y))
        }}"""
    )
    (hidden, whole) = network.blocks
    assert (hidden.kind, whole.kind) == ("Dense", "Net")
    assert hidden.name.endswith(".hidden")
    assert hidden.operands == whole.operands == {"x": network["y"]}
    assert set(hidden.nodes) <= set(whole.nodes) <= set(network)


def test_original_and_clone_stand_side_by_side(edit):
    network = edit(
        """{
        net = BS.Network.Load ('old')
        f = BS.Network.CloneFunction (net.x, net.h, parameters='shared')
        y = Input { 4 }
        made = f (y) + net.h
        }"""
    )
    assert [list(block.operands.values()) for block in network.blocks] == [[network["x"]], [network["y"]]]
