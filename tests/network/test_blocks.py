"""Blocks: what they say of their part of a network, in memory and in model files."""

from __future__ import annotations

import copy
import json

import pytest
from block_networks import add, make_network
from hypothesis import given
from hypothesis import strategies as st
from model_files import find_op, mutated, refused, rewrite

from cntk_core.errors import CntkError, ModelFormatError, NetworkError
from cntk_core.network.blocks import Block, nest
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_testing.examples import examples


def block(network: Network, name: str) -> Block:
    return next(block for block in network.blocks if block.name == name)


def shown(network: Network) -> list[tuple[object, ...]]:
    """All that there is to a block, by names."""
    return [
        (
            block.name,
            block.kind,
            [node.name for node in block.nodes],
            [node.name for node in block.outputs],
            {name: [(node.name, index) for node, index in block.places(name)] for name in block.arguments},
        )
        for block in network.blocks
    ]


def test_operands_are_what_the_nodes_read():
    network = make_network()
    assert {name: block(network, name).operands for name in ("one", "two", "both")} == {
        "one": {"x": network["x"]},
        "two": {"x": network["one.out"]},
        "both": {"x": network["x"]},
    }
    assert repr(network.blocks[0]) == "<block Dense one>"


def test_inner_blocks_come_first_and_know_what_is_around():
    network = make_network()
    one, two, both = network.blocks
    assert nest([both, two, one]) == {one: both, two: both, both: None}
    assert list(nest([both, two, one]))[-1] is both
    again = network.add_block(Block("again", "Same", dict(both.nodes), both.outputs))
    assert nest(network.blocks)[both] is again  # of the same nodes: the later one is around


def test_blocks_that_overlap_are_refused():
    network = make_network()
    nodes = dict.fromkeys((network["one.out"], network["two.times"]))
    with pytest.raises(NetworkError) as caught:
        network.add_block(Block("odd", "Odd", nodes, [network["two.times"]]))
    assert str(caught.value) == (
        "the blocks 'one' (Dense) and 'odd' (Odd) overlap: each has nodes of its own, and some belong to both\n"
        "    Blocks are apart, or one is inside the other."
    )
    assert len(network.blocks) == 3


@pytest.mark.parametrize("outputs", [[], ["x"]])
def test_a_block_has_outputs_among_its_nodes(outputs):
    network = make_network()
    with pytest.raises(NetworkError) as caught:
        network.add_block(Block("b", "Odd", {network["one.out"]: None}, [network[name] for name in outputs]))
    assert str(caught.value) == "the outputs of the block 'b' must be among its nodes, at least one"


def test_a_block_has_nodes_of_the_network():
    network = make_network()
    strange = make_network()["one.out"]
    with pytest.raises(NetworkError) as caught:
        network.add_block(Block("b", "Odd", {strange: None}, [strange]))
    assert str(caught.value) == "'one.out' of the block 'b' is no node of this network"


def test_a_removed_node_leaves_its_blocks():
    network = make_network()
    network.remove(network["two.out"])
    assert shown(network) == [
        ("one", "Dense", ["one.times", "one.out"], ["one.out"], {"x": [("one.times", 1)]})
    ]  # the others have no output left
    network.remove(network["one.times"])
    assert block(network, "one").operands == {}  # nobody reads the argument any more
    network.remove(network["one.out"])
    assert network.blocks == []


def test_a_new_link_is_a_new_operand():
    network = make_network()
    other = add(network, "other", "Tanh", network["x"])
    network["one.times"].inputs[1] = other
    assert block(network, "one").operands == {"x": other}
    network["one.times"].inputs.pop()
    assert block(network, "one").operands == {}


def test_places_that_read_something_else_are_no_places():
    network = make_network()
    x, one = network["x"], network["one.out"]
    total = add(network, "total", "Plus", x, x)
    made = network.add_block(Block("twice", "Twice", {total: None}, [total], {"a": [(total, 0), (total, 1)]}))
    assert made.places("a") == [(total, 0), (total, 1)]
    total.inputs[1] = one
    assert made.places("a") == [(total, 0)]


def test_names_can_change():
    network = make_network()
    network.rename(network["one.times"], "a b")
    assert shown(network)[0] == ("one", "Dense", ["a b", "one.out"], ["one.out"], {"x": [("a b", 1)]})


