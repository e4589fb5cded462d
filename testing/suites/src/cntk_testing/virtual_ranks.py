"""Ranks as threads of one process: parallel training that tests can run, with the same result every time.

One rank runs at a time. It runs until it has to wait, then the next one that is not done takes its turn, so the order
in which messages arrive does not depend on timing either. Ranks that wait for each other in vain are noticed at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.parallel import Communicator, Message, Pending
from cntk_core.errors import RankGone, TrainingError

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
    taken: int = 0


@attrs.define(eq=False)
class _Group:
    """The ranks of one communicator: their numbers among all, their operations and the messages not yet received.

    ``whole`` is the group that it was split from; a loss there concerns it, too.
    """

    members: tuple[int, ...]
    whole: _Group | None = None
    rounds: dict[int, _Round] = attrs.field(factory=dict)
    mail: dict[int, list[Message]] = attrs.field(factory=dict)
    parts: dict[tuple[int, int], _Group] = attrs.field(factory=dict)
    regroupings: dict[int, _Regrouping] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _Regrouping:
    """Ranks of a group find out who is left.

    Attributes:
        done: whether each rank that has come has done its work.
        is_over: all who are left have come.
        result: their group; None if all are here and have done their work.
    """

    done: dict[int, bool] = attrs.field(factory=dict)
    is_over: bool = False
    result: _Group | None = None


class VirtualRanks:
    """Runs a function on several ranks, each a thread with a communicator of its own.

    Sums are added in the order of the ranks, and ranks take turns, so results do not depend on timing. An exception on
    one rank ends all of them, unless they tolerate losses (:meth:`Communicator.tolerate_losses`), and so does the
    deadline.

    Args:
        size: number of ranks.
        deadline: seconds after which a run fails.

    Attributes:
        lost: what ended each rank that the others have gone on without.
    """

    def __init__(self, size: int, *, deadline: float = 60.0) -> None:
        self.size = size
        self.deadline = deadline
        self._lock = threading.Lock()
        self._wakes = [threading.Condition(self._lock) for _ in range(size)]
        self._begin()

    def _begin(self) -> None:
        self._all = _Group(tuple(range(self.size)))
        self._waits: dict[int, str] = {}
        self._done: set[int] = set()
        self._elastic: set[int] = set()
        self.lost: dict[int, BaseException] = {}
        self._error: BaseException | None = None
        self._turn = self._idle = 0
        self._end = time.monotonic() + self.deadline

    def run(self, work: Callable[[VirtualCommunicator], T]) -> list[T]:
        """Call ``work(communicator)`` on all ranks and return the results by rank, without ranks that were lost.

        Raises:
            BaseException: the first error of a rank; where losses are tolerated, if no rank is left.
            RankFailure: the ranks wait for each other in vain.
        """
        self._begin()
        results: dict[int, T] = {}
        threads = [
            threading.Thread(target=self._work, args=(rank, work, results), name=f"rank {rank}", daemon=True)
            for rank in range(self.size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(self._end - time.monotonic(), 0.0) + 1.0)
        with self._lock:
            late = [thread.name for thread in threads if thread.is_alive()]
            if late:
                self._fail(RankFailure(f"{', '.join(late)} did not end within {self.deadline:g} s"))
            if self._error is None and not results:
                self._error = next(iter(self.lost.values()))
            if self._error is not None:
                raise self._error
        return [results[rank] for rank in sorted(results)]

    def _work(self, rank: int, work: Callable[[VirtualCommunicator], T], results: dict[int, T]) -> None:
        try:
            with self._lock:
                while self._turn != rank and self._error is None:
                    self._wakes[rank].wait()
            results[rank] = work(VirtualCommunicator(self, rank))
        except _Ended:
            pass
        except BaseException as error:  # Whatever it is, the caller of run gets it.
            with self._lock:
                if rank in self._elastic:
                    self.lost[rank] = error
                else:
                    self._fail(error)
        with self._lock:
            self._done.add(rank)
            self._idle = 0
            self._pass_turn(rank)

    # -- turns; the lock is held --------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """Keep the first error and wake everybody."""
        self._error = self._error or error
        for wake in self._wakes:
            wake.notify_all()

    def _refuse(self, message: str) -> RankFailure:
        """Return an error that ends all ranks."""
        error = RankFailure(message)
        self._fail(error)
        return error

    def _check(self) -> None:
        if self._error is not None:
            raise _Ended

    def _check_losses(self, group: _Group) -> None:
        lost = [rank for rank in (group.whole or group).members if rank in self.lost]
        if lost:
            raise RankGone(f"rank {', '.join(map(str, lost))} is gone")

    def _pass_turn(self, rank: int) -> None:
        for step in range(1, self.size + 1):
            following = (rank + step) % self.size
            if following not in self._done:
                self._turn = following
                self._wakes[following].notify_all()
                return

    def _await_turn(self, rank: int, lacking: str) -> None:
        while self._turn != rank:
            self._check()
            if not self._wakes[rank].wait(max(self._end - time.monotonic(), 0.0)) and self._turn != rank:
                self._check()
                raise self._refuse(f"{lacking} after {self.deadline:g} s")
        self._check()

    def _wait(self, rank: int, what: str, ready: Callable[[], T | None], lacking: Callable[[], str]) -> T:
        """Let the others run until there is something; ``ready`` gives it, or None."""
        self._check()
        while (found := ready()) is None:
            self._waits[rank] = what
            self._idle += 1
            if self._idle > self.size:
                waiting = "; ".join(f"rank {one} waits in {text}" for one, text in sorted(self._waits.items()))
                raise self._refuse(f"all ranks wait for each other: {waiting}")
            self._pass_turn(rank)
            self._await_turn(rank, lacking())
        self._waits.pop(rank, None)
        self._idle = 0
        return found

    # -- what communicators do ----------------------------------------------------------------------------

    def exchange(self, group: _Group, rank: int, number: int, operation: str, value: Any) -> list[Any]:
        """Bring a value to a rank's ``number``-th collective operation in a group; return what all brought, by rank."""
        me = group.members[rank]
        with self._lock:
            self._check()
            self._check_losses(group)
            this = group.rounds.setdefault(number, _Round(operation))
            if this.operation != operation:
                raise self._refuse(f"rank {me} calls {operation} where another calls {this.operation}")
            this.brought[rank] = value
            self._idle = 0

            def missing() -> list[int]:
                return [member for index, member in enumerate(group.members) if index not in this.brought]

            def ready() -> bool | None:
                absent = missing()
                if absent:
                    self._check_losses(group)
                gone = sorted(self._done.intersection(absent))
                if gone:
                    raise self._refuse(f"rank {me} waits in {operation}, but rank {gone[0]} has ended")
                return None if absent else True

            self._wait(me, operation, ready, lambda: f"{operation} lacks the ranks {missing()}")
            this.taken += 1
            if this.taken == len(group.members):
                del group.rounds[number]
            return [this.brought[one] for one in range(len(group.members))]

    def post(self, group: _Group, to: int, message: Message) -> None:
        """Put a message where a rank of a group finds it."""
        with self._lock:
            self._check()
            self._check_losses(group)
            group.mail.setdefault(to, []).append(message)
            self._idle = 0

    def fetch(self, group: _Group, rank: int, source: int | None, tag: int | None) -> Message:
        """Wait for a message."""
        named = "any rank" if source is None else f"rank {group.members[source]}"
        what = f"receive from {named}" + ("" if tag is None else f" with tag {tag}")

        def ready() -> Message | None:
            found = _take(group.mail.get(rank, []), source, tag)
            if found is None:
                self._check_losses(group)
            if found is None and source is not None and group.members[source] in self._done:
                raise self._refuse(f"rank {group.members[rank]} waits in {what}, but it has ended")
            return found

        with self._lock:
            return self._wait(group.members[rank], what, ready, lambda: f"{what}: nothing came")

    def look(self, group: _Group, rank: int, source: int | None, tag: int | None) -> Message | None:
        """Return a message if there is one; if not, the others run before the rank goes on."""
        with self._lock:
            self._check()
            found = _take(group.mail.get(rank, []), source, tag)
            if found is None:
                self._check_losses(group)
                self._idle = 0
                self._pass_turn(group.members[rank])
                self._await_turn(group.members[rank], "poll lacks its turn")
                found = _take(group.mail.get(rank, []), source, tag)
            return found

    def part(self, group: _Group, number: int, color: int, members: Sequence[int]) -> _Group:
        """Return the group of the members of a color, the same one for all of them."""
        with self._lock:
            self._check()
            part = _Group(tuple(group.members[one] for one in members), group.whole or group)
            return group.parts.setdefault((number, color), part)

    def tolerate(self, rank: int) -> None:
        """Let the others go on when a rank is lost."""
        with self._lock:
            self._elastic.add(rank)

    def regroup(self, group: _Group, rank: int, number: int, done: bool) -> _Group | None:
        """Wait until all ranks of a group that are left have come to its ``number``-th regrouping; see Communicator."""
        with self._lock:
            self._check()
            this = group.regroupings.setdefault(number, _Regrouping())
            this.done[rank] = done
            self._idle = 0

            def left() -> list[int]:
                return [index for index, member in enumerate(group.members) if member not in self.lost]

            def ready() -> bool | None:
                if not this.is_over and not set(left()) - set(this.done):
                    this.is_over = True
                    if len(left()) < len(group.members) or not all(this.done.values()):
                        this.result = _Group(tuple(group.members[index] for index in left()))
                return this.is_over or None

            self._wait(group.members[rank], "regroup", ready, lambda: "regroup lacks ranks")
            return this.result

    def end(self, error: BaseException) -> None:
        """End all ranks with an error.

        Raises:
            BaseException: the error.
        """
        with self._lock:
            self._fail(error)
        raise error


