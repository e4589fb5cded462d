"""What communicators share: sums in the order of the ranks, and a thread for work in the background."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from cntk_core.contract.parallel import Communicator, Pending

Array = NDArray[Any]
T = TypeVar("T")


def sum_by_rank(parts: Sequence[Array]) -> Array:
    """Return the sum of arrays of one shape in the order of the ranks, as a new array."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


class _Waiting(Pending[T]):
    """Work of the thread in the background."""

    def __init__(self) -> None:
        super().__init__()
        self.done = threading.Event()

    @property
    def is_done(self) -> bool:
        return self.done.is_set()

    def wait(self) -> T:
        self.done.wait()
        return super().wait()

    def do(self, work: Callable[[Communicator], T], communicator: Communicator) -> None:
        try:
            self._result = work(communicator)
        except BaseException as error:  # It comes out where the work is waited for.
            self._error = error
        self.done.set()


class BackgroundWorker:
    """A thread that works one piece after the other, with a communicator of its own.

    Args:
        owner: counts the bytes that the work sends as its own.
        communicator: has the same ranks; nobody else operates on it.
    """

    def __init__(self, owner: Communicator, communicator: Communicator) -> None:
        self._owner, self._communicator = owner, communicator
        self._works: queue.SimpleQueue[tuple[_Waiting[Any], Callable[[Communicator], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="communication", daemon=True)
        self._thread.start()

    def begin(self, work: Callable[[Communicator], T]) -> Pending[T]:
        """Put a piece of work behind the others."""
        waiting: _Waiting[T] = _Waiting()
        self._works.put((waiting, work))
        return waiting

    def close(self, patience: float | None = None) -> None:
        """End the thread after the work that it has; wait for that so many seconds, by default up to the deadline."""
        self._works.put(None)
        self._thread.join(self._communicator.watch.deadline if patience is None else patience)

    def _run(self) -> None:
        while (piece := self._works.get()) is not None:
            waiting, work = piece
            before = self._communicator.bytes_sent
            waiting.do(work, self._communicator)
            self._owner.bytes_sent += self._communicator.bytes_sent - before
