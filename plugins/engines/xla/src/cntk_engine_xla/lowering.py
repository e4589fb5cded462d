"""How ops become XLA: the trace of a program function, and the table of lowerings.

A value with a dynamic axis is padded: it has as many rows as the bucket of the minibatch. What is computed of the rows
beyond the frames is never looked at: sums over frames mask them, gradients begin as zero there, and ops that work row
by row keep them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import jax.numpy as jnp
from numpy.typing import NDArray

from cntk_core.api import Input, Node, OpContext, Parameter, elements
from cntk_core.api.engines import makes_axis_by_values

if TYPE_CHECKING:
    from cntk_engine_xla.layouts import TimeSteps
    from cntk_engine_xla.table import Lowerings

Array = Any
"""A traced array of ``jax.numpy``."""


def axis_around(node: Node) -> str | None:
    """The dynamic axis of a node, or of its first input with one; None if there is none."""
    if node.framed and not makes_axis_by_values(node):
        return node.axis
    return next((child.axis for child in node.inputs if child.framed), None)


@attrs.define(eq=False)
class Trace:
    """What is known while a program function is traced.

    Attributes:
        dtype: precision of the program.
        training: random ops draw, statistics run.
        sizes: rows of each dynamic axis, padding included.
        counts: frames of each dynamic axis: traced numbers.
        values: by node; those of inputs, parameters and constants too.
        gradients: by node, what has arrived so far.
        contexts: by node, what its forward part keeps for its gradient.
        draws: by node, what the host drew for it.
        updates: new values of parameters that ops change (running statistics).
        steps: the time steps of each dynamic axis with loops.
        slots: parallel sequences of each of these, padding included.
        kept: by node, what it keeps for the next minibatch.
        lowerings: how nodes become XLA.
    """

    dtype: Any
    training: bool
    sizes: Mapping[str, int]
    counts: Mapping[str, Array]
    values: dict[Node, Array]
    lowerings: Lowerings
    gradients: dict[Node, Array] = attrs.field(factory=dict)
    contexts: dict[Node, OpContext] = attrs.field(factory=dict)
    draws: dict[Node, Any] = attrs.field(factory=dict)
    updates: dict[Parameter, Array] = attrs.field(factory=dict)
    steps: Mapping[str, TimeSteps] = attrs.field(factory=dict)
    slots: Mapping[str, int] = attrs.field(factory=dict)
    kept: dict[Node, Array] = attrs.field(factory=dict)

    def axis_of(self, node: Node) -> str | None:
        """The dynamic axis of a node, or of its first input with one; None if there is none."""
        return axis_around(node)

    def context(self, node: Node) -> OpContext:
        """The context of a node, the same for its value and its gradient."""
        if node not in self.contexts:
            axis = self.axis_of(node)
            framed = tuple(bool(child.framed) for child in node.inputs)
            frames = 1 if axis is None else self.sizes[axis]
            self.contexts[node] = OpContext(framed=framed, frames=frames, training=self.training)
        return self.contexts[node]

    def shape(self, node: Node) -> tuple[int, ...]:
        """The shape of a node's value, padding included."""
        return (self.sizes[node.axis], *node.known_shape) if node.framed else tuple(node.known_shape)

    def value(self, node: Node) -> Array:
        """The value of a node; zeros where nobody has kept it, because only its shape counts."""
        found = self.values.get(node)
        return jnp.zeros(self.shape(node), self.dtype) if found is None else found

    def dense(self, node: Node, value: Array | SparseRows) -> Array:
        """The value of a node as an array, whether it is sparse or not."""
        return value.dense().reshape(self.shape(node)) if isinstance(value, SparseRows) else value

    def mask(self, axis: str, rank: int) -> Array:
        """Which rows of a dynamic axis are frames: ``(rows, 1, ...)`` with ``rank`` axes."""
        return (jnp.arange(self.sizes[axis]) < self.counts[axis]).reshape(-1, *(1,) * (rank - 1))

    def masked(self, value: Array, axis: str) -> Array:
        """A value ``(rows, ...)`` with zeros in the rows that are no frames."""
        return jnp.where(self.mask(axis, value.ndim), value, jnp.zeros((), value.dtype))


Forward = Callable[[Trace, Node, list[Array]], Array]
"""``(trace, node, inputs) -> value``."""

Gradient = Callable[[Trace, Node, Array, list[Array], Sequence[bool]], Sequence[Array | None]]
"""``(trace, node, gradient, inputs, needs) -> gradients``, one per input, None where it is not needed or zero."""

Draw = Callable[[OpContext, Node, tuple[int, ...], int], Any]
"""``(context, node, shape, rows) -> arrays``: draws on the host what the trace gets, None for nothing.

The context has random numbers, settings and sequences, and for an op that :attr:`Lowering.looks` the values that it
looks at, by input, as ``saved["looked"]``. The value has this shape in truth; ``rows`` are those of its dynamic axis
with the padding, or of its inputs' if it has none, 1 if they have none either.
"""

Keep = Callable[[OpContext, Array | None], None]
"""``(context, kept)``: notes on the host what the trace has kept of a node for the next minibatch."""


@attrs.frozen(eq=False)
class Lowering:
    """How an op becomes XLA.

    Attributes:
        forward: computes the value.
        gradient: computes the gradients; None if none flow.
        applies: whether a node is such that it can be lowered.
        draw: for an op that needs something of the host: random numbers, row numbers.
        keep: for an op that keeps something for the next minibatch.
        takes_sparse: inputs that may be :class:`SparseRows`.
        looks: inputs whose values the host looks at when it draws; only nodes that :func:`is_looked_at` can have that.
        loops: whether it goes over the time steps of its dynamic axis.
        in_loops: whether it can be computed for one time step of a loop: it keeps nothing for its gradient but what the
            host drew and, if it updates parameters, what these become.
        check: looks, on the host, whether a node can be evaluated: ``(node, value of an input by its index) -> whether
            it need not be asked again``. Raises CntkError if it cannot.
    """

    forward: Forward
    gradient: Gradient | None = None
    applies: Callable[[Node], bool] = lambda node: True
    draw: Draw | None = None
    keep: Keep | None = None
    takes_sparse: frozenset[int] = frozenset()
    looks: tuple[int, ...] = ()
    loops: bool = False
    in_loops: bool = False
    check: Callable[[Node, Callable[[int], NDArray[Any]]], bool] | None = None


@attrs.frozen(eq=False)
class SparseRows:
    """A sparse input in a trace: its elements one by one. Those of the padding have a row beyond all rows.

    Attributes:
        row, column, data: of each element.
        rows, width: dimensions of the whole matrix.
    """

    row: Array
    column: Array
    data: Array
    rows: int
    width: int

    def dense(self) -> Array:
        """The matrix ``(rows, width)``."""
        zeros = jnp.zeros((self.rows, self.width), self.data.dtype)
        return zeros.at[self.row, self.column].add(self.data, mode="drop")


def stream_behind(node: Node) -> Node:
    """The node whose value another has, which only passes it on."""
    while node.op.traits.passes_through and node.op.axis_of is None and node.inputs:
        node = node.inputs[0]
    return node


def is_looked_at(node: Node, index: int) -> bool:
    """Whether the host knows the values of an input before anything is computed: they are those of a stream."""
    return isinstance(stream_behind(node.inputs[index]), Input)


def element_count(node: Node) -> int:
    """Elements of one sample of a node."""
    return elements(node.known_shape)
