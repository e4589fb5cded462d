"""Messages between workers and parts of the server: a few numbers and an array, as bytes."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TAG = 64
"""Of all messages of this strategy."""

PUSH, ANSWER = 0, 1

_HEADER = 5
_HEADER_BYTES = 64
"""Room for the numbers; what follows keeps its alignment."""


@attrs.frozen(eq=False)
class Letter:
    """A message.

    Attributes:
        kind: PUSH or ANSWER.
        epoch: index of the part of this run, an epoch or what lies between two meetings, that it belongs to.
        values: parameters of one part of the server.
        time: see ``Push`` and ``Answer``.
        rate, ends: see ``Push``.
    """

    kind: int
    epoch: int
    values: Array
    time: float = 0.0
    rate: float = 0.0
    ends: bool = False

    def pack(self) -> Array:
        """Return the message as bytes."""
        packed = np.zeros(_HEADER_BYTES + self.values.nbytes, np.uint8)
        packed[: 8 * _HEADER].view(np.float64)[...] = (self.kind, self.epoch, self.time, self.rate, self.ends)
        packed[_HEADER_BYTES:].view(self.values.dtype)[...] = self.values
        return packed


def unpack(packed: Array, dtype: np.dtype[Any]) -> Letter:
    """Return the message that bytes are."""
    kind, epoch, time, rate, ends = packed[: 8 * _HEADER].view(np.float64).tolist()
    return Letter(int(kind), int(epoch), packed[_HEADER_BYTES:].view(dtype), time, rate, bool(ends))
