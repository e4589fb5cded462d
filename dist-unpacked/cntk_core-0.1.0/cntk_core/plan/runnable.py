"""Which nodes of a network cannot run yet: all of them at once, with their places in the recipe."""

from __future__ import annotations

from collections.abc import Iterable

from cntk_core.errors import CntkError, UnsupportedError, raise_problems
from cntk_core.network.network import Network, placeholder_left
from cntk_core.network.node import Node, Placeholder


def check_runnable(network: Network, roots: Iterable[Node]) -> None:
    """Make sure that everything that the roots need can be computed.

    Raises:
        UnsupportedError, NetworkError, Problems: names every node whose operation is only declared, and placeholders.
    """
    problems: list[CntkError] = []
    needed = _needed(roots)
    for node in network:
        reason = node.op.missing(node.attributes) if node in needed else None
        if reason is not None and isinstance(node, Placeholder):
            problems.append(placeholder_left(node))
        elif reason is not None:
            problems.append(UnsupportedError(f"the node '{node.name}' cannot run yet: {reason}", where=node.where))
    raise_problems(problems)


def _needed(roots: Iterable[Node]) -> set[Node]:
    """The roots and all that they need, also through delays; what has a constant value needs nothing."""
    found = set(roots)
    waiting = list(found)
    while waiting:
        node = waiting.pop()
        for child in () if node.value is not None else node.inputs:
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found
