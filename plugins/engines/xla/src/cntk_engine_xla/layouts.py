"""Layouts as compiled functions read them: arrays in the size of a bucket, so that new lengths compile nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import SequenceLayout
from cntk_engine_xla.buckets import bucket
from cntk_engine_xla.lowering import Array

FEWEST_FRAMES, FEWEST_SLOTS = 32, 8


class TimeSteps(NamedTuple):
    """The time steps of a dynamic axis, for compiled loops.

    Attributes:
        start: first row of each step; zeros follow.
        alive: slots that reach it; zeros follow.
        count: how many steps there are.
    """

    start: Array
    alive: Array
    count: Array


def _power(count: int, fewest: int) -> int:
    return max(fewest, 1 << (count - 1).bit_length()) if count else 0


def slots_bucket(slots: int) -> int:
    """Return how many slots compiled loops have for so many: a power of two, at least 8; none for none."""
    return _power(slots, FEWEST_SLOTS)


def sequences_bucket(layout: SequenceLayout, *, loops: bool) -> int:
    """Return how many rows the frames of sequences are padded to: a power of two, at least 32.

    Lengths vary more than sizes of minibatches of frames, and the slots too: hence fewer sizes than for those. Slots
    that are all as long, as those of truncated training are, have no padding if their number and length need none.

    Args:
        layout: of the sequences.
        loops: there are loops over them. Then there is room for all slots at the last time step.
    """
    if _is_rectangle(layout):
        return layout.frames
    rows = _power(layout.frames, FEWEST_FRAMES)
    return rows + slots_bucket(layout.slots) if loops and rows else rows


def _is_rectangle(layout: SequenceLayout) -> bool:
    """Whether all slots reach the last time step, and slots and steps are as many as a bucket has."""
    slots, steps = layout.slots, layout.steps
    whole = slots > 0 and layout.frames == slots * steps
    return whole and slots == slots_bucket(slots) and steps == bucket(steps)


def time_steps(layout: SequenceLayout, rows: int) -> TimeSteps:
    """Return the time steps of a layout, with room for ``rows`` of them."""
    return TimeSteps(filled(layout.start, rows, 0), filled(layout.alive, rows, 0), np.int32(layout.steps))


def filled(values: NDArray[Any], rows: int, rest: int) -> NDArray[np.int32]:
    """Return row numbers as an array of ``rows``, of columns of them too; ``rest`` follows them."""
    found = np.full((rows, *values.shape[1:]), rest, np.int32)
    found[: len(values)] = values
    return found
