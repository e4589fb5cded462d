"""Ranks that come to a training which goes on already: it is left where it has just been saved, and begun with them."""

from __future__ import annotations

from collections.abc import Callable

from cntk_core.errors import CntkError

Newcomers = Callable[[], bool]
"""Says whether ranks wait to be taken in: the same on all ranks, which all ask."""


class NewRanks(CntkError):
    """Ranks wait to be taken in, and everything is saved with which all can go on together."""

    def __init__(self) -> None:
        super().__init__("ranks wait to be taken in")


def nobody() -> bool:
    """Nobody waits."""
    return False