def test_a_deep_copy_has_blocks_of_its_own_nodes():
    network = make_network()
    other = copy.deepcopy(network)
    assert shown(other) == shown(network)
    assert all(node is other[node.name] for block in other.blocks for node in block.nodes)


# -- model files ------------------------------------------------------------------------------------------


def test_blocks_come_back_from_a_file(tmp_path):
    network = make_network()
    network.blocks[0].name, network.blocks[0].kind = 'é\n"', ""
    save_model(network, tmp_path / "a")
    found = load_model(tmp_path / "a", find_op)
    assert shown(found) == shown(network)
    save_model(found, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_without_blocks_says_nothing_of_them(tmp_path):
    network = make_network()
    network.blocks = []
    save_model(network, tmp_path / "a")
    assert b"blocks" not in (tmp_path / "a").read_bytes()
    assert load_model(tmp_path / "a", find_op).blocks == []


def test_an_argument_that_nobody_reads_is_not_saved(tmp_path):
    network = make_network()
    network["one.times"].inputs[1] = network["x"]
    network.blocks[0].arguments["y"] = []
    save_model(network, tmp_path / "a")
    assert list(load_model(tmp_path / "a", find_op).blocks[0].arguments) == ["x"]


def change_first(**fields):
    def change(graph, metadata, arrays):
        graph["blocks"][0].update(fields)

    return change


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": ["one.out"]}, "the block 'one' makes no sense"),  # the argument is read elsewhere
        ({"outputs": ["x"]}, "the block 'one' makes no sense"),
        ({"outputs": []}, "the block 'one' makes no sense"),
        ({"arguments": [["x", [["one.times", 2]]]]}, "the block 'one' makes no sense"),
        ({"arguments": [["x", [["one.times", 0], ["two.times", 0]]]]}, "the block 'one' makes no sense"),
        ({"arguments": [["x", [["one.times", -1]]]]}, "the block 'one' makes no sense"),
        ({"arguments": [["x", [["one.times", True]]]]}, "the block 'one' makes no sense"),
        ({"arguments": [["x", [["one.times", 1]]], ["y", [["one.times", 1]]]]}, "the block 'one' makes no sense"),
        ({"nodes": ["one.out", "none"]}, "the network has no node 'none'"),
        (
            {"nodes": ["one.times", "one.out", "two.times"]},
            "the blocks 'two' (Dense) and 'one' (Dense) overlap: each has nodes of its own, and some belong to both",
        ),
    ],
)
def test_blocks_of_a_file_that_make_no_sense(tmp_path, fields, message):
    save_model(make_network(), tmp_path / "net.dnn")
    rewrite(tmp_path / "net.dnn", change_first(**fields))
    assert refused(tmp_path / "net.dnn") == f"'net.dnn' holds no sound network: {message}"


@pytest.mark.parametrize("fields", [{"nodes": 3}, {"arguments": [["x"]]}, {"outputs": [["one.out"]]}, {"nodes": None}])
def test_blocks_of_a_file_that_are_none(tmp_path, fields):
    save_model(make_network(), tmp_path / "net.dnn")
    rewrite(tmp_path / "net.dnn", change_first(**fields))
    with pytest.raises(ModelFormatError):
        load_model(tmp_path / "net.dnn", find_op)


@given(data=st.data())
@examples(60)
def test_any_description_of_blocks_is_a_network_or_a_typed_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "blocks"
    save_model(make_network(), path)

    def change(graph, metadata, arrays):
        for _ in range(data.draw(st.integers(1, 3))):
            graph["blocks"] = mutated(graph["blocks"], data)
        metadata["network"] = json.dumps(graph)

    rewrite(path, change)
    try:
        found = load_model(path, find_op)
    except CntkError:
        return
    nest(found.blocks)
    save_model(found, path)


def test_very_many_blocks_are_read_in_linear_time(tmp_path):
    """A hostile file cannot make the check of what is inside what slow."""
    network = make_network()
    nodes = {network["one.times"]: None}
    network.blocks = [Block(f"b{number}", "B", nodes, [*nodes]) for number in range(20_000)]
    save_model(network, tmp_path / "many")
    assert len(load_model(tmp_path / "many", find_op).blocks) == 20_000
