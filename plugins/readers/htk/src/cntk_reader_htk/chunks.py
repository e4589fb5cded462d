"""What features and labels share: chunks of utterances, and messages about those that are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import ChunkInfo, CntkError, DataError, Location

IntArray = NDArray[np.int64]

CHUNK_FRAMES = 90_000
"""A chunk ends with the utterance that reaches so many frames: a quarter of an hour."""

_SHOWN = 5


def cut_chunks(lengths: IntArray) -> tuple[list[int], list[ChunkInfo]]:
    """Return the number of the first utterance of each chunk, and of the end, and what the chunks hold."""
    starts, infos = [0], []
    ends = np.cumsum(lengths)
    while starts[-1] < len(lengths):
        first = starts[-1]
        before = int(ends[first - 1]) if first else 0
        last = min(int(np.searchsorted(ends, before + CHUNK_FRAMES, side="right")) + 1, len(lengths))
        own = lengths[first:last]
        infos.append(ChunkInfo(last - first, int(own.sum()), None if (own == 1).all() else own))
        starts.append(last)
    return starts, infos


def too_many(what: str, errors: Sequence[CntkError], allowed: int, path: Path) -> CntkError:
    """Return the error that says that more entries are malformed than ``maxErrors`` allows; a single one is itself."""
    if len(errors) == 1 and allowed == 0:
        return errors[0]
    shown = [str(error) for error in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        shown.append(f"... and {len(errors) - _SHOWN} more")
    shown.append("`cntk check-data` lists them all; maxErrors=n leaves out up to n.")
    return DataError(f"{len(errors)} {what}, maxErrors={allowed}", where=Location(str(path)), hint="\n".join(shown))


def say_skipped(errors: Sequence[CntkError], path: Path, warn: Callable[[str], None]) -> None:
    """Warn of malformed entries that are left out."""
    for error in errors[:_SHOWN]:
        warn(f"WARNING: left out: {error}")
    if len(errors) > _SHOWN:
        warn(f"WARNING: {path}: {len(errors)} malformed entries left out in all")
