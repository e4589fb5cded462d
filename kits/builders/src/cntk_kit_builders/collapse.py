"""A network as people look at it: blocks as single nodes, open only to some depth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs

from cntk_core.network.blocks import Block, nest
from cntk_core.network.components import components, is_loop
from cntk_core.network.inference import is_delay
from cntk_core.network.network import Network
from cntk_core.network.node import Node
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Shape
from cntk_kit_builders.blocks import describe_block, reads_of
from cntk_kit_builders.patterns import NamePattern

ROLE = "block"
"""Role of the operation of a node that stands for a block."""


def _unknown(shapes: Sequence[Shape], attributes: Any) -> Shape:
    raise AssertionError("what stands for a block is only looked at")


def collapse(network: Network, depth: int = 0) -> Network:
    """Return a network to look at, in which each block is one node: an operation of its kind.

    Such a node has the block's name, or that of the root that is in it. It reads the operands of the block, then the
    parameters and other values. A block that would be in a cycle without a visible delay is left open.

    Args:
        network: what is looked at; it does not change.
        depth: how far blocks are open: 0 not at all, 1 the outermost ones, and so on; -1 all.

    Returns:
        Copies of nodes that are linked to each other; the network itself if nothing is closed.
    """
    return _collapsed(network, depth)[0]


def _collapsed(network: Network, depth: int) -> tuple[Network, dict[Node, Node], dict[Node, Block]]:
    """The network to look at, what shows each node in it, and the blocks that nodes of it stand for."""
    level = levels(network.blocks)
    closed = [block for block in network.blocks if level[block] == depth]
    while closed:
        view, shown, hidden = _view(network, closed)
        tangled = _tangled(view)
        if not tangled:
            return view, shown, {node: block for block, node in hidden.items()}
        closed = [block for block in closed if hidden[block] not in tangled]
    return network, {node: node for node in network}, {}


def levels(blocks: Sequence[Block]) -> dict[Block, int]:
    """Return how many blocks each block is inside of."""
    outside = nest(blocks)
    found: dict[Block, int] = {}
    for block in reversed(outside):  # outer ones first
        around = outside[block]
        found[block] = 0 if around is None else found[around] + 1
    return found


def _view(network: Network, closed: Sequence[Block]) -> tuple[Network, dict[Node, Node], dict[Block, Node]]:
    """The network with these blocks as single nodes, each where its first node is; what shows a node, and a block."""
    within = {node: block for block in closed for node in block.nodes}
    names = {node.name.lower() for node in network if node not in within}
    roots = {node for group in network.roots.values() for node in group}
    view = Network(network.dtype)
    shown: dict[Node, Node] = {}
    hidden: dict[Block, Node] = {}
    for node in network:
        block = within.get(node)
        if block is None:
            shown[node] = view.add(attrs.evolve(node, inputs=[]) if node.inputs else node)
            continue
        if block not in hidden:
            hidden[block] = view.add(_stand_in(block, roots, names))
        shown[node] = hidden[block]
    for node in network:
        if node.inputs and node not in within:
            shown[node].inputs = [shown.get(child, child) for child in node.inputs]
    for block, stand_in in hidden.items():
        children = (*block.operands.values(), *reads_of(block))
        stand_in.inputs = list(dict.fromkeys(shown.get(child, child) for child in children))
    for role, group in network.roots.items():
        view.roots[role] = list(dict.fromkeys(shown[node] for node in group))
    return view, shown, hidden


def _stand_in(block: Block, roots: Collection[Node], names: set[str]) -> Node:
    """A node for a block, with a name that is added to those that are taken."""
    wanted = next((node.name for node in block.nodes if node in roots), block.name)
    name, number = wanted, 1
    while name.lower() in names:
        number += 1
        name = f"{wanted}{number}"
    names.add(name.lower())
    output = block.outputs[0]
    op = Op(block.kind, (0, None), _unknown, role=ROLE)
    return Node(name, op, shape=output.shape, framed=output.framed, axis=output.axis, where=output.where)


def _tangled(view: Network) -> set[Node]:
    """What stands for blocks and is in a cycle although delays are cut.

    The cycle goes through a hidden delay; or there is none, because the block reads at one place what is made of what
    it gives at another.
    """
    bare = {node: Node(node.name, node.op) for node in view}
    for node in view:
        children = node.inputs[1:] if is_delay(node) else node.inputs
        bare[node].inputs = [bare[child] for child in children if child in bare]
    loops = [members for members in components(bare.values()) if is_loop(members)]
    cyclic = {node for members in loops for node in members}
    return {node for node in view if bare[node] in cyclic and node.op.role == ROLE}


# -- text and search --------------------------------------------------------------------------------------


def outline(network: Network, depth: int = 0, note: Callable[[Node], str] = lambda node: "") -> Iterator[str]:
    """Yield a line for each node, as :meth:`Node.describe` writes it, and for each block, with its inside indented.

    Args:
        network: what is listed.
        depth: how far blocks are open, as in :func:`collapse`.
        note: what is said behind a node, and behind a block with such a node in it.
    """
    _, shown, closed = _collapsed(network, depth)
    outside = nest(network.blocks)
    inside = {block for block in outside if not set(closed.values()).isdisjoint(_chain(block, outside))}
    around = _around([block for block in outside if block not in inside])
    children: dict[Block | None, dict[Node | Block, None]] = {None: {}}
    for node in network:
        outer: Block | None = None
        for block in around.get(node, ()):
            children.setdefault(outer, {})[block] = None
            outer = block
        children.setdefault(outer, {})[shown[node]] = None

    waiting = [("", child) for child in reversed(children[None])]
    while waiting:
        indent, child = waiting.pop()
        if isinstance(child, Node):
            notes = [note(node) for node in (closed[child].nodes if child in closed else [child])]
            yield f"{indent}{child.describe()}{next(filter(None, notes), '')}"
        else:
            yield indent + describe_block(child, lambda node: shown.get(node, node).name)
            waiting += [(indent + "  ", inner) for inner in reversed(children[child])]


def _chain(block: Block, outside: Mapping[Block, Block | None]) -> Iterator[Block]:
    """Yield a block and those around it."""
    around: Block | None = block
    while around is not None:
        yield around
        around = outside[around]


def _around(blocks: Sequence[Block]) -> dict[Node, list[Block]]:
    """The blocks around each node, the outermost first. Of blocks they come inner ones first."""
    found: dict[Node, list[Block]] = {}
    for block in blocks:
        for node in block.nodes:
            found.setdefault(node, []).insert(0, block)
    return found


def find(network: Network, pattern: str = "*", *, kind: str = "", depth: int = -1) -> list[Node | Block]:
    """Return nodes and blocks by name and kind, in the order of the network, a block before its inside.

    Args:
        network: where to look.
        pattern: a name in which ``*`` stands for any text; case does not count.
        kind: an operation (``Times``) or a kind of block (``Dense``); by default any.
        depth: how far to look into blocks: 0 finds the outermost blocks and what is in none, 1 also what is directly in
            these, and so on; -1 everything.
    """
    wanted = NamePattern(pattern)
    around = _around(list(nest(network.blocks)))
    found: dict[Node | Block, None] = {}
    for node in network:
        path: list[Node | Block] = [*around.get(node, []), node]
        found.update(dict.fromkeys(path if depth < 0 else path[: depth + 1]))

    def fits(one: Node | Block) -> bool:
        own = one.kind if isinstance(one, Block) else one.op.name
        return wanted.match(one.name) is not None and kind.lower() in ("", own.lower())

    return [one for one in found if fits(one)]
