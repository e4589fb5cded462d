"""Waiting for other ranks: never longer than the deadline, and never in silence."""

from __future__ import annotations

import time
from collections.abc import Callable

from cntk_core.api import RankMissing
from cntk_core.api.parallel import Watch

SPINS = 300
"""Looks without a pause; messages on one machine take microseconds, but another rank may want the processor."""

LONGEST_PAUSE = 0.002


def wait(look: Callable[[], bool], watch: Watch, rank: int, operation: str, missing: Callable[[], list[int]]) -> None:
    """Call ``look`` until it says that all is there.

    Args:
        look: makes progress; True ends the wait.
        watch: deadline, and who is told that a rank waits for long.
        rank: who waits.
        operation: what it waits in.
        missing: the ranks that it waits for.

    Raises:
        RankMissing: the deadline has passed.
    """
    for _ in range(SPINS):
        if look():
            return
        time.sleep(0)
    begun = time.monotonic()
    report_at, pause = watch.report_after, 1e-5
    while not look():
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)
        waited = time.monotonic() - begun
        if waited >= watch.deadline:
            raise RankMissing(
                _text(rank, waited, operation, missing(), watch),
                hint="A rank that is only slow needs a longer communicationTimeout in parallelTrain.",
            )
        if waited >= report_at:
            report_at += max(watch.report_after, 1.0)
            watch.say(f"Warning: {_text(rank, waited, operation, missing(), watch)}")


def _text(rank: int, waited: float, operation: str, missing: list[int], watch: Watch) -> str:
    named = f"rank {', '.join(map(str, missing))}" if missing else "messages to be taken"
    at = f" ({watch.doing})" if watch.doing else ""
    return f"rank {rank} has waited {waited:.0f} s in {operation}{at} for {named}"
