"""Blocks of nodes that are copied or put between others: what edits do so that blocks stay true."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from cntk_core.errors import NetworkError
from cntk_core.network.blocks import Block, Place
from cntk_core.network.network import Network
from cntk_core.network.node import Node


def carry_blocks(
    blocks: Iterable[Block],
    copies: Mapping[Node, Node],
    into: Network,
    rename: Callable[[str], str] = lambda name: name,
) -> dict[Block, Block]:
    """Give the copies of nodes the blocks that the nodes are in; return old to new block.

    A block of which only a part was copied becomes one of that part, as long as there is an output. A copy that is in a
    block already stays in that one alone.

    Args:
        blocks: of the network that was copied from, inner ones first.
        copies: old to new node.
        into: the network of the copies.
        rename: the new name for a name.
    """
    taken = {node for block in into.blocks for node in block.nodes}
    made: dict[Block, Block] = {}
    for block, copy in copy_blocks(blocks, copies, rename).items():
        if taken.isdisjoint(copy.nodes) and not any(_same(copy, other) for other in made.values()):
            with contextlib.suppress(NetworkError):  # two nodes have become one, and two blocks have a part of it
                made[block] = into.add_block(copy)
    return made


def _same(one: Block, other: Block) -> bool:
    return (one.name, one.kind) == (other.name, other.kind) and one.nodes.keys() == other.nodes.keys()


def copy_blocks(
    blocks: Iterable[Block], copies: Mapping[Node, Node], rename: Callable[[str], str] = lambda name: name
) -> dict[Block, Block]:
    """Return the blocks of copies, old to new, as :func:`carry_blocks` gives them to a network."""
    return {
        block: Block(
            rename(block.name),
            block.kind,
            {copies[node]: None for node in block.nodes if node in copies},
            outputs,
            {argument: list(_copied_places(block, argument, copies)) for argument in block.arguments},
        )
        for block in list(blocks)
        if (outputs := [copies[node] for node in block.outputs if node in copies])
    }


def _copied_places(block: Block, argument: str, copies: Mapping[Node, Node]) -> Iterator[Place]:
    """Where copies read an argument: as their originals do, unless they are of another kind."""
    for node, index in block.places(argument):
        inputs = copies[node].inputs if node in copies else []
        child = node.inputs[index]
        same = index < len(inputs) and inputs[index] in (child, copies.get(child, child))
        if node in copies and (same or copies[node].op is node.op):
            yield copies[node], index


def take_in(network: Network, new: Node, index: int, user: Node, place: int) -> None:
    """Let a new node belong to the blocks of the node whose input ``place`` it is now.

    Its own input ``index`` is what the user read there before; where that is an argument of a block, it still is.
    """
    if any(new in block.nodes for block in network.blocks):
        return
    for block in network.blocks:
        if user in block.nodes:
            block.nodes[new] = None
            for places in block.arguments.values():
                places[:] = [(new, index) if one == (user, place) else one for one in places]
