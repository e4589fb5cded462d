"""Nodes that depend on each other: the strongly connected components of a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from cntk_core.network.node import Node


@attrs.define(eq=False)
class _Visit:
    """A node on the way: what is left of its inputs, when it was found, and the earliest node that it reaches."""

    node: Node
    rest: Iterator[Node]
    found: int
    low: int


def inputs_of(node: Node, stop_at_constants: bool) -> Sequence[Node]:
    """The nodes that must be there before a node is, over all time steps."""
    return () if stop_at_constants and node.value is not None else node.inputs


def components(roots: Iterable[Node], *, stop_at_constants: bool = False) -> Iterator[list[Node]]:
    """Yield what the roots need, nodes of one loop together, each part after what it reads.

    A node that is in no loop is alone. R. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1
    (1972), with an explicit stack, so that depth does not matter.

    Args:
        roots: where to begin.
        stop_at_constants: leave out what only feeds nodes that have their value.
    """
    found: dict[Node, int] = {}
    waiting: dict[Node, None] = {}
    for root in roots:
        if root not in found:
            yield from _from(root, found, waiting, stop_at_constants)


def _from(
    root: Node, found: dict[Node, int], waiting: dict[Node, None], stop_at_constants: bool
) -> Iterator[list[Node]]:
    def enter(node: Node) -> None:
        found[node] = len(found)
        waiting[node] = None
        path.append(_Visit(node, iter(inputs_of(node, stop_at_constants)), found[node], found[node]))

    path: list[_Visit] = []
    enter(root)
    while path:
        visit = path[-1]
        for child in visit.rest:
            if child not in found:
                enter(child)
                break
            if child in waiting:
                visit.low = min(visit.low, found[child])
        else:
            path.pop()
            if path:
                path[-1].low = min(path[-1].low, visit.low)
            if visit.low == visit.found:
                yield _taken(visit.node, waiting)


def _taken(first: Node, waiting: dict[Node, None]) -> list[Node]:
    """Take the component that begins with a node from the end of what waits."""
    members = []
    while True:
        node, _ = waiting.popitem()
        members.append(node)
        if node is first:
            return members[::-1]


def is_loop(members: list[Node]) -> bool:
    """Whether a component is a loop: several nodes, or one that reads itself."""
    return len(members) > 1 or members[0] in members[0].inputs