def _take(mail: list[Message], source: int | None, tag: int | None) -> Message | None:
    for index, message in enumerate(mail):
        if source in (None, message.source) and tag in (None, message.tag):
            return mail.pop(index)
    return None


class VirtualCommunicator(Communicator):
    """The communicator of one of :class:`VirtualRanks`."""

    requires_api = "1.0"

    def __init__(self, ranks: VirtualRanks, rank: int, group: _Group | None = None) -> None:
        super().__init__()
        self._group = group if group is not None else ranks._all
        self.rank = rank
        self.size = len(self._group.members)
        self._ranks = ranks
        self._count = self._regroupings = 0

    def allreduce(self, array: Array) -> None:
        """Sum over all ranks in place, in the order of the ranks."""
        total, *others = self._exchange(f"allreduce of {array.shape} {array.dtype}", array.copy())
        total = total.copy()
        for other in others:
            total += other
        array[...] = total
        # Each rank adds up one part of the array and sends it to all others.
        self.bytes_sent += 2 * array.nbytes * (self.size - 1) // self.size

    def allgather(self, array: Array) -> list[Array]:
        """Return copies of the arrays of all ranks."""
        self.bytes_sent += array.nbytes * (self.size - 1)
        return [np.array(one) for one in self._exchange("allgather", array.copy())]

    def alltoall(self, arrays: Sequence[Array]) -> list[Array]:
        """Return copies of what all ranks have for this one."""
        if len(arrays) != self.size:
            raise ValueError(f"alltoall needs {self.size} arrays, not {len(arrays)}")
        self.bytes_sent += sum(array.nbytes for to, array in enumerate(arrays) if to != self.rank)
        brought = self._exchange("alltoall", [array.copy() for array in arrays])
        return [np.array(one[self.rank]) for one in brought]

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Overwrite the array with that of a rank."""
        array[...] = self._exchange(f"broadcast from {root} of {array.shape} {array.dtype}", array.copy())[root]
        if self.rank == root:
            self.bytes_sent += array.nbytes * (self.size - 1)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self._exchange("barrier", None)

    def split(self, color: int) -> VirtualCommunicator:
        """Return the communicator of the ranks with this color."""
        number = self._count
        colors = self._exchange("split", color)
        members = [rank for rank, one in enumerate(colors) if one == color]
        group = self._ranks.part(self._group, number, color, members)
        return VirtualCommunicator(self._ranks, members.index(self.rank), group)

    def background(self, work: Callable[[Communicator], T]) -> Pending[T]:
        """Do the work at once; its errors come out where it is waited for."""
        try:
            return Pending(work(self))
        except Exception as error:
            return Pending(error=error)

    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Put a copy of the array where the receiver finds it."""
        self._ranks.post(self._group, to, Message(self.rank, tag, array.copy()))
        self.bytes_sent += array.nbytes if to != self.rank else 0

    def receive(self, source: int | None = None, tag: int | None = None) -> Message:
        """Wait for a message."""
        return self._ranks.fetch(self._group, self.rank, source, tag)

    def poll(self, source: int | None = None, tag: int | None = None) -> Message | None:
        """Return a message if there is one. If there is none, each other rank has its turn before this one goes on."""
        return self._ranks.look(self._group, self.rank, source, tag)

    def now(self) -> float:
        """Seconds of the system's clock."""
        return time.monotonic()

    def abort(self, reason: str) -> None:
        """End all ranks.

        Raises:
            RankFailure: with the reason; every rank ends.
        """
        self._ranks.end(RankFailure(f"rank {self._group.members[self.rank]} aborted: {reason}"))

    def tolerate_losses(self) -> None:
        """From now on an exception on a rank ends this rank alone."""
        self.is_elastic = True
        self._ranks.tolerate(self._group.members[self.rank])

    def regroup(self, done: bool) -> VirtualCommunicator | None:
        """Wait for the ranks that are left."""
        self._regroupings += 1
        group = self._ranks.regroup(self._group, self.rank, self._regroupings - 1, done)
        if group is None:
            return None
        found = VirtualCommunicator(self._ranks, group.members.index(self._group.members[self.rank]), group)
        found.watch, found.is_elastic = self.watch, True
        return found

    def leave(self, reason: str) -> None:
        """End this rank.

        Raises:
            RankFailure: with the reason.
        """
        raise RankFailure(f"rank {self._group.members[self.rank]} left: {reason}")

    def _exchange(self, operation: str, value: Any) -> list[Any]:
        self._count += 1
        return self._ranks.exchange(self._group, self.rank, self._count - 1, operation, value)
