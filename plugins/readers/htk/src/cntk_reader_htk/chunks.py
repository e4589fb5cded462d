"""What features and labels share: messages about utterances that are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location

IntArray = NDArray[np.int64]

_SHOWN = 5


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
