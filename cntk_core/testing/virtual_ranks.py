"""Ranks as threads of one process: parallel training that tests can run, with the same result every time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import TrainingError
from cntk_core.interfaces.parallel import Communicator

T = TypeVar("T")

Array = NDArray[Any]


class RankFailure(TrainingError):
    """The ranks did not come together: one aborted, is gone, or calls something else."""


class _Ended(BaseException):
    """Ends a rank because another one failed. No rank can swallow it by catching exceptions."""


@attrs.define
class _Round:
    """One collective operation: what it is, and what the ranks have brought so far."""

    operation: str
    brought: dict[int, Any] = attrs.field(factory=dict)


class VirtualRanks:
    """Runs a function on several ranks, each a thread with a communicator of its own.

    Sums are added in the order of the ranks, so results do not depend on timing. An exception on one rank ends all
    of them, and so does the deadline.

    Args:
        size: number of ranks.
        deadline: seconds after which a run fails.
    """

    def __init__(self, size: int, *, deadline: float = 30.0) -> None:
        self.size = size
        self.deadline = deadline
        self._changed = threading.Condition()
        self._rounds: list[_Round] = []
        self._done: set[int] = set()
        self._error: BaseException | None = None
        self._end = 0.0

    def run(self, work: Callable[[VirtualCommunicator], T]) -> list[T]:
        """Call ``work(communicator)`` on all ranks and return the results by rank.

        Raises:
            BaseException: the first error of a rank.
            RankFailure: the ranks wait for each other in vain.
        """
        self._rounds, self._done, self._error = [], set(), None
        self._end = time.monotonic() + self.deadline
        results: dict[int, T] = {}
        threads = [
            threading.Thread(target=self._work, args=(rank, work, results), name=f"rank {rank}", daemon=True)
            for rank in range(self.size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(self._end - time.monotonic(), 0.0) + 1.0)
        with self._changed:
            late = [thread.name for thread in threads if thread.is_alive()]
            if late:
                self._fail(RankFailure(f"{', '.join(late)} did not end within {self.deadline:g} s"))
            if self._error is not None:
                raise self._error
        return [results[rank] for rank in range(self.size)]

    def _work(self, rank: int, work: Callable[[VirtualCommunicator], T], results: dict[int, T]) -> None:
        try:
            results[rank] = work(VirtualCommunicator(self, rank))
        except _Ended:
            pass
        except BaseException as error:  # Whatever it is, the caller of run gets it.
            with self._changed:
                self._fail(error)
        with self._changed:
            self._done.add(rank)
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Keep the first error and wake everybody. The lock is held."""
        self._error = self._error or error
        self._changed.notify_all()

    def exchange(self, rank: int, number: int, operation: str, value: Any) -> list[Any]:
        """Bring a value to a rank's ``number``-th collective operation; return what all brought, by rank."""
        with self._changed, self._failures():
            self._check()
            if number == len(self._rounds):
                self._rounds.append(_Round(operation))
            this = self._rounds[number]
            if this.operation != operation:
                raise RankFailure(f"rank {rank} calls {operation} where another calls {this.operation}")
            this.brought[rank] = value
            self._changed.notify_all()
            while len(this.brought) < self.size:
                self._check()
                gone = sorted(self._done - this.brought.keys())
                if gone:
                    raise RankFailure(f"rank {rank} waits in {operation}, but rank {gone[0]} has ended")
                if not self._changed.wait(max(self._end - time.monotonic(), 0.0)):
                    missing = sorted(set(range(self.size)) - this.brought.keys())
                    raise RankFailure(f"{operation} lacks the ranks {missing} after {self.deadline:g} s")
            return [this.brought[one] for one in range(self.size)]

    def end(self, error: BaseException) -> None:
        """End all ranks with an error.

        Raises:
            BaseException: the error.
        """
        with self._changed:
            self._fail(error)
        raise error

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except RankFailure as error:
            self._fail(error)
            raise

    def _check(self) -> None:
        if self._error is not None:
            raise _Ended


class VirtualCommunicator(Communicator):
    """The communicator of one of :class:`VirtualRanks`."""

    requires_api = "1.0"

    def __init__(self, ranks: VirtualRanks, rank: int) -> None:
        self.rank = rank
        self.size = ranks.size
        self._ranks = ranks
        self._count = 0

    def allreduce(self, array: Array) -> None:
        """Sum over all ranks in place, in the order of the ranks."""
        total, *others = self._exchange(f"allreduce of {array.shape} {array.dtype}", array.copy())
        total = total.copy()
        for other in others:
            total += other
        array[...] = total

    def allgather(self, array: Array) -> list[Array]:
        """Return copies of the arrays of all ranks."""
        return [np.array(one) for one in self._exchange("allgather", array.copy())]

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Overwrite the array with that of a rank."""
        array[...] = self._exchange(f"broadcast from {root} of {array.shape} {array.dtype}", array.copy())[root]

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self._exchange("barrier", None)

    def abort(self, reason: str) -> None:
        """End all ranks.

        Raises:
            RankFailure: with the reason; every rank ends.
        """
        self._ranks.end(RankFailure(f"rank {self.rank} aborted: {reason}"))

    def _exchange(self, operation: str, value: Any) -> list[Any]:
        self._count += 1
        return self._ranks.exchange(self.rank, self._count - 1, operation, value)
