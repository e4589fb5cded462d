"""What is legal in a network, but hardly meant."""

from __future__ import annotations

from cntk_core.network.network import Network
from cntk_core.network.node import Node


def remarks(network: Network) -> list[str]:
    """Return a warning for everything that ops say of the nodes of a network whose shapes are known.

    Where several nodes have the same, the first one's name stands for all.
    """
    found: dict[tuple[str, str], list[Node]] = {}
    for node in network:
        if node.op.remark is None:
            continue
        text = node.op.remark([child.known_shape for child in node.inputs], node.attributes)
        if text is not None:
            found.setdefault((node.op.name, text), []).append(node)
    return [_line(name, text, nodes) for (name, text), nodes in found.items()]


def _line(name: str, text: str, nodes: list[Node]) -> str:
    first, others = nodes[0], len(nodes) - 1
    where = f"{first.where}: " if first.where is not None else ""
    more = f" and {others} more" if others else ""
    return f"{where}Warning: {name} '{first.name}'{more}: {text}"
