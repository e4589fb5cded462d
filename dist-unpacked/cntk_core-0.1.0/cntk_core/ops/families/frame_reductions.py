"""ReduceElements over dynamic axes: the steps of each sequence, the samples of a minibatch, or everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cntk_core.errors import DataError
from cntk_core.ops.families.frame_moves import Pieces, layout_of, pieces_of, single_frames
from cntk_core.ops.families.reduction_rules import EMPTY, finite, reduced, slope
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import flat_rows
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.rows import longest_sequence
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import Traits

ALL_AXES, SEQUENCE_AXIS, BATCH_AXIS = -1, -2, -3
"""Numbers of axes that no sample has."""


def _of_pieces(rows: Array, pieces: Pieces, operation: str) -> Array:
    """Reduce ``(frames, n)`` to a row for each sequence."""
    if operation == "LogSum":
        shift = finite(np, pieces.fold(np.maximum, rows))
        return np.log(pieces.fold(np.add, np.exp(rows - shift[pieces.piece]))) + shift
    if operation in ("Argmax", "Argmin"):
        return _places(rows, pieces.fold(np.maximum if operation == "Argmax" else np.minimum, rows), pieces)
    if operation == "Mean":
        return pieces.fold(np.add, rows) / pieces.lengths[:, None].astype(rows.dtype)
    return pieces.fold({"Sum": np.add, "Max": np.maximum, "Min": np.minimum, "Prod": np.multiply}[operation], rows)


def _places(rows: Array, best: Array, pieces: Pieces) -> Array:
    """The first step of each sequence that has the best value, or is no number, as ``numpy.argmax`` has it."""
    found = (rows == best[pieces.piece]) | np.isnan(rows)
    places = np.where(found, pieces.step[:, None], pieces.longest)
    return pieces.fold(np.minimum, places).astype(rows.dtype)


def _reduce_sequences(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """One value for each sequence: that of all its steps."""
    context.new_layout = single_frames(context, "ReduceElements")
    found = _of_pieces(flat_rows(inputs[0]), pieces_of(layout_of(context, 0)), attributes.operation)
    return found.reshape(len(found), *inputs[0].shape[1:])


def _reduce_sequences_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    pieces, rows = pieces_of(layout_of(context, 0)), flat_rows(inputs[0])
    g, y = (flat_rows(each)[pieces.piece] for each in (gradient, output))
    count = pieces.lengths[pieces.piece][:, None].astype(rows.dtype)
    return (slope(xp, attributes.operation, g, y, rows, count).reshape(inputs[0].shape),)


def _reduce_samples(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """One value for all samples of the minibatch; each is a sequence of one step."""
    if not context.framed[0]:
        raise DataError("ReduceElements over the batch axis: its input has no dynamic axis")
    longest = longest_sequence(layout_of(context, 0))
    if longest > 1:
        raise DataError(
            f"ReduceElements over the batch axis needs sequences of one frame, and there are some of {longest}",
            hint="Reduce over the sequence axis (axis=-2) before, or over all axes (axis=-1).",
        )
    return _folded(xp, inputs[0][None], attributes.operation).reshape(inputs[0].shape[1:])


def _reduce_everything(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """One number for all elements of all samples of the minibatch."""
    value = inputs[0]
    sample = value.ndim - int(context.framed[0])
    return _folded(xp, value.reshape(1, -1), attributes.operation).reshape((1,) * (sample if attributes.keeps else 1))


def _folded(xp: Any, groups: Array, operation: str) -> Array:
    """Reduce ``(1, reduced, ...)``; there may be nothing to reduce."""
    if not groups.shape[1]:
        return xp.full(groups.shape[2:], EMPTY.get(operation, 0.0), groups.dtype)
    return reduced(xp, groups, operation)


def _over_rows_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    value, operation = inputs[0], attributes.operation
    everything = attributes.axis == ALL_AXES
    g, y = (each.reshape(()) if everything else each[None] for each in (gradient, output))
    count = max(value.size if everything else value.shape[0], 1)
    return (slope(xp, operation, g, y, value, count),)


def forms_over_frames(
    attributes: type, infer: Callable[[Sequence[Shape], Any], Shape], form: Callable[[Any], Op]
) -> Mapping[tuple[int, bool], Op]:
    """Return the records of ReduceElements over dynamic axes, by the number of the axis and whether it is a sum.

    Args:
        attributes: of ReduceElements.
        infer: its shape rule.
        form: which of its records nodes with given attributes have.
    """

    def make(forward: Callable[..., Array], gradient: Callable[..., Any], **fields: Any) -> Op:
        return define_op("ReduceElements", infer=infer, attributes=attributes, gradient=gradient, form=form, **fields)(
            forward
        )

    sequences = make(_reduce_sequences, _reduce_sequences_gradient, new_axis=True, along_sequences=frozenset({0}))
    samples = make(_reduce_samples, _over_rows_gradient, reduces_frames=True)
    pure = Traits(pure_xp=True, keeps_nothing=True)
    summed = Traits(pure_xp=True, keeps_nothing=True, ignores_zero_rows=True)
    found = {(SEQUENCE_AXIS, is_sum): sequences for is_sum in (True, False)}
    found |= {(BATCH_AXIS, is_sum): samples for is_sum in (True, False)}
    for is_sum, traits in ((True, summed), (False, pure)):
        found[ALL_AXES, is_sum] = make(_reduce_everything, _over_rows_gradient, reduces_frames=True, traits=traits)
    return found
