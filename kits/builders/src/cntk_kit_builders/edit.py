"""Editing networks in place: copies, links, names, groups and properties, removal.

An edited network may have inputs that lead nowhere for a while: a copied node whose inputs were not copied with it, or
a node whose input was removed. :func:`check_links` names all of them; :func:`complete_network` also works out the
shapes and gives new parameters their values. What saves or uses an edited network calls it first. Cycles through delays
are legal everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import CntkError, Location, NetworkError, did_you_mean, raise_problems
from cntk_core.network.initializers import initialize_parameters
from cntk_core.network.network import Network
from cntk_core.network.node import ROLES, Input, Node, Parameter
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Shape, show
from cntk_kit_builders.carry import carry_blocks
from cntk_kit_builders.first_values.initializers import FromFile


def _unlinked(shapes: Sequence[Shape], attributes: Any) -> Shape:
    raise AssertionError("an input that is not linked has no shape")


_UNLINKED = Op("(not linked)", (0, 0), _unlinked)
"""The op of what stands in for an input that was not copied with its node; such a node is in no network."""


# -- looking ----------------------------------------------------------------------------------------------


def holds(network: Network, node: Node) -> bool:
    """Tell whether a node is in a network (and not only one of its name)."""
    return node.name in network and network[node.name] is node


def users_of(network: Network, node: Node) -> list[Node]:
    """Return the nodes that have a node as an input."""
    return [user for user in network if node in user.inputs]


def sub_tree(roots: Iterable[Node], *, stop: Collection[Node] = ()) -> list[Node]:
    """Return the nodes that the roots need, the roots included, through delays too; nothing below ``stop``."""
    found = dict.fromkeys(roots)
    pending = list(found)
    while pending:
        node = pending.pop()
        for child in () if node in stop else node.inputs:
            if child not in found:
                found[child] = None
                pending.append(child)
    return list(found)


def check_links(network: Network) -> None:
    """Check that every input of every node is a node of the network.

    Raises:
        NetworkError, Problems: all inputs that are not.
    """
    raise_problems(
        [
            _open_input(node, index, child)
            for node in network
            for index, child in enumerate(node.inputs)
            if not holds(network, child)
        ]
    )


def _open_input(node: Node, index: int, child: Node) -> NetworkError:
    reason = "was not copied with it" if child.op is _UNLINKED else "is not in the network any more"
    return NetworkError(
        f"input {index} of {node.op.name} '{node.name}' leads nowhere: '{child.name}' {reason}",
        where=node.where,
        hint=f"Link input {index} of '{node.name}' to another node, or remove '{node.name}' too.",
    )


def complete_network(network: Network) -> None:
    """Check the links of an edited network, infer its shapes and give new parameters their first values.

    Random initializers go on counting after the parameters that have values already, so that a layer that is added
    does not begin like an older one. A precomputed value that no longer fits is forgotten.

    Raises:
        CntkError, Problems: everything that is wrong with the network.
    """
    check_links(network)
    network.infer()
    for node in network:
        if not isinstance(node, Parameter) and node.value is not None and node.value.shape != node.shape:
            node.value = None
    known = sum(parameter.value is not None and parameter.initializer is None for parameter in network.parameters)
    initialize_parameters(network, seed=known)


# -- copying ----------------------------------------------------------------------------------------------


def copy_nodes(
    pairs: Sequence[tuple[Node, str]],
    into: Network,
    *,
    values_only: bool = False,
    where: Location | None = None,
    source: Network | None = None,
    rename_block: Callable[[str], str] = lambda name: name,
) -> list[Node]:
    """Copy nodes under new names, within a network or into another one; return the copies.

    A node that has a name already gets everything but its name from the one that is copied: value, shape, attributes,
    and with ``values_only=False`` the links to nodes that are copied at the same time; its other links stay. A new node
    has links to what is copied at the same time and no others: they must be made before the network is used, see
    :func:`check_links`. Groups are not copied.

    Args:
        pairs: nodes and the names of their copies; a node may be there several times.
        into: the network of the copies.
        values_only: the copies must be there, and keep all their links.
        where: the place that asks for it, for new nodes.
        source: the network of the nodes; its blocks go with their nodes, unless ``values_only``.
        rename_block: the name of a block's copy for its name.

    Raises:
        NetworkError, Problems: a node would be copied onto itself, another operation has the name, a shape differs or
            (``values_only``) there is no such node. Nothing is changed then.
    """
    _check_copies(pairs, into, values_only)
    copies: list[Node] = []
    copy_of: dict[Node, Node] = {}
    for node, name in pairs:
        copy = into[name] if name in into else into.add(_duplicate(node, name, into.dtype, where))
        copies.append(copy)
        copy_of[node] = copy
    for (node, _), copy in zip(pairs, copies, strict=True):
        _overwrite(copy, node, into.dtype)
        if not values_only:
            copy.inputs = [
                copy_of.get(child) or _kept_input(copy, index, child) for index, child in enumerate(node.inputs)
            ]
    if source is not None and not values_only:
        carry_blocks(source.blocks, copy_of, into, rename_block)
    return copies


def _check_copies(pairs: Sequence[tuple[Node, str]], into: Network, values_only: bool) -> None:
    problems: list[CntkError] = []
    taken: dict[str, str] = {}
    for node, name in pairs:
        problem = _copy_problem(node, name, into, values_only)
        other = taken.setdefault(name.lower(), node.name)
        if problem is None and other != node.name:
            problem = NetworkError(f"both '{other}' and '{node.name}' would be copied to '{name}'")
        problems += [] if problem is None else [problem]
    raise_problems(problems)


def _copy_problem(node: Node, name: str, into: Network, values_only: bool) -> NetworkError | None:
    if name not in into:
        if not values_only:
            return None
        near = did_you_mean(name, [other.name for other in into])
        return NetworkError(
            f"the values of '{node.name}' cannot be copied: there is no node '{name}'{near}",
            hint="Copy everything (copy=all) to make a new node.",
        )
    old = into[name]
    if old is node:
        return NetworkError(f"'{node.name}' cannot be copied onto itself")
    if old.op is not node.op:
        return NetworkError(
            f"'{node.name}' cannot be copied to '{old.name}': it is a {node.op.name}, and that is a {old.op.name}",
            hint=f"Remove '{old.name}' first, or choose another name.",
        )
    if values_only and isinstance(node, Parameter) and 0 not in old.known_shape and old.shape != node.shape:
        return NetworkError(
            f"the values of '{node.name}' {show(node.known_shape)} do not fit '{old.name}' {show(old.known_shape)}"
        )
    return None


def _duplicate(node: Node, name: str, dtype: np.dtype[Any], where: Location | None) -> Node:
    return attrs.evolve(node, name=name, inputs=[], where=where or node.where, value=_array_copy(node.value, dtype))


def _array_copy(value: NDArray[Any] | None, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    return None if value is None else np.array(value, dtype)


def _overwrite(copy: Node, node: Node, dtype: np.dtype[Any]) -> None:
    """Give a copy all that is in a node but its name, place and links."""
    for field in attrs.fields(type(node)):
        if field.name not in ("name", "op", "inputs", "where", "_value", "collect"):
            setattr(copy, field.name, getattr(node, field.name))
    copy.value = _array_copy(node.value, dtype)


def _kept_input(copy: Node, index: int, child: Node) -> Node:
    """Return the input that a copy keeps where its model's input is not copied."""
    return copy.inputs[index] if index < len(copy.inputs) else Node(child.name, _UNLINKED)


