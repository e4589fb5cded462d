"""How delays compute: PastValue and FutureValue for all frames at once, and piece by piece for the loops of an engine.

``y_t = x_{t - timeStep}`` (``x_{t + timeStep}`` for FutureValue); beyond the begin (or end) of a sequence stands the
initial state: a number, a value for all sequences, or one of each sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.ops.families.delay_rows import DelayRows, delay_rows
from cntk_core.ops.language.framing import align, unbroadcast
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.rows import reader_slots, sequence_rows
from cntk_core.records.layout import IntArray, SequenceLayout

TAIL = "tail"
"""Key of what a delay carries from minibatch to minibatch: ``(reader's slots, steps, *shape)``, nearest step first."""


def rows_of(context: OpContext, shift: int) -> DelayRows:
    """Return which rows a delay reads in a minibatch."""
    assert context.layout is not None, "a delay needs the sequences of its minibatch"
    return delay_rows(context.layout, shift)


def delay_forward(xp: Any, inputs: Sequence[Array], context: OpContext, shift: int, default: float) -> Array:
    """Return the value of a delay for all frames: ``(frames, *shape)``."""
    rows = rows_of(context, shift)
    values = xp.take(inputs[0], np.maximum(rows.source, 0), axis=0)
    fill_outside(values, inputs[1:], context, shift, default)
    keep_tail(inputs[0], inputs[1:], context, shift, default)
    return values


def fill_outside(values: Array, initial: Sequence[Array], context: OpContext, shift: int, default: float) -> None:
    """Write the rows of a delay that come from outside the sequences of this minibatch.

    Args:
        values: of the delay, ``(frames, *shape)``.
        initial: nothing, or the value of the initial state.
        context: of the delay.
        shift: how many steps back.
        default: the number that stands for an initial state that is not given.
    """
    rows = rows_of(context, shift)
    if len(rows.initial):
        values[rows.initial] = _initial(initial, rows.sequence, rows.distance, context, shift, default, values.ndim - 1)
    if len(rows.carried):
        tail = context.carried.get(TAIL)
        values[rows.carried] = default if tail is None else tail[rows.carried_slot, rows.carried_back - 1]


def _initial(
    initial: Sequence[Array],
    sequence: IntArray,
    distance: IntArray,
    context: OpContext,
    shift: int,
    default: float,
    rank: int,
) -> Any:
    if not initial:
        return default
    if not context.framed[1]:
        return initial[0]
    rows = initial_rows(sequence, distance, context.layouts[1], shift)
    return align(initial[0][rows], framed=True, rank=rank)


def initial_rows(sequence: IntArray, distance: IntArray, layout: SequenceLayout | None, shift: int) -> IntArray:
    """Return the rows of the initial state for steps beyond the begin (or end) of sequences.

    A state of one step is taken for all steps; of a longer one, PastValue takes the last steps, FutureValue the first.

    Args:
        sequence: the reader's position of the sequence of each.
        distance: how many steps beyond, from 1.
        layout: of the initial state.
        shift: how many steps back.

    Raises:
        DataError: there is no such step of the initial state.
    """
    assert layout is not None, "an initial state with a dynamic axis needs its sequences"
    own = sequence_rows(layout)
    row_at = {
        (number, step - first): row
        for row, (number, step, first) in enumerate(
            zip(own.number.tolist(), own.step.tolist(), own.first.tolist(), strict=True)
        )
    }
    length = {number: last - first + 1 for number, first, last in zip(own.number, own.first, own.last, strict=True)}
    found = []
    for number, beyond in zip(sequence.tolist(), distance.tolist(), strict=True):
        steps = int(length.get(number, 0))
        place = 0 if steps == 1 else steps - beyond if shift >= 0 else beyond - 1
        if (number, place) not in row_at:
            raise _too_short(steps, abs(shift))
        found.append(row_at[number, place])
    return np.array(found, np.int64)


def _too_short(steps: int, wanted: int) -> Exception:
    from cntk_core.errors import DataError

    return DataError(
        f"the initial state of a delay by {wanted} steps has a sequence of {steps}",
        hint="It needs one step for all, or as many steps as the delay.",
    )


def delay_gradient(
    xp: Any, gradient: Array, inputs: Sequence[Array], context: OpContext, shift: int, needs: Sequence[bool]
) -> list[Array | None]:
    """Return the gradients of the input and of the initial state, of their shapes, from ``gradient (frames, ...)``.

    None flows to earlier minibatches.
    """
    rows = rows_of(context, shift)
    found: list[Array | None] = [None] * len(inputs)
    if needs[0]:
        here = rows.source >= 0
        by_input = xp.zeros_like(inputs[0])
        by_input[rows.source[here]] = gradient[here]
        found[0] = by_input
    if len(inputs) > 1 and needs[1]:
        state, arrived = inputs[1], gradient[rows.initial]
        if context.framed[1]:
            found[1] = by_state = xp.zeros_like(state)
            to_rows = unbroadcast(xp, arrived, (len(arrived), *state.shape[1:]), framed=True, gradient_framed=True)
            np.add.at(by_state, initial_rows(rows.sequence, rows.distance, context.layouts[1], shift), to_rows)
        else:
            found[1] = unbroadcast(xp, arrived, state.shape, framed=False, gradient_framed=True)
    return found


def keep_tail(values: Array, initial: Sequence[Array], context: OpContext, shift: int, default: float) -> None:
    """Keep the last steps of the slots whose sequences go on in the next minibatch.

    Args:
        values: of the delay's input, ``(frames, *shape)``.
        initial: nothing, or the value of the initial state; it stands before sequences that are shorter than the delay.
        context: of the delay.
        shift: how many steps back; nothing is kept for a look ahead.
        default: the number that stands for an initial state that is not given.
    """
    layout = context.layout
    assert layout is not None
    if shift <= 0 or not layout.continues:
        context.carried.pop(TAIL, None)
        return
    old = context.carried.get(TAIL)
    tail = np.full((layout.slots, shift, *values.shape[1:]), default, values.dtype)
    places = reader_slots(layout)
    for slot in layout.continues:
        length = int(layout.lengths[slot])
        here, number = last_sequence(layout, slot)
        for back in range(1, shift + 1):
            if back <= here:
                tail[places[slot], back - 1] = values[layout.start[length - back] + slot]
            elif number >= 0:
                sequence, beyond = np.array([number]), np.array([back - here])
                tail[places[slot], back - 1] = _initial(
                    initial, sequence, beyond, context, shift, default, values.ndim - 1
                )
            elif old is not None:
                tail[places[slot], back - 1] = old[places[slot], back - here - 1]
    context.carried[TAIL] = tail


def last_sequence(layout: SequenceLayout, slot: int) -> tuple[int, int]:
    """Return how many steps the last sequence of a slot has here, and its position; -1 if it did not begin here."""
    length = int(layout.lengths[slot])
    if not length:
        return 0, -1
    rows = sequence_rows(layout)
    last = int(layout.start[length - 1]) + slot
    return length - int(rows.first[last]), int(rows.number[last])
