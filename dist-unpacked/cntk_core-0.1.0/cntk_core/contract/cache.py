"""What a component keeps on disk of what it has compiled, as ``cntk doctor`` shows and clears it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import attrs


@attrs.frozen
class CacheState:
    """What lies in a cache.

    Attributes:
        folder: where it lies; None if there is no place for it.
        entries: how many there are.
        size: bytes of all.
        limit: bytes that it may have; the oldest entries go when there are more.
        damaged: entries that will be thrown away and compiled anew.
        problem: why nothing is kept, empty if it works.
        mend: the line that mends that.
    """

    folder: Path | None
    entries: int = 0
    size: int = 0
    limit: int = 0
    damaged: int = 0
    problem: str = ""
    mend: str = ""


class Cache(Protocol):
    """Compiled code that is kept from run to run.

    Attributes:
        title: what it holds, in a word or two.
    """

    title: str

    def state(self) -> CacheState:
        """Look at all entries. Nothing is made or changed; must not raise."""

    def clear(self) -> int:
        """Remove all entries and return how many there were.

        Raises:
            OSError: one cannot be removed.
        """