def copy_sub_tree(
    roots: Sequence[Node],
    source: Network,
    into: Network,
    prefix: str,
    *,
    values_only: bool = False,
    where: Location | None = None,
) -> list[Node]:
    """Copy nodes and all that they need, each with a prefix before its name; return the copies in the order of source.

    Raises:
        NetworkError, Problems: as :func:`copy_nodes`; also if something that they need is not in the network any more.
    """
    needed = set(sub_tree(roots))
    for node in needed:
        for index, child in enumerate(node.inputs):
            if not holds(source, child):
                raise _open_input(node, index, child)
    pairs = [(node, prefix + node.name) for node in source if node in needed]
    return copy_nodes(
        pairs, into, values_only=values_only, where=where, source=source, rename_block=lambda name: prefix + name
    )


# -- links ------------------------------------------------------------------------------------------------


def set_input(network: Network, node: Node, index: int, child: Node) -> None:
    """Link one input of a node; an index right behind the last input adds one.

    Raises:
        NetworkError: the operation has no such input, or an earlier one is still missing.
    """
    _check_member(network, child)
    most = node.op.arity[1]
    if index < 0 or (most is not None and index >= most):
        count = "no inputs" if most == 0 else f"the inputs 0 to {(most or 0) - 1}" if most else "inputs from 0 on"
        raise NetworkError(f"{node.op.name} '{node.name}' has {count}, not {index}")
    if index > len(node.inputs):
        raise NetworkError(f"input {len(node.inputs)} of {node.op.name} '{node.name}' must be set before input {index}")
    node.inputs[index : index + 1] = [child]


def set_inputs(network: Network, node: Node, children: Sequence[Node]) -> None:
    """Link all inputs of a node.

    Raises:
        NetworkError: the operation takes another number of inputs.
    """
    for child in children:
        _check_member(network, child)
    fewest, most = node.op.arity
    if len(children) < fewest or (most is not None and len(children) > most):
        wanted = str(fewest) if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise NetworkError(f"{node.op.name} '{node.name}' takes {wanted} inputs, not {len(children)}")
    node.inputs = list(children)


def _check_member(network: Network, child: Node) -> None:
    if not holds(network, child):
        raise NetworkError(f"'{child.name}' is a node of another network", hint="Copy it into this one first.")


def copy_inputs(pairs: Sequence[tuple[Node, str]], network: Network) -> None:
    """Give nodes of a network the inputs of others of the same network.

    Raises:
        NetworkError: there is no node of a name, or it takes another number of inputs.
    """
    targets = [(node, network[name]) for node, name in pairs]
    for node, target in targets:
        set_inputs(network, target, list(node.inputs))


