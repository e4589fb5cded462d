"""Segments of a minibatch: the sequences, or parts of them, that lie in it, as compiled loops over time read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import OpContext
from cntk_core.api.engines import sequences_of
from cntk_engine_xla.layouts import filled, slots_bucket

IntArray = NDArray[np.int64]


@attrs.frozen(eq=False)
class Segments:
    """The segments of a minibatch, on the host.

    Attributes:
        rows: the rows of each, in the order of time.
        room: how many segments a compiled function has room for.
    """

    rows: Sequence[IntArray]
    room: int

    @classmethod
    def of(cls, context: OpContext) -> Segments:
        """Return those of a minibatch."""
        rows = sequences_of(context)
        slots = context.layout.slots if context.layout is not None else 1
        return cls(rows, slots_bucket(max(len(rows), slots)))

    def marks(self, count: int) -> dict[str, Any]:
        """Return what is known of each row of a bucket of ``count``.

        ``piece``: its number. ``step``: the place of the row in it. ``first``, ``last``: whether the row is.
        """
        total = sum(map(len, self.rows))
        piece, step = np.zeros(total, np.int64), np.zeros(total, np.int64)
        first, last = np.zeros(count, bool), np.zeros(count, bool)
        for number, rows in enumerate(self.rows):
            piece[rows], step[rows] = number, np.arange(len(rows))
            first[rows[:1]] = last[rows[-1:]] = True
        return {"piece": filled(piece, count, 0), "step": filled(step, count, 0), "first": first, "last": last}

    def begins(self) -> NDArray[np.int32]:
        """Return the first row of each piece; -1 where there is none."""
        return filled(np.array([rows[0] for rows in self.rows], np.int64), self.room, -1)

    def before(self, count: int) -> NDArray[np.int32]:
        """Return for each row of a bucket the row before it in its piece; the first has itself."""
        found = np.arange(count, dtype=np.int32)
        for rows in self.rows:
            found[rows[1:]] = rows[:-1]
        return found
