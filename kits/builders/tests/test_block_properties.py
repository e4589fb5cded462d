"""Blocks after any edits: sound, and still the function that they say they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from layer_networks import FIND, names, value

from cntk_core.errors import CntkError
from cntk_core.network.blocks import Block, nest
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter, Placeholder
from cntk_kit_builders.blocks import as_block, call_block, replace_block
from cntk_kit_builders.clone import PARAMETER_USES, clone, free_name
from cntk_kit_builders.collapse import ROLE, collapse, find, outline
from cntk_kit_builders.draw import to_svg
from cntk_kit_builders.edit import check_links, copy_nodes, copy_sub_tree, remove_nodes, replace_node, set_input
from cntk_kit_builders.svd import reduce_parameter
from cntk_testing.examples import examples

Draw = Callable[[st.SearchStrategy[Any]], Any]
UNARY, BINARY = ("Tanh", "Sigmoid", "Abs", "Exp"), ("Plus", "Minus", "ElementTimes")
WIDTH = 2
STEPS = ("grow", "block", "call", "link", "replace", "remove", "copy", "tree", "clone", "svd", "out")


def computed(network: Network) -> list[Node]:
    return [node for node in network if not isinstance(node, Input | Parameter | Placeholder)]


def pick(draw: Draw, items: Sequence[Any]) -> Any:
    return items[draw(st.integers(0, len(items) - 1))]


def framed(network: Network, draw: Draw) -> Node:
    found: Node = pick(draw, [node for node in network if not isinstance(node, Parameter)])
    return found


def grow(network: Network, draw: Draw, tops: Sequence[Node] = ()) -> Node:
    """Add an operation on what is there, or on one of some nodes; sometimes one that remembers."""
    kind = draw(st.sampled_from((*UNARY, *BINARY, "Times", "PastValue")))
    op = FIND("", kind)
    assert op is not None
    inputs = [pick(draw, tops) if tops and draw(st.booleans()) else framed(network, draw) for _ in range(op.arity[0])]
    if kind == "Times":
        matrix = np.random.default_rng(len(network)).normal(size=(WIDTH, WIDTH))
        inputs[0] = network.add(Parameter.make(free_name(network, "W"), (WIDTH, WIDTH), value=matrix))
    elif kind in BINARY and draw(st.booleans()):
        inputs[1] = network.add(Parameter.make(free_name(network, "b"), (WIDTH,), value=np.linspace(-1, 1, WIDTH)))
    return network.add(Node(free_name(network, kind), op, inputs, op.attributes()))


def block(network: Network, draw: Draw) -> None:
    """Write a function of one or two placeholders, and make it a block."""
    others = [one for one in network if not isinstance(one, Parameter)]
    arguments = [Placeholder.make(free_name(network, f"p{number}")) for number in range(draw(st.integers(1, 2)))]
    tops: list[Node] = [network.add(placeholder) for placeholder in arguments]
    for _ in range(draw(st.integers(1, 4))):
        tops.append(grow(network, draw, tops))
    outputs = [pick(draw, tops) for _ in range(draw(st.integers(1, 2)))]
    operands = {placeholder: pick(draw, others) for placeholder in arguments}
    try:
        as_block(network, outputs, operands, draw(st.sampled_from(["F", "G"])))
    except CntkError:
        network.replace_placeholders(operands)


def step(network: Network, draw: Draw) -> None:
    """Do something to a network."""
    kind = draw(
        st.sampled_from(["grow", "block", "call", "link", "replace", "remove", "copy", "tree", "clone", "svd", "out"])
    )
    if kind in ("call", "out") and not network.blocks:
        kind = "block"
    if kind == "grow":
        grow(network, draw)
    elif kind == "block":
        block(network, draw)
    elif kind == "call":
        made = pick(draw, network.blocks)
        operands = [framed(network, draw) for _ in made.operands]
        call_block(network, made, operands, parameters=draw(st.sampled_from(PARAMETER_USES)))
    elif kind == "out":
        made = pick(draw, network.blocks)
        replace_block(network, made, [framed(network, draw) for _ in made.outputs])
    elif kind == "link":
        user = pick(draw, computed(network))
        index = draw(st.integers(0, len(user.inputs) - 1))
        if not isinstance(user.inputs[index], Parameter):
            set_input(network, user, index, framed(network, draw))
    elif kind == "replace":
        replace_node(network, pick(draw, computed(network)), framed(network, draw))
    elif kind == "remove":
        old = pick(draw, computed(network))
        replace_node(network, old, network["x"])
        remove_nodes(network, [old])
    elif kind == "copy":
        chosen = dict.fromkeys(pick(draw, list(network)) for _ in range(draw(st.integers(1, 4))))
        pairs = [(one, free_name(network, f"{one.name}.c")) for one in chosen]
        for copy in copy_nodes(pairs, network, source=network):
            copy.inputs = [child if child in set(network) else network["x"] for child in copy.inputs]
    elif kind == "tree":
        copy_sub_tree([pick(draw, computed(network))], network, network, f"t{len(network)}.")
    elif kind == "clone":
        top = pick(draw, computed(network))
        clone(network, [top], {network["x"]: network["y"]}, parameters=draw(st.sampled_from(PARAMETER_USES)))
    elif kind == "svd":
        matrices = [one for one in network.parameters if len(one.known_shape) == 2]
        if matrices:
            reduce_parameter(network, pick(draw, matrices), 1.0)


def check_sound(network: Network) -> None:
    """What is true of blocks at any time."""
    nest(network.blocks)
    members = set(network)
    for made in network.blocks:
        assert made.nodes.keys() <= members
        assert made.outputs
        assert made.nodes.keys() >= set(made.outputs)
        again = Block.of_entry(made.as_entry(), network.__getitem__)
        assert (again.nodes, again.outputs) == (made.nodes, made.outputs)
        assert again.operands == made.operands
    for depth in (0, 1, 2, -1):
        view = collapse(network, depth)
        shown = [one for one in view if one.op.role == ROLE]
        assert len(find(network, depth=depth)) >= len(shown)
        assert len(list(outline(network, depth))) >= len(view)


def check_true(network: Network) -> None:
    """Called on what it is applied to, each block gives what it gives."""
    for made in list(network.blocks)[:3]:
        other = call_block(network, made, dict(made.operands))
        for one, two in zip(made.outputs, other.outputs, strict=True):
            expected, found = value(network, one, two)
            np.testing.assert_array_equal(found, expected, err_msg=f"{made}: {names(made.nodes)}")


@given(data=st.data())
@examples(40)
def test_blocks_after_any_edits(data: st.DataObject) -> None:
    network = Network(np.float64)
    for name in "xy":
        network.add(Input.make(name, (WIDTH,)))
    block(network, data.draw)
    for _ in range(data.draw(st.integers(1, 6))):
        if not computed(network):
            grow(network, data.draw)
        with contextlib.suppress(CntkError):
            step(network, data.draw)
        assert network.placeholders == []
        check_links(network)
        check_sound(network)
    try:
        network.infer()
        network.order(network)
    except CntkError:
        return  # a cycle without a delay, or other nonsense
    to_svg(network)
    check_true(network)
    check_sound(network)
