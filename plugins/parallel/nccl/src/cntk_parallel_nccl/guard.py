"""Operations of NCCL that may not end: NCCL itself waits for ever, inside calls and on the GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

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


class Background:
    """A call in a thread of its own, which may be left behind if it does not return.

    Args:
        work: is called.
        device: of CuPy, on which it is called.
    """

    def __init__(self, work: Callable[[], Any], device: AbstractContextManager[Any]) -> None:
        self._work, self._device = work, device
        self._found: Any = None
        self._error: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name="connecting", daemon=True).start()

    def is_over(self, seconds: float) -> bool:
        """Whether the call returns within so many seconds."""
        return self._over.wait(seconds)

    def result(self) -> Any:
        """Return what the call returned. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self) -> None:
        try:
            with self._device:
                self._found = self._work()
        except BaseException as error:  # it comes out where the result is asked for
            self._error = error
        self._over.set()