def replace_node(network: Network, old: Node, new: Node, *, keep: Collection[Node] = ()) -> None:
    """Put a node in the place of another one: in all nodes that use it and in all groups.

    The old node stays in the network; nodes in ``keep`` go on using it, and so does ``new`` itself if it is made of
    the old one.
    """
    _check_member(network, new)
    for user in network:
        if user is not new and user not in keep:
            user.inputs = [new if child is old else child for child in user.inputs]
    for group in network.roots.values():
        if old in group:
            kept = [new if node is old else node for node in group]
            group[:] = dict.fromkeys(kept)


# -- names and removal ------------------------------------------------------------------------------------


def rename_nodes(network: Network, pairs: Sequence[tuple[Node, str]]) -> None:
    """Give nodes new names, all at once, so that names may be exchanged; links and groups stay.

    Raises:
        NetworkError, Problems: a name belongs to a node that keeps it, or is given twice. Nothing is changed then.
    """
    leaving = {node for node, _ in pairs}
    given: dict[str, Node] = {}
    problems: list[CntkError] = []
    for node, name in pairs:
        first = given.setdefault(name.lower(), node)
        if first is not node:
            problems.append(NetworkError(f"both '{first.name}' and '{node.name}' would be called '{name}'"))
        elif not name:
            problems.append(NetworkError(f"the new name of '{node.name}' is empty"))
        elif name in network and network[name] not in leaving:
            problems.append(NetworkError(f"cannot rename '{node.name}' to '{name}': the name is already used"))
    raise_problems(problems)
    network.rename_all(dict(pairs))


def remove_nodes(network: Network, nodes: Iterable[Node]) -> None:
    """Take nodes out of a network and of all groups. What used them must get other inputs: see :func:`check_links`."""
    for node in dict.fromkeys(nodes):
        network.remove(node)


# -- properties -------------------------------------------------------------------------------------------


def set_role(network: Network, nodes: Iterable[Node], role: str, member: bool = True) -> None:
    """Put nodes into a group (``feature``, ``label``, ``criterion``, ``evaluation``, ``output``), or take them out.

    Raises:
        NetworkError: there is no such group, or something that is no input would be a feature or a label.
    """
    if role not in ROLES:
        raise NetworkError(f"there is no group '{role}'{did_you_mean(role, ROLES)}", hint=f"Groups: {', '.join(ROLES)}")
    nodes = list(nodes)
    wrong = [node for node in nodes if member and role in ("feature", "label") and not isinstance(node, Input)]
    if wrong:
        raise NetworkError(f"{wrong[0].op.name} '{wrong[0].name}' cannot be a {role}: it is no input of the network")
    for node in nodes:
        if member:
            network.mark(node, role)
        elif node in network.roots[role]:
            network.roots[role].remove(node)


def set_learning_rate(nodes: Iterable[Node], multiplier: float) -> list[Parameter]:
    """Set how fast the parameters among nodes learn, 0 for not at all; return them.

    Raises:
        NetworkError: the multiplier is negative or no number, or there is no parameter among the nodes.
    """
    if not (math.isfinite(multiplier) and multiplier >= 0):
        raise NetworkError(f"a learning rate multiplier must be a number from 0 on, not {multiplier:g}")
    nodes = list(nodes)
    found = [node for node in nodes if isinstance(node, Parameter)]
    if not found:
        names = ", ".join(f"'{node.name}'" for node in nodes[:3]) + (", ..." if len(nodes) > 3 else "")
        raise NetworkError(f"only parameters learn, and there is none among {names}")
    for parameter in found:
        parameter.learning_rate_multiplier = multiplier
        parameter.needs_gradient = parameter.needs_gradient or multiplier > 0
    return found


def set_needs_gradient(nodes: Iterable[Node], needed: bool) -> list[Parameter]:
    """Let the parameters among nodes learn (multiplier 1) or not (multiplier 0), as the original does; return them.

    Raises:
        NetworkError: there is no parameter among the nodes.
    """
    return set_learning_rate(nodes, 1.0 if needed else 0.0)


def freeze_statistics(nodes: Iterable[Node]) -> list[Node]:
    """Stop batch normalisations from changing their running statistics: both time constants become infinite.

    Raises:
        NetworkError: a node is no batch normalisation.
    """
    nodes = list(nodes)
    times = ("normalization_time_constant", "blend_time_constant")
    for node in nodes:
        if not set(times) <= {field.name for field in attrs.fields(type(node.attributes))}:
            raise NetworkError(f"{node.op.name} '{node.name}' is not a BatchNormalization and cannot be frozen")
    for node in nodes:
        node.attributes = attrs.evolve(node.attributes, **dict.fromkeys(times, math.inf))
    return nodes


def revise_parameter(network: Network, parameter: Parameter, path: Path, where: Location | None = None) -> None:
    """Replace the values of a parameter by those of a file: see :class:`FromFile`.

    Raises:
        DataError: the file cannot be read, or its matrix has not the parameter's shape.
    """
    matrix = FromFile(path, where)
    if 0 in parameter.known_shape:
        parameter.shape = matrix.complete(parameter.known_shape)
    parameter.value = matrix(parameter.known_shape, network.dtype, 0)
