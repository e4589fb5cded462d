"""Graph and Term: write a network as Python expressions.

A :class:`Term` is a handle of a node; operators make new nodes. Shapes are in NumPy's order, without the frame axis.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cntk_core.api import (
    BuildError,
    Input,
    Location,
    Network,
    Node,
    Op,
    Parameter,
    core_ops,
    did_you_mean,
    initialize_parameters,
    initializer,
)

_PACKAGE = str(Path(__file__).resolve().parent)


def caller() -> Location:
    """The innermost place outside this package: the line of the user's file that asked for a node."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)


class Term:
    """A node being used in an expression: ``x @ W + b``, ``sigmoid(x) * y``, ``1 - x``."""

    __array_ufunc__ = None  # so that a NumPy operand lets us answer

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    def __repr__(self) -> str:
        return f"<{self.node.describe()}>"

    def named(self, name: str) -> Term:
        """Give the node another name and return this term."""
        self.graph.network.rename(self.node, name)
        return self

    def __add__(self, other: Operand) -> Term:
        return self.graph.apply("Plus", self, other)

    def __radd__(self, other: Operand) -> Term:
        return self.graph.apply("Plus", other, self)

    def __sub__(self, other: Operand) -> Term:
        return self.graph.apply("Minus", self, other)

    def __rsub__(self, other: Operand) -> Term:
        return self.graph.apply("Minus", other, self)

    def __mul__(self, other: Operand) -> Term:
        return self.graph.apply("ElementTimes", self, other)

    def __rmul__(self, other: Operand) -> Term:
        return self.graph.apply("ElementTimes", other, self)

    def __truediv__(self, other: Operand) -> Term:
        return self.graph.apply("ElementTimes", self, self.graph.apply("Reciprocal", other))

    def __neg__(self) -> Term:
        return self.graph.apply("Negate", self)

    def __matmul__(self, other: Operand) -> Term:
        """Return ``x @ W``: ``(in,) @ (in, out) -> (out,)``, CNTK's ``Times(W, x)``."""
        return self.graph.apply("Times", other, self)


Operand = Term | float | np.ndarray


class Graph:
    """A network in the making.

    Args:
        dtype: float32 or float64.
        find_op: look up an operation by (language, name); None means the core's own table.
        seed: base seed of parameter initialisation.
    """

    def __init__(self, dtype: Any = np.float32, *, find_op: Any = None, seed: int = 0) -> None:
        self.network = Network(dtype)
        self.seed = seed
        self._find_op = find_op or core_ops().find
        self._counts: dict[str, int] = {}

    def unique(self, stem: str) -> str:
        """Return a name that is not used yet: ``stem``, ``stem1``, ``stem2``, ..."""
        name = stem
        while name in self.network:
            self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}{self._counts[stem]}"
        return name

    def input(self, name: str, shape: int | Sequence[int], *, sparse: bool = False, role: str = "feature") -> Term:
        """Add an input stream. ``role`` is ``feature`` or ``label``."""
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        node = self.network.add(Input.make(name, dims, sparse=sparse, where=caller()))
        self.network.mark(node, role)
        return Term(self, node)

    def label(self, name: str, shape: int | Sequence[int], *, sparse: bool = False) -> Term:
        """Add a label stream."""
        return self.input(name, shape, sparse=sparse, role="label")

    def parameter(
        self,
        shape: int | Sequence[int],
        *,
        init: str = "glorotUniform",
        scale: float = 1.0,
        name: str = "W",
        learning_rate_multiplier: float = 1.0,
    ) -> Term:
        """Add a learned tensor; a dimension 0 is inferred. ``init`` is CNTK's word (``gaussian``, ...)."""
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        first = initializer(init, scale=scale)
        node = Parameter.make(
            self.unique(name), dims, first, learning_rate_multiplier=learning_rate_multiplier, where=caller()
        )
        return Term(self, self.network.add(node))

    def constant(self, value: float | np.ndarray, *, name: str = "constant") -> Term:
        """Add a tensor that is not learned."""
        array = np.atleast_1d(np.asarray(value, self.network.dtype))
        node = Parameter.make(self.unique(name), array.shape, value=array, learning_rate_multiplier=0.0, where=caller())
        return Term(self, self.network.add(node))

    def apply(self, operation: str, *operands: Operand, name: str | None = None, **attributes: Any) -> Term:
        """Add the node of an operation, by CNTK's name; ``attributes`` are those of the operation.

        Raises:
            BuildError: there is no such operation, or it has no such attribute.
        """
        op: Op | None = self._find_op("", operation)
        if op is None:
            raise BuildError(f"there is no operation '{operation}'", where=caller())
        inputs = [operand if isinstance(operand, Term) else self.constant(operand) for operand in operands]
        fields = [field.name for field in getattr(op.attributes, "__attrs_attrs__", ())]
        for key in attributes:
            if key not in fields:
                raise BuildError(
                    f"{op.name} has no attribute '{key}'{did_you_mean(key, fields)}",
                    where=caller(),
                    hint=f"Attributes: {', '.join(fields) or 'none'}",
                )
        node = Node(
            name=name or self.unique(op.name),
            op=op,
            inputs=[term.node for term in inputs],
            attributes=op.attributes(**attributes),
            where=caller(),
        )
        return Term(self, self.network.add(node))

    def criterion(self, term: Term, name: str | None = None) -> Term:
        """Mark what is minimised, and name it."""
        return self._mark(term, "criterion", name)

    def evaluation(self, term: Term, name: str | None = None) -> Term:
        """Mark what is reported beside the criterion, and name it."""
        return self._mark(term, "evaluation", name)

    def output(self, term: Term, name: str | None = None) -> Term:
        """Mark what the write action writes, and name it."""
        return self._mark(term, "output", name)

    def _mark(self, term: Term, role: str, name: str | None) -> Term:
        self.network.mark(term.node, role)
        return term.named(name) if name else term

    def finish(self) -> Network:
        """Infer all shapes, give every parameter its first value, and return the network.

        Raises:
            Problems, ShapeError: everything that does not fit.
        """
        self.network.infer()
        initialize_parameters(self.network, self.seed)
        return self.network
