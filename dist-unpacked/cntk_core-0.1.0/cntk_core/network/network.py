"""The network: nodes by name, roots by role, shape inference, and checks that report everything at once."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from cntk_core.errors import CntkError, NetworkError, ShapeError, did_you_mean, raise_problems
from cntk_core.network.blocks import Block, nest
from cntk_core.network.components import components, is_loop
from cntk_core.network.inference import infer_loop, infer_node, is_delay
from cntk_core.network.node import ROLES, Input, Node, Parameter, Placeholder, copies_of
from cntk_core.ops.language.shapes import show
from cntk_core.records.origin import Origin


class Network:
    """Nodes with unique names (case does not count), in the order of their making, and groups of root nodes.

    Args:
        dtype: precision of values and parameters: float32 or float64.

    Attributes:
        roots: the groups by role.
        blocks: parts of it that have a name, such as layers.
        origins: the plugins that took part in making it what it is; they are saved with it.
    """

    def __init__(self, dtype: Any = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        self._nodes: dict[str, Node] = {}
        self.roots: dict[str, list[Node]] = {role: [] for role in ROLES}
        self.blocks: list[Block] = []
        self.origins: tuple[Origin, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __deepcopy__(self, memo: dict[int, Any]) -> Network:
        made = memo[id(self)] = type(self)(self.dtype)
        memo.update({id(node): each for node, each in copies_of(self).items()})
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        from cntk_core.network.model_file import pickled

        return pickled(self)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._nodes

    def __getitem__(self, name: str) -> Node:
        """Return the node of a name.

        Raises:
            NetworkError: there is none.
        """
        node = self._nodes.get(name.lower())
        if node is None:
            known = [node.name for node in self]
            raise NetworkError(f"the network has no node '{name}'{did_you_mean(name, known)}")
        return node

    def add(self, node: Node) -> Node:
        """Add a node and return it.

        Raises:
            NetworkError: the name is taken; names both places.
        """
        old = self._nodes.get(node.name.lower())
        if old is not None:
            first = f" (first at {old.where})" if old.where else ""
            note = "" if old.name == node.name else f": '{old.name}' differs only in case"
            raise NetworkError(f"the node name '{node.name}' is already used{first}{note}", where=node.where)
        self._nodes[node.name.lower()] = node
        return node

    def remove(self, node: Node) -> None:
        """Take a node out of the network and of all groups and blocks."""
        del self._nodes[node.name.lower()]
        for block in [block for block in self.blocks if node in block.nodes]:
            block.remove(node)
            if not block.outputs:
                self.blocks.remove(block)
        for group in self.roots.values():
            if node in group:
                group.remove(node)

    def rename(self, node: Node, name: str) -> None:
        """Give a node another name; its place in the order stays."""
        if name.lower() != node.name.lower() and name in self:
            raise NetworkError(f"cannot rename '{node.name}' to '{name}': the name is already used", where=node.where)
        entries = [(name.lower() if value is node else key, value) for key, value in self._nodes.items()]
        node.name = name
        self._nodes = dict(entries)

    def rename_all(self, names: Mapping[Node, str]) -> None:
        """Give nodes other names, all at once, so that they may exchange them; their places in the order stay.

        Raises:
            NetworkError: two nodes would have the same name; nothing is changed then.
        """
        nodes = {names.get(node, node.name).lower(): node for node in self}
        if len(nodes) < len(self):
            taken = [name for node, name in names.items() if nodes[name.lower()] is not node]
            raise NetworkError(f"several nodes would have the name '{next(iter(taken), '')}'")
        for node, name in names.items():
            node.name = name
        self._nodes = nodes

    def mark(self, node: Node, role: str) -> None:
        """Put a node into a group (``feature``, ``label``, ``criterion``, ``evaluation``, ``output``), once."""
        if node not in self.roots[role]:
            self.roots[role].append(node)

    @property
    def inputs(self) -> list[Input]:
        """All input nodes, in the order of their making."""
        return [node for node in self if isinstance(node, Input)]

    @property
    def parameters(self) -> list[Parameter]:
        """All parameters, in the order of their making."""
        return [node for node in self if isinstance(node, Parameter)]

    @property
    def placeholders(self) -> list[Placeholder]:
        """All placeholders that still have to be replaced, in the order of their making."""
        return [node for node in self if isinstance(node, Placeholder)]

    def replace_placeholders(self, substitutions: Mapping[Placeholder, Node]) -> None:
        """Put nodes in the place of placeholders, all at once: where they are read, and in all groups.

        A node may depend on the placeholder whose place it takes; that closes a loop. It may itself be a placeholder.

        Raises:
            NetworkError: something is no placeholder, or no node of this network; placeholders stand for each other;
                a dimension is not what was said. Nothing is changed then.
        """
        found = _replacements(self, substitutions)
        for node in self:
            if not found.keys().isdisjoint(node.inputs):
                node.inputs = [found.get(child, child) for child in node.inputs]
        for role, group in self.roots.items():
            self.roots[role] = list(dict.fromkeys(found.get(node, node) for node in group))
        for placeholder in substitutions:
            placeholder.replacement = found[placeholder]
            self.remove(placeholder)

    def add_block(self, block: Block) -> Block:
        """Give a part of the network a name, and return it. Inner blocks come before those around them.

        Raises:
            NetworkError: an output is none of its nodes, a node not in the network, or it overlaps another block.
        """
        strange = [node for node in block.nodes if self._nodes.get(node.name.lower()) is not node]
        if strange:
            raise NetworkError(f"'{strange[0].name}' of the block '{block.name}' is no node of this network")
        if not block.outputs or any(node not in block.nodes for node in block.outputs):
            raise NetworkError(f"the outputs of the block '{block.name}' must be among its nodes, at least one")
        for other in self.blocks:
            if not other.nodes.keys().isdisjoint(block.nodes):
                nest([other, block])
        self.blocks.append(block)
        return block

    def _repr_svg_(self) -> str | None:
        """Draw the network, where something is there that can; notebooks show the picture."""
        return Network.picture(self) or None

    @staticmethod
    def picture(network: Network, depth: int = 0) -> str:
        """Return an SVG of a network with its blocks collapsed from a depth on, by what a wheel offers in the group
        ``cntk.pictures``; empty if none does. Another one comes before that of the name ``default``.
        """
        for point in sorted(entry_points(group="cntk.pictures"), key=lambda one: (one.name == "default", one.name)):
            with suppress(ImportError):
                return str(point.load()(network, depth))
        return ""

    def order(self, roots: Iterable[Node], *, stop_at_constants: bool = False) -> list[Node]:
        """Return the nodes that the roots need, each after its inputs: depth first, computed once.

        A delay does not wait for its first input, which may stand after it. With ``stop_at_constants``, what only feeds
        precomputed nodes that have their value is left out.

        Raises:
            NetworkError: a cycle without a delay; names its nodes.
        """
        done: dict[Node, None] = {}
        waiting = list(roots)[::-1]
        while waiting:
            root = waiting.pop()
            if root not in done:
                _visit(root, done, waiting, stop_at_constants)
        return list(done)

    def infer(self, *, partial: bool = False) -> None:
        """Work out every node's shape and complete the parameters' shapes.

        With ``partial`` the network is still being made: shapes that depend on a placeholder without one stay None, and
        parameters may have dimensions 0.

        Raises:
            Problems, ShapeError, NetworkError: all that is wrong, with the places in the recipe; placeholders as well.
        """
        place = {node: index for index, node in enumerate(self.order(self))}
        placeholders = [node for node in place if isinstance(node, Placeholder)]
        problems: list[CntkError] = [] if partial else [placeholder_left(node) for node in placeholders]
        broken: set[Node] = {node for node in placeholders if node.shape is None}
        for members in components(self):
            if any(child in broken for node in members for child in node.inputs):
                broken.update(members)
                continue
            if is_loop(members):
                found = infer_loop(sorted(members, key=place.__getitem__))
            else:
                found = _infer_alone(members[0])
            if found:
                broken.update(members)
                problems += found
        problems += [] if partial else self._incomplete_parameters(broken)
        raise_problems(problems)

    def _incomplete_parameters(self, broken: set[Node]) -> list[CntkError]:
        reached = {child for node in broken for child in node.inputs}
        return [
            ShapeError(
                f"the dimensions {show(node.known_shape)} of parameter '{node.name}' cannot be inferred",
                where=node.where,
                hint="Give every dimension, or use it in a product whose other operand has a known shape.",
            )
            for node in self.parameters
            if 0 in node.known_shape and node not in reached
        ]


def placeholder_left(node: Placeholder) -> NetworkError:
    """Return the error for a placeholder where a network has to be complete."""
    return NetworkError(
        f"the placeholder '{node.name}' still stands for something that is not known",
        where=node.where,
        hint="Say with replace_placeholders what takes its place.",
    )


def _replacements(network: Network, substitutions: Mapping[Placeholder, Node]) -> dict[Node, Node]:
    """Return what takes the place of each placeholder in the end. Raises NetworkError for what cannot be."""
    found: dict[Node, Node] = {}
    for old in substitutions:
        passed: list[Node] = [old]
        while isinstance(passed[-1], Placeholder) and passed[-1] in substitutions:
            passed.append(substitutions[passed[-1]])
            if passed[-1] in passed[:-1]:
                names = " -> ".join(node.name for node in passed)
                raise NetworkError(f"placeholders stand for each other: {names}", where=old.where)
        found[old] = new = passed[-1]
        if not isinstance(old, Placeholder):
            raise NetworkError(f"{old.op.name} '{old.name}' is no placeholder", where=old.where)
        for node in passed:
            if network._nodes.get(node.name.lower()) is not node:
                raise NetworkError(f"{node.op.name} '{node.name}' is no node of this network", where=node.where)
        if None not in (old.shape, new.shape) and 0 not in new.known_shape and old.shape != new.shape:
            message = f"was said to be {show(old.known_shape)}, but '{new.name}' is {show(new.known_shape)}"
            raise ShapeError(f"the placeholder '{old.name}' {message}", where=old.where)
    return found


def _infer_alone(node: Node) -> list[CntkError]:
    try:
        infer_node(node)
    except CntkError as error:
        return [error]
    return []


def _visit(root: Node, done: dict[Node, None], later: list[Node], stop_at_constants: bool) -> None:
    """Depth-first walk with an explicit stack, so that deep networks do not exhaust Python's.

    The first inputs of delays go to ``later``: they need not be there before the delay.
    """
    path: dict[Node, None] = {}
    stack: list[tuple[Node, Iterator[Node]]] = []

    def enter(node: Node) -> None:
        path[node] = None
        inputs: Sequence[Node] = () if stop_at_constants and node.value is not None else node.inputs
        if is_delay(node):
            later.extend(inputs[:1])
            inputs = inputs[1:]
        stack.append((node, iter(inputs)))

    enter(root)
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if child in path:
                raise _cycle([*path], child)
            if child not in done:
                enter(child)
                break
        else:
            stack.pop()
            del path[node]
            done[node] = None


def _cycle(path: list[Node], child: Node) -> NetworkError:
    names = [item.name for item in path]
    cycle = " -> ".join([*names[path.index(child) :], child.name])
    return NetworkError(
        f"the nodes {cycle} form a cycle without a delay",
        where=child.where,
        hint="A cycle is legal only through PastValue or FutureValue.",
    )
