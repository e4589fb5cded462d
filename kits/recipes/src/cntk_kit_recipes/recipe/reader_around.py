"""A reader around another one, for those that look at its minibatches or change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cntk_core.contract.reader import DataReader
from cntk_core.errors import CntkError


class ReaderAround(DataReader):
    """Leaves to a reader what has nothing to do with its minibatches.

    Args:
        reader: the reader, perhaps of a class that did not call its base class.
    """

    def __init__(self, reader: DataReader) -> None:
        context: Any = getattr(reader, "context", None)
        super().__init__(getattr(reader, "settings", None), context)
        self._reader = reader

    def minibatch_factor(self, epoch: int) -> int:
        """Return that of the reader."""
        return self._reader.minibatch_factor(epoch)

    def check(self) -> Iterator[CntkError]:
        """Yield what is wrong with the data."""
        return self._reader.check()

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()
