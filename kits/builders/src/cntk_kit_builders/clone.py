"""Copies of a part of a network, with other inputs: what makes a function of a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from cntk_core.errors import CntkError, NetworkError, raise_problems
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_kit_builders.edit import freeze_statistics, sub_tree

PARAMETER_USES = ("learnable", "constant", "shared")
"""What becomes of the parameters of a clone: copied and learned on, copied and frozen, or not copied."""


def nodes_to_clone(inputs: Sequence[Node], outputs: Iterable[Node], parameters: str) -> list[Node]:
    """Return the nodes between ``inputs`` and ``outputs`` that a clone must copy.

    These are the nodes that depend on an input or on a copied parameter, and the copied parameters themselves. The
    inputs are not among them. Other inputs of the network are always shared.

    Args:
        inputs: the nodes that the clone's arguments stand for.
        outputs: the nodes that the clone gives.
        parameters: one of :data:`PARAMETER_USES`.

    Raises:
        NetworkError, Problems: no output depends on one of the inputs.
    """
    outputs = list(outputs)
    everything = set(sub_tree(outputs))
    problems: list[CntkError] = [
        NetworkError(
            f"no output of the cloned function depends on its input '{node.name}'",
            where=node.where,
            hint="List only nodes that the outputs are computed from.",
        )
        for node in inputs
        if node not in everything
    ]
    raise_problems(problems)
    candidates = sub_tree(outputs, stop=inputs)[::-1]
    given = set(inputs)
    marked = set(given)
    if parameters != "shared":
        marked.update(node for node in candidates if _has_parameters(node))
    size = -1
    while size != len(marked):  # again for what a delay passes back
        size = len(marked)
        marked.update(node for node in candidates if any(child in marked for child in node.inputs))
    return [node for node in candidates if node in marked and node not in given]


def _has_parameters(node: Node) -> bool:
    return isinstance(node, Parameter) or isinstance(node.attributes, BatchNormalizationAttributes)


def duplicate(node: Node, name: str = "") -> Node:
    """Return a copy of a node with the same inputs and its own value."""
    value = None if node.value is None else node.value.copy()
    return attrs.evolve(node, name=name or node.name, inputs=list(node.inputs), value=value)


def clone_nodes(
    nodes: Iterable[Node], arguments: Mapping[Node, Node], rename: Callable[[str], str], *, frozen: bool = False
) -> dict[Node, Node]:
    """Copy nodes and link the copies to each other.

    Args:
        nodes: what to copy.
        arguments: nodes that are not copied, and what stands in their place.
        rename: the copy's name for a name.
        frozen: the copies of parameters are not learned; batch normalization keeps its statistics.

    Returns:
        Old to new node, the arguments included.
    """
    copies = dict(arguments)
    made = [(node, duplicate(node, rename(node.name))) for node in nodes if node not in copies]
    copies.update(made)
    for _, copy in made:
        copy.inputs = [copies.get(child, child) for child in copy.inputs]
        if frozen:
            _freeze(copy)
    return copies


def _freeze(node: Node) -> None:
    if isinstance(node, Parameter):
        node.learning_rate_multiplier = 0.0
    elif isinstance(node.attributes, BatchNormalizationAttributes):
        freeze_statistics([node])
