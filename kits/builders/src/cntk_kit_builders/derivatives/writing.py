"""DerivativeWriter: adds the nodes of a derivative to a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import CntkError
from cntk_core.network.inference import infer_node
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.families.adjoints import BROADCAST_LIKE, SUM_FRAMES
from cntk_core.ops.families.reductions import REDUCE_ELEMENTS, ReduceAttributes
from cntk_core.ops.families.reshaping import RESHAPE, ReshapeAttributes
from cntk_core.ops.language.expression import Expr
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Shape, to_cntk
from cntk_core.ops.table import core_op

Number = float
Term = Node | Number


class NotDifferentiable(CntkError):
    """A node whose gradient cannot be written as nodes; the message says why."""


class DerivativeWriter:
    """Adds nodes to a network; each has its shape and dynamic axis at once.

    Args:
        network: the network.
        prefix: what the names of the nodes begin with.
    """

    def __init__(self, network: Network, prefix: str) -> None:
        self.network = network
        self._prefix = prefix
        self._count = 0
        self._numbers: dict[tuple[Number, Shape], Node] = {}

    # -- nodes --------------------------------------------------------------------------------------------

    def op(self, op: Op | str, *inputs: Node, attributes: Any = None) -> Node:
        """Add a node.

        Raises:
            ShapeError, NetworkError: the inputs do not fit.
        """
        found = core_op(op) if isinstance(op, str) else op
        node = Node(self._name(), found, list(inputs), found.attributes() if attributes is None else attributes)
        infer_node(node)
        return self.network.add(node)

    def open_op(self, op: Op, like: Node, attributes: Any) -> Node:
        """Add a node of the kind of another, whose inputs are set later: a delay that closes a loop."""
        node = Node(self._name(), op, [], attributes, shape=like.shape, framed=like.framed, axis=like.axis)
        return self.network.add(node)

    def number(self, value: Number, shape: Shape = (1,)) -> Node:
        """Return the constant with one number in all elements; there is one of each."""
        key = value, shape
        if key not in self._numbers:
            self._numbers[key] = self.constant(np.full(shape, value))
        return self._numbers[key]

    def constant(self, value: NDArray[Any]) -> Node:
        """Add a parameter that is not learned."""
        made = Parameter.make(
            self._name(), value.shape, value=value.astype(self.network.dtype), learning_rate_multiplier=0.0
        )
        made.needs_gradient = False
        return self.network.add(made)

    def _name(self) -> str:
        while True:
            self._count += 1
            name = f"{self._prefix}{self._count}"
            if name not in self.network:
                return name

    # -- arithmetic ---------------------------------------------------------------------------------------

    def times(self, left: Term, right: Term) -> Term:
        """``left * right``, element by element; products with 0 and 1 are no nodes."""
        if isinstance(left, Number) and isinstance(right, Number):
            return left * right
        if isinstance(left, Number):
            left, right = right, left
        if isinstance(right, Number) and right in (0.0, 1.0, -1.0):
            assert isinstance(left, Node)
            return 0.0 if right == 0.0 else left if right == 1.0 else self.op("Negate", left)
        return self.op("ElementTimes", self.node(left), self.node(right))

    def plus(self, left: Term, right: Term) -> Term:
        """``left + right``; nothing is added to 0."""
        if isinstance(left, Number) and isinstance(right, Number):
            return left + right
        if 0.0 in (value for value in (left, right) if isinstance(value, Number)):
            return right if isinstance(left, Number) else left
        return self.op("Plus", self.node(left), self.node(right))

    def minus(self, left: Term, right: Term) -> Term:
        """``left - right``."""
        if isinstance(right, Number):
            return self.plus(left, -right)
        return self.op("Negate", right) if left == 0.0 else self.op("Minus", self.node(left), right)

    def over(self, left: Term, right: Term) -> Term:
        """``left / right``."""
        if isinstance(right, Number):
            return self.times(left, 1.0 / right)
        return self.times(left, self.op("Reciprocal", right))

    def node(self, value: Term) -> Node:
        """A term as a node."""
        return self.number(float(value)) if isinstance(value, Number) else value

    def expression(self, tree: Expr | Number, symbols: Mapping[str, Node]) -> Term:
        """Add the nodes of a scalar expression.

        Raises:
            NotDifferentiable: no op computes one of its functions.
        """
        if not isinstance(tree, Expr):
            return float(tree)
        if tree.operation == "symbol":
            return symbols[str(tree.args[0])]
        args = [self.expression(arg, symbols) for arg in tree.args if not isinstance(arg, str)]
        write = _FUNCTIONS.get(tree.operation)
        if write is None:
            raise NotDifferentiable(f"its gradient has the function '{tree.operation}', which no operation computes")
        return write(self, *args)

    # -- shapes -------------------------------------------------------------------------------------------

    def reshape(self, value: Node, shape: Shape) -> Node:
        """A value with another sample shape."""
        if value.known_shape == shape:
            return value
        return self.op(RESHAPE, value, attributes=ReshapeAttributes(to_cntk(shape) or (1,)))

    def sum_axis(self, value: Node, axis: int, *, keep: bool = True) -> Node:
        """The sum along a memory axis of a sample."""
        number = len(value.known_shape) - axis
        return self.op(REDUCE_ELEMENTS, value, attributes=ReduceAttributes("Sum", number, keep))

    def sum_sample(self, value: Node) -> Node:
        """The sum over a sample, or, without a dynamic axis, along CNTK's first axis; the axes stay."""
        axis = 0 if value.framed else 1
        return self.op(REDUCE_ELEMENTS, value, attributes=ReduceAttributes("Sum", axis, keep_dimensions=True))

    def fit(self, value: Term, like: Node) -> Node:
        """Sum a gradient over the axes along which a node was repeated, and repeat it where it is smaller.

        Args:
            value: a gradient whose axes are those of the node, or of something that it was broadcast to.
            like: the node.
        """
        found = self.node(value)
        shape = like.known_shape
        more = len(found.known_shape) - len(shape)
        if more >= 0:
            for axis, wanted in enumerate((1,) * more + shape):
                if wanted == 1 != found.known_shape[axis]:
                    found = self.sum_axis(found, axis)
        if more > 0:
            found = self.reshape(found, found.known_shape[more:])
        if found.framed and not like.framed:
            found = self.op(SUM_FRAMES, found)
        if found.known_shape != shape or bool(found.framed) != bool(like.framed):
            found = self.op(BROADCAST_LIKE, found, like)
        return found


