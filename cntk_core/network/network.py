"""The network: nodes by name, roots by role, shape inference, and checks that report everything at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cntk_core.errors import CntkError, NetworkError, ShapeError, did_you_mean, raise_problems
from cntk_core.network.node import ROLES, Input, Node, Parameter
from cntk_core.ops.shapes import Shape, show

DELAYS = frozenset({"PastValue", "FutureValue"})
"""Operations through which a cycle is legal."""


class Network:
    """Nodes with unique names (case does not count), in the order of their making, and groups of root nodes.

    Args:
        dtype: precision of values and parameters: float32 or float64.
    """

    def __init__(self, dtype: Any = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        self._nodes: dict[str, Node] = {}
        self.roots: dict[str, list[Node]] = {role: [] for role in ROLES}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

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
        """Take a node out of the network and of all groups."""
        del self._nodes[node.name.lower()]
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

    def _repr_svg_(self) -> str:
        """Draw the network; notebooks show the picture."""
        from cntk_core.network.draw import to_svg

        return to_svg(self)

    def order(self, roots: Iterable[Node], *, stop_at_constants: bool = False) -> list[Node]:
        """Return the nodes that the roots need, each after its inputs: depth first, computed once.

        With ``stop_at_constants``, what only feeds precomputed nodes that have their value is left out.

        Raises:
            NetworkError: a cycle without a delay; names its nodes.
        """
        done: dict[Node, None] = {}
        for root in roots:
            self._visit(root, done, stop_at_constants)
        return list(done)

    def _visit(self, root: Node, done: dict[Node, None], stop_at_constants: bool) -> None:
        """Depth-first walk with an explicit stack, so that deep networks do not exhaust Python's."""
        path: dict[Node, None] = {}
        stack: list[tuple[Node, Iterator[Node]]] = []

        def enter(node: Node) -> None:
            path[node] = None
            leaf = node.op.name in DELAYS or (stop_at_constants and node.value is not None)
            stack.append((node, iter(() if leaf else node.inputs)))

        if root not in done:
            enter(root)
        while stack:
            node, rest = stack[-1]
            for child in rest:
                if child in path:
                    names = [item.name for item in path]
                    cycle = " -> ".join([*names[names.index(child.name) :], child.name])
                    raise NetworkError(
                        f"the nodes {cycle} form a cycle without a delay",
                        where=child.where,
                        hint="A cycle is legal only through PastValue or FutureValue.",
                    )
                if child not in done:
                    enter(child)
                    break
            else:
                stack.pop()
                del path[node]
                done[node] = None

    def infer(self) -> None:
        """Work out every node's shape and complete the parameters' shapes.

        Raises:
            Problems, ShapeError, NetworkError: all that is wrong, with the places in the recipe.
        """
        problems: list[CntkError] = []
        broken: set[Node] = set()
        for node in self.order(self):
            if any(child in broken for child in node.inputs):
                broken.add(node)
                continue
            try:
                _infer_node(node)
            except CntkError as error:
                broken.add(node)
                problems.append(error)
        problems += self._incomplete_parameters(broken)
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


def _infer_node(node: Node) -> None:
    if node.op.role in ("input", "parameter"):
        return
    fewest, most = node.op.arity
    count = len(node.inputs)
    if count < fewest or (most is not None and count > most):
        wanted = str(fewest) if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise NetworkError(f"{node.op.name} '{node.name}' takes {wanted} inputs, not {count}", where=node.where)
    shapes: list[Shape] = [child.known_shape for child in node.inputs]
    try:
        if node.op.complete is not None and any(0 in shape for shape in shapes):
            shapes = list(node.op.complete(shapes, node.attributes))
            _complete_parameters(node, shapes)
        node.shape = tuple(node.op.infer(shapes, node.attributes))
    except ShapeError as error:
        operands = ", ".join(f"{child.name} {show(child.known_shape)}" for child in node.inputs)
        raise ShapeError(
            f"{node.op.name} '{node.name}': {error.message}", where=node.where, hint=error.hint or f"Inputs: {operands}"
        ) from None
    except CntkError as error:
        error.where = error.where or node.where
        raise
    axes = [child.axis for child in node.inputs if child.framed]
    node.framed = bool(axes) and not node.op.reduces_frames
    node.axis = axes[0] if node.framed else ""


def _complete_parameters(node: Node, shapes: list[Shape]) -> None:
    for child, shape in zip(node.inputs, shapes, strict=True):
        if isinstance(child, Parameter) and 0 in child.known_shape:
            child.shape = tuple(shape)
