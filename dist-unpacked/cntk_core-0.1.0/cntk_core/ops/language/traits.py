"""What an op says of itself beside shapes and functions, so that planners and engines never ask for one by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs

from cntk_core.ops.language.shapes import Shape


def _one(attributes: Any) -> int:
    return 1


@attrs.frozen
class MatrixProduct:
    """An op that multiplies its second input, row by row, by its first, which is a matrix without frames.

    An engine may compute value and gradients as products of two matrices, for all frames at once, and fold an update of
    the matrix into the product that computes its gradient.

    Attributes:
        transposed: the matrix is stored ``(outer, inner)`` in memory order, else ``(inner, outer)``.
        outer: ``attributes -> how many of the last axes of the first input are the outer ones``; the others are inner.
        dense: also for a second input that is an array; otherwise only a sparse one is multiplied, summed up whole.
    """

    transposed: bool = False
    outer: Callable[[Any], int] = _one
    dense: bool = True


@attrs.frozen
class Traits:
    """What is true of an op. Each is off unless the op says so; what it does not say, an engine does not assume.

    Attributes:
        row_wise: a row (frame) of the value depends on that row of the inputs with frames and on the inputs without
            alone, and just so the gradients; an input without frames gets the sum over rows. So an engine may compute
            rows that nobody looks at (padding), a few rows at a time, or a single one.
        pure_xp: value and gradients are made of the arrays given by ``xp`` and operators alone: no array of NumPy's is
            mixed in, no layout or random number is looked at, and no ``if``, ``float(x)`` or loop asks for a value. So
            it runs on the arrays of any module like NumPy, where they are; with ``in_place`` as it is, a compiler may
            trace it.
        in_place: what writes into arrays that it made, which a tracer cannot follow: nothing; the ``gradient``, which a
            tracing engine then derives from the value; or the ``value``, too.
        keeps_nothing: forward keeps nothing for the gradient (``context.saved``), which needs values alone. So an
            engine may compute the gradient without having computed the value, and one time step after the other.
        summed_at_end: in a loop, the gradient by an input without frames is the same computed for all frames at once
            after the loop as added up time step by time step.
        ignores_zero_rows: the value has no frames, and a row of zeros in all inputs with frames adds nothing to it. So
            an engine may put zeros into rows that are no frames.
        passes_through: the value is that of the first input (where both have the same sequences).
        sums: the value is the sum of the inputs, so that each gets the gradient of the value.
        keeps_order: the value, computed by the op's own functions, lies in memory as the first input does.
        ends_by_element: a gradient by data is written element by element, when all else is done, so that it may lie
            where the gradient of the value lay.
        delay: 1 if the value of a time step is the first input's some steps before, -1 if some steps after; the
            attribute ``time_step`` says how many. A cycle is legal through it. 0: no delay.
        part: ``(shape of the first input, attributes) -> {axis of a sample: (first, end)}``: the value is these ranges
            of the first input's elements, perhaps in another shape, and the gradient goes there and nowhere else.
        product: how it is a matrix product.
        log_likelihood: a criterion that is a negative log likelihood, so that the exponential of its mean is a
            perplexity.
        operations: ``(shapes of the inputs, of the value, attributes) -> additions and multiplications`` for a frame.
        accumulates: the value is one of the epoch so far. A criterion made of it is shown as it is, and never added up.
        assigns: after a minibatch its value becomes that of its first input, a parameter.
        settings: the numbers that training changes from outside (``dropoutRate``) which the op reads.
    """

    row_wise: bool = False
    pure_xp: bool = False
    in_place: Literal["nothing", "gradient", "value"] = "nothing"
    keeps_nothing: bool = False
    summed_at_end: bool = False
    ignores_zero_rows: bool = False
    passes_through: bool = False
    sums: bool = False
    keeps_order: bool = False
    ends_by_element: bool = False
    delay: Literal[-1, 0, 1] = 0
    part: Callable[[Shape, Any], Mapping[int, tuple[int, int]]] | None = None
    product: MatrixProduct | None = None
    log_likelihood: bool = False
    operations: Callable[[Sequence[Shape], Shape, Any], int] | None = None
    accumulates: bool = False
    assigns: bool = False
    settings: frozenset[str] = frozenset()

    @property
    def in_loops(self) -> bool:
        """Whether any engine may compute it for one time step of a loop."""
        return self.row_wise and self.keeps_nothing


NO_TRAITS = Traits()
"""Of an op that says nothing: it is computed by its own functions, for all frames, on the host if in doubt."""

BY_ROWS = Traits(row_wise=True, pure_xp=True, keeps_nothing=True)
"""Of an op over ``xp`` that goes row by row."""

BY_ELEMENTS = attrs.evolve(BY_ROWS, summed_at_end=True, ends_by_element=True)
"""Of every element-wise op."""