def _op(name: str) -> Callable[..., Term]:
    return lambda writer, *args: writer.op(name, *map(writer.node, args))


def _chosen(comparison: str) -> Callable[[DerivativeWriter, Term, Term], Term]:
    def write(writer: DerivativeWriter, left: Term, right: Term) -> Term:
        first, second = writer.node(left), writer.node(right)
        return writer.op("If", writer.op(comparison, first, second), first, second)

    return write


def _sign(writer: DerivativeWriter, value: Term) -> Term:
    given, zero = writer.node(value), writer.number(0.0)
    return writer.op("Minus", writer.op("Greater", given, zero), writer.op("Less", given, zero))


_FUNCTIONS: Mapping[str, Callable[..., Term]] = {
    "add": DerivativeWriter.plus,
    "sub": DerivativeWriter.minus,
    "mul": DerivativeWriter.times,
    "div": DerivativeWriter.over,
    "neg": lambda writer, x: writer.times(x, -1.0),
    "exp": _op("Exp"),
    "log": _op("Log"),
    "log1p": lambda writer, x: writer.op("Log", writer.node(writer.plus(x, 1.0))),
    "expm1": lambda writer, x: writer.plus(writer.op("Exp", writer.node(x)), -1.0),
    "sqrt": _op("Sqrt"),
    "tanh": _op("Tanh"),
    "sigmoid": _op("Sigmoid"),
    "sin": _op("Sin"),
    "cos": _op("Cosine"),
    "abs": _op("Abs"),
    "floor": _op("Floor"),
    "ceil": lambda writer, x: writer.op("Negate", writer.op("Floor", writer.op("Negate", writer.node(x)))),
    "sign": _sign,
    "minimum": _chosen("Less"),
    "maximum": _chosen("Greater"),
    "power": _op("Pow"),
    "where": _op("If"),
    "less": _op("Less"),
    "less_equal": _op("LessEqual"),
    "greater": _op("Greater"),
    "greater_equal": _op("GreaterEqual"),
    "equal": _op("Equal"),
    "not_equal": _op("NotEqual"),
    "logaddexp": _op("LogPlus"),
}
"""How the functions of expressions are written as nodes."""

Rule = Callable[[DerivativeWriter, Node, Node, Sequence[bool]], Sequence[Term | None]]
"""``(writer, node, gradient, needs) -> one gradient per input``, None where none is needed or it is zero.

``gradient`` is that of the node's value and has its shape and frames. What is returned has the shape of the input's
value, or one that the input's is broadcast to; :meth:`DerivativeWriter.fit` does the rest.
"""
