"""Times over the sequence axis: the sum of the products of all steps of each sequence, one matrix product for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import DataError
from cntk_core.ops.families.frame_moves import Pieces, layout_of, pieces_of, same_sequences, single_frames
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, elements


@attrs.frozen
class Split:
    """How the axes of a product are grouped: sums over ``inner`` elements; shapes in memory order."""

    inner: int
    rest: Shape
    out: Shape


SplitOf = Callable[[Sequence[Array], Any, OpContext], Split]


def _pieces(context: OpContext) -> Pieces:
    """The sequences of both operands.

    Raises:
        DataError: they differ.
    """
    layout, other = layout_of(context, 0), layout_of(context, 1)
    if not same_sequences(layout, other):
        raise DataError("Times over the sequence axis: the sequences of the operands differ in length")
    return pieces_of(layout)


def _matrices(value: Array, pieces: Pieces, inner: int, *, left: bool) -> Iterator[Array]:
    """For each sequence a matrix ``(steps * inner, other)``, whose rows are summed over."""
    ordered = value[pieces.rows]
    for start, length in zip(pieces.starts.tolist(), pieces.lengths.tolist(), strict=True):
        part = ordered[start : start + length]
        if not left:
            part = part.reshape(length, -1, inner).swapaxes(1, 2)
        yield part.reshape(length * inner, -1)


def _rows(matrices: Sequence[Array], like: Array, pieces: Pieces, inner: int, *, left: bool) -> Array:
    """The inverse of :func:`_matrices`: the rows of the minibatch."""
    out = np.empty_like(like)
    for start, length, part in zip(pieces.starts.tolist(), pieces.lengths.tolist(), matrices, strict=True):
        frames = part if left else part.reshape(length, inner, -1).swapaxes(1, 2)
        out[pieces.rows[start : start + length]] = frames.reshape(length, *like.shape[1:])
    return out


def times_over_steps(
    attributes: type,
    infer: Callable[[Sequence[Shape], Any], Shape],
    form: Callable[[Any], Op],
    split_of: SplitOf,
) -> Op:
    """Return the record of Times over the sequence axis.

    Args:
        attributes: of Times.
        infer: its shape rule.
        form: which of its records nodes with given attributes have.
        split_of: ``(inputs, attributes, context) ->`` how the axes of the product of two frames are grouped.
    """

    def gradient(
        xp: Any,
        grad: Array,
        output: Array,
        inputs: Sequence[Array],
        settings: Any,
        context: OpContext,
        needs: Sequence[bool],
    ) -> Sequence[Array | None]:
        pieces, split = _pieces(context), split_of(inputs, settings, context)
        incoming = grad.reshape(len(grad), elements(split.rest), elements(split.out))
        found: list[Array | None] = [None, None]
        for place in (place for place, needed in enumerate(needs) if needed):
            is_left = place == 0
            other = _matrices(inputs[1 - place], pieces, split.inner, left=not is_left)
            parts = [part @ (each if is_left else each.T) for part, each in zip(other, incoming, strict=True)]
            found[place] = _rows(parts, inputs[place], pieces, split.inner, left=is_left)
        return found

    @define_op(
        "Times",
        inputs=2,
        infer=infer,
        gradient=gradient,
        attributes=attributes,
        form=form,
        new_axis=True,
        along_sequences=frozenset({0, 1}),
        reads_output=False,
    )
    def over_steps(xp: Any, inputs: Sequence[Array], settings: Any, context: OpContext) -> Array:
        """The sum of the products of all steps of each sequence."""
        context.new_layout = single_frames(context, "Times over the sequence axis")
        pieces, split = _pieces(context), split_of(inputs, settings, context)
        left, right = (_matrices(value, pieces, split.inner, left=place == 0) for place, value in enumerate(inputs))
        out = np.empty((len(pieces.starts), elements(split.rest), elements(split.out)), inputs[0].dtype)
        for place, (a, b) in enumerate(zip(left, right, strict=True)):
            np.matmul(b.T, a, out=out[place])
        return out.reshape(len(out), *split.rest, *split.out)

    return over_steps
