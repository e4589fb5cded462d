"""How many threads a reader has: by the rule of the engine that computes, so that the two share the processors."""

from __future__ import annotations

import os


def reader_threads(asked: int = 0) -> int:
    """Return how many threads decode or parse.

    Args:
        asked: what ``numCPUThreads`` says. Above 0 so many. 0: all processors that this process may use, or
            ``OMP_NUM_THREADS`` of them, which is a rank's share of a machine. Below 0: all but that many, at least one.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked:
        return asked if asked > 0 else max(1, usable + asked)
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(usable, int(given)) if given.isdecimal() and int(given) else usable
