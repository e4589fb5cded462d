"""Ends an operation of NCCL that does not end: NCCL itself waits for ever, inside calls and on the GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PERIOD = 0.1
"""Seconds between two looks of the thread."""


class Guard:
    """A thread that looks whether an operation should be over.

    Args:
        abort: ends it; called once, from the thread.
        failure: says why nothing can come any more; empty while all is well.

    Attributes:
        reason: why the operation was ended; empty if it was not.
        is_late: it was ended because the time was over.
    """

    def __init__(self, abort: Callable[[], None], failure: Callable[[], str]) -> None:
        self.reason, self.is_late = "", False
        self._abort, self._failure = abort, failure
        self._end: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="guard", daemon=True).start()

    @contextmanager
    def during(self, seconds: float) -> Iterator[None]:
        """Within, an operation is under way that may take so long."""
        self._end = time.monotonic() + seconds
        try:
            yield
        finally:
            self._end = None

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(PERIOD):
            end = self._end
            if end is None:
                continue
            failure, late = self._failure(), time.monotonic() > end
            if failure or late:
                self.is_late = not failure
                self.reason = failure or "the time is over"
                self._abort()
                return
