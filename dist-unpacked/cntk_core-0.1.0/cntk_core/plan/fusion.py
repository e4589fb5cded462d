"""Which element-wise nodes are computed together in one pass."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cntk_core.network.node import Node
from cntk_core.ops.language.expression import symbol
from cntk_core.plan.traced import traced_gradient


def is_elementwise(node: Node) -> bool:
    """Whether a node can be part of a fused pass."""
    return node.op.elementwise is not None and not node.op.random and node.value is None


def consumers_of(order: Sequence[Node]) -> dict[Node, list[Node]]:
    """For each node of an order, the nodes of the order that read it, each once."""
    inside = set(order)
    consumers: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        if node.value is None:
            for child in dict.fromkeys(node.inputs):
                if child in inside:
                    consumers[child].append(node)
    return consumers


def group(
    order: Sequence[Node],
    consumers: Mapping[Node, Sequence[Node]],
    place: Mapping[Node, int],
    *,
    fuse: bool,
    apart: Collection[Node] = (),
) -> list[tuple[Node, ...]]:
    """Cut an order of computed nodes into steps: single nodes, or element-wise nodes of one shape fused.

    A node joins the group of one of its inputs if both have the same shape and dynamic axis and nobody outside the
    group needs a member before this node is computed. A group stands at the place of its last member, so the result
    is in a valid order again.

    Args:
        order: the nodes.
        consumers: who reads a node in the same pass over the frames.
        place: position of every node, consumers included.
        fuse: otherwise every node is a group.
        apart: nodes that are groups of their own.
    """
    group_of: dict[Node, list[Node]] = {}
    for node in order:
        group_of[node] = [node]
        if not (fuse and is_elementwise(node)) or node in apart:
            continue
        for child in dict.fromkeys(node.inputs):
            candidate = group_of.get(child)
            if candidate is None or candidate is group_of[node] or child in apart or not is_elementwise(child):
                continue
            if not _same_space(node, child) or _needed_before(candidate, node, consumers, place, group_of):
                continue
            merged = sorted([*candidate, *group_of[node]], key=place.__getitem__)
            for member in merged:
                group_of[member] = merged
    groups = {id(members): tuple(members) for members in group_of.values()}
    return sorted(groups.values(), key=lambda members: place[members[-1]])


def _same_space(node: Node, other: Node) -> bool:
    return (node.shape, node.framed, node.axis) == (other.shape, other.framed, other.axis)


def _needed_before(
    candidate: Sequence[Node],
    node: Node,
    consumers: Mapping[Node, Sequence[Node]],
    place: Mapping[Node, int],
    group_of: Mapping[Node, list[Node]],
) -> bool:
    mine = {*candidate, *group_of[node]}
    return any(place[user] < place[node] and user not in mine for member in candidate for user in consumers[member])


def gradient_reads(node: Node, needs: Sequence[bool]) -> tuple[bool, frozenset[int]]:
    """Which values the gradient of an element-wise node looks at: its output, and the indices of its inputs.

    Found by tracing the gradient expressions of the inputs that need one.
    """
    inputs = [symbol(f"x{index}") for index in range(len(node.inputs))]
    results = traced_gradient(node, symbol("g"), symbol("y"), inputs)
    names: set[str] = set()
    for needed, result in zip(needs, results, strict=True):
        if needed and result is not None and not isinstance(result, float | int):
            names |= result.symbols()
    return "y" in names, frozenset(int(name[1:]) for name in names if name.startswith("x"))
