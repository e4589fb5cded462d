"""A network as the graph that TensorBoard draws."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from cntk_core.api import Network, to_cntk

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_./\\-]")


@attrs.frozen
class GraphNode:
    """A node as TensorBoard knows it.

    Attributes:
        name: unique; slashes part it into boxes within boxes.
        op: name of the operation.
        inputs: names of nodes.
        shape: sample shape in CNTK's order; nothing if it is not known.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...] = ()


def graph_of(network: Network) -> list[GraphNode]:
    """Return the nodes of a network, in its order."""
    nodes = list(network)
    names = dict(zip((node.name for node in nodes), tensor_board_names(node.name for node in nodes), strict=True))
    return [
        GraphNode(
            names[node.name],
            node.op.name,
            tuple(names[other.name] for other in node.inputs),
            () if node.shape is None else tuple(to_cntk(node.shape)),
        )
        for node in nodes
    ]


def tensor_board_names(names: Iterable[str]) -> list[str]:
    """Return names that TensorBoard takes, each once: dots become slashes, other characters underscores."""
    taken: set[str] = set()
    found = []
    for name in names:
        path = "/".join(part for part in _NOT_IN_NAMES.sub("_", name).replace(".", "/").split("/") if part) or "_"
        if not path[0].isalnum():
            path = f"n{path}"
        number, free = 2, path
        while free in taken:
            free, number = f"{path}_{number}", number + 1
        taken.add(free)
        found.append(free)
    return found
