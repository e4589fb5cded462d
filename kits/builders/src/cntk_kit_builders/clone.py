"""Copies of a part of a network, with other inputs: what makes a function of a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
import numpy as np

from cntk_core.errors import CntkError, NetworkError, did_you_mean, raise_problems
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_kit_builders.carry import carry_blocks
from cntk_kit_builders.edit import freeze_statistics, holds, sub_tree

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
    start = given if parameters == "shared" else given.union(node for node in candidates if _has_parameters(node))
    marked = depending_on(start, candidates)
    return [node for node in candidates if node in marked and node not in given]


def depending_on(nodes: Iterable[Node], candidates: Iterable[Node]) -> set[Node]:
    """Return nodes and all candidates that depend on one of them, perhaps through other candidates."""
    users: dict[Node, list[Node]] = {}
    for node in candidates:
        for child in node.inputs:
            users.setdefault(child, []).append(node)
    found = set(nodes)
    waiting = list(found)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in found:
                found.add(user)
                waiting.append(user)
    return found


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


def clone(
    network: Network,
    outputs: Sequence[Node],
    substitutions: Mapping[Node, Node],
    *,
    parameters: str = "learnable",
    into: Network | None = None,
    rename: Callable[[str], str] = lambda name: name,
) -> dict[Node, Node]:
    """Copy what computes some nodes, with other nodes in the place of some that it reads; add the copies to a network.

    Within a network only what depends on these nodes, or on copied parameters, is copied; the rest is shared. Into
    another network everything is copied that stands between. Blocks go with their nodes.

    Args:
        network: what the nodes are in.
        outputs: what is wanted of the copy.
        substitutions: nodes that are not copied, and what stands in their place.
        parameters: one of :data:`PARAMETER_USES`: the copy has parameters of its own that learn (``learnable``) or do
            not (``constant``), or the same ones (``shared``).
        into: the network of the copy; by default the same.
        rename: the copy's name for a name; names that are taken get a number.

    Returns:
        Old to new node, the substitutions included. What is not there is shared.

    Raises:
        NetworkError, Problems: no output depends on a node that is substituted, something is no node of its network,
            or parameters are to be shared with another network.
    """
    check_use(parameters)
    target = network if into is None else into
    strange = [node for node in (*outputs, *substitutions) if not holds(network, node)]
    strange += [node for node in substitutions.values() if not holds(target, node)]
    if strange:
        raise NetworkError(f"'{strange[0].name}' is no node of the network", where=strange[0].where)
    members = nodes_to_clone(list(substitutions), outputs, parameters)
    if target is not network:
        if parameters == "shared":
            raise NetworkError(
                "parameters can be shared within one network only",
                hint='Copy them: parameters="learnable", or "constant" for what shall not learn.',
            )
        members = [node for node in sub_tree(outputs, stop=substitutions) if node not in substitutions]
    wanted = set(members)
    ordered = [node for node in network if node in wanted]
    copies = clone_nodes(ordered, substitutions, rename, frozen=parameters == "constant")
    for node in ordered:
        if copies[node].value is not None:
            copies[node].value = np.asarray(copies[node].value, target.dtype)
    add_all(target, [copies[node] for node in ordered])
    carry_blocks(network.blocks, {node: copies[node] for node in ordered}, target, rename)
    return copies


def check_use(parameters: str) -> None:
    """Raise NetworkError if a word is none of :data:`PARAMETER_USES`."""
    if parameters not in PARAMETER_USES:
        raise NetworkError(
            f"parameters of a copy cannot be '{parameters}'{did_you_mean(parameters, PARAMETER_USES)}",
            hint=f"Accepted: {', '.join(PARAMETER_USES)}",
        )


def free_name(network: Network, name: str) -> str:
    """Return a name that no node has: the given one, or one with a number behind it."""
    found, number = name, 1
    while found in network:
        number += 1
        found = f"{name}{number}"
    return found


def add_all(network: Network, nodes: Iterable[Node]) -> None:
    """Add new nodes to a network, each with a name that is free."""
    for node in nodes:
        node.name = free_name(network, node.name)
        network.add(node)
