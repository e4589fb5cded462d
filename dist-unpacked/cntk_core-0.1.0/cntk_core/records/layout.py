"""SequenceLayout: where each frame of a minibatch stands. Packed, without gaps.

Frames are stored time step by time step. Step ``t`` holds one row for each slot that is still alive: rows
``start[t] .. start[t] + alive[t]``. Slots are sorted longest first, so the first ``alive[t]`` rows of step ``t - 1``
are exactly the predecessors of the rows of step ``t``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def _ints(values: object) -> IntArray:
    array = np.asarray(values, dtype=np.int64)
    array.setflags(write=False)
    return array


@attrs.frozen(eq=False)
class SequenceLayout:
    """Layout of one dynamic axis of one minibatch.

    Attributes:
        lengths: frames of each slot, not increasing. Shape ``(slots,)``.
        alive: number of slots that reach step t. Shape ``(steps,)``.
        start: first row of step t. Shape ``(steps,)``.
        order: ``order[slot]`` is the reader's position of the slot's (first) sequence, for output in its order.
        begins: pairs ``(slot, step)`` where a sequence begins inside a slot, in the order of slots and steps.
            A slot whose first frame continues a sequence of the minibatch before has no pair ``(slot, 0)``.
        keys: sequence keys in the order of ``begins`` (numeric ids or text), empty if the reader has none.
        continues: slots whose last sequence goes on in the next minibatch (truncated training).
    """

    lengths: IntArray = attrs.field(converter=_ints)
    alive: IntArray = attrs.field(converter=_ints)
    start: IntArray = attrs.field(converter=_ints)
    order: IntArray = attrs.field(converter=_ints)
    begins: IntArray = attrs.field(converter=_ints)
    keys: tuple[int | str, ...] = ()
    continues: tuple[int, ...] = ()

    @classmethod
    def of_frames(cls, frames: int) -> SequenceLayout:
        """Return the layout of independent frames: every frame is a slot of its own, in order."""
        slots = np.arange(frames)
        return cls(
            lengths=np.ones(frames),
            alive=[frames] if frames else [],
            start=[0] if frames else [],
            order=slots,
            begins=np.stack([slots, np.zeros_like(slots)], axis=1),
        )

    @property
    def frames(self) -> int:
        """Total number of frames (rows)."""
        return int(self.start[-1] + self.alive[-1]) if len(self.start) else 0

    @property
    def slots(self) -> int:
        """Number of slots (parallel sequences)."""
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """Length of the longest slot."""
        return len(self.alive)

    @property
    def is_frames(self) -> bool:
        """True if every frame is a sequence of its own: the simple case without time."""
        return self.steps <= 1
