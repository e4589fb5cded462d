"""The communicator of a simulated rank.

Arrays move between threads at once and exactly; how long that takes is reckoned: each operation becomes the messages of
which the communicators on MPI and sockets make it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator, TrainingError
from cntk_core.api.parallel import (
    Message,
    NetworkModel,
    Pending,
    SimulatedRank,
    Simulation,
    SimulationPlan,
    sum_by_rank,
)
from cntk_parallel_simulated.groups import Group, Round
from cntk_parallel_simulated.world import Actor, Letter, World

T = TypeVar("T")
Array = NDArray[Any]
Floats = NDArray[np.float64]

DIRECT_BYTES = 8192
"""Up to so many bytes a rank sends a whole array to all others; larger ones are summed stripe by stripe."""

POLL_SECONDS = 1e-6
"""What looking for a message in vain takes at least."""

_VAIN = 10000
"""Looks in vain while nothing can happen any more, after which a rank waits for ever."""


@attrs.define
class _Background:
    """A rank's work in the background: its communicator, and when the last piece is done."""

    communicator: SimulatedCommunicator
    clock: float = 0.0


class _Later(Pending[T]):
    """Work in the background that is done, as far as this process goes, but takes simulated time."""

    def __init__(self, owner: SimulatedCommunicator, done: float, result: T | None, error: Exception | None) -> None:
        super().__init__(result, error)
        self._owner, self._done = owner, done

    @property
    def is_done(self) -> bool:
        return self._owner.now() >= self._done

    def wait(self) -> T:
        self._owner.wait_until(self._done)
        return super().wait()


class SimulatedCommunicator(SimulatedRank):
    """A rank of a :class:`World`. Made without arguments it is the only one.

    Args:
        world: all ranks, and the network.
        actor: this rank with its clock.
        group: the ranks of this communicator.
    """

    requires_api = "1.0"

    def __init__(self, world: World | None = None, actor: Actor | None = None, group: Group | None = None) -> None:
        super().__init__()
        self._world = world if world is not None else World(SimulationPlan(1, NetworkModel()), SimulatedCommunicator)
        self._actor = actor if actor is not None else self._world.actor(0)
        self._group = group if group is not None else self._world.everybody
        self.rank, self.size = self._group.members.index(self._actor.rank), len(self._group.members)
        self.spent = self._actor.spent
        self._count = self._vain = 0
        self._background: _Background | None = None

    @classmethod
    def simulation(cls, plan: SimulationPlan) -> Simulation:
        """Return ranks on a simulated network."""
        return World(plan, cls)

    # -- time ---------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Simulated seconds since the beginning."""
        return self._actor.clock

    def advance(self, seconds: float) -> None:
        """Let time pass in which the rank computes."""
        self._actor.clock += seconds
        self.spent.computing += seconds
        self._world.check(self._actor)

    def wait_until(self, time: float) -> None:
        """Wait for something in the background."""
        self.spent.communicating += max(0.0, time - self._actor.clock)
        self._actor.clock = max(self._actor.clock, time)
        self._world.check(self._actor)

    # -- all ranks together -------------------------------------------------------------------------------

    def allreduce(self, array: Array) -> None:
        """Sum in place: small arrays at every rank, of large ones a stripe at each."""
        self.allreduce_all([array])

    def allreduce_all(self, arrays: Sequence[Array]) -> None:
        """Sum all of them in place, with the messages of all on their way together."""
        sizes = [self._wire("sum", [array.nbytes])[0] for array in arrays]
        shapes = ", ".join(f"{array.shape} {array.dtype}" for array in arrays)

        def finish(this: Round, ready: Floats) -> Floats:
            brought = [this.brought[rank] for rank in range(self.size)]
            this.result = [sum_by_rank(parts) for parts in zip(*brought, strict=True)]
            return self._sum_times(ready, sizes)

        copies = [array.copy() for array in arrays]
        for array, total in zip(arrays, self._together(f"a sum of {shapes}", copies, finish), strict=True):
            array[...] = total
        self.bytes_sent += sum(self._sum_bytes(size) for size in sizes)

    def _is_small(self, size: float) -> bool:
        return size * (self.size - 1) <= DIRECT_BYTES

    def _sum_bytes(self, size: float) -> int:
        if self._is_small(size):
            return round(size * (self.size - 1))
        return round(2 * size * (self.size - 1) / self.size)

    def _sum_times(self, ready: Floats, sizes: Sequence[float]) -> Floats:
        """One round with the small arrays and the stripes of the large ones, and one with the sums of the stripes."""
        if self.size == 1:
            return ready
        stripes = sum(size / self.size for size in sizes if not self._is_small(size))
        small = sum(size for size in sizes if self._is_small(size))
        done = self._exchange(ready, np.full(self.size, small + stripes))
        done += (small + stripes) * self.size / self._world.plan.network.sum_rate
        return self._exchange(done, np.full(self.size, stripes)) if stripes else done

    def allgather(self, array: Array) -> list[Array]:
        """Send the array to all others."""
        (size,) = self._wire("gathering", [array.nbytes])

        def finish(this: Round, ready: Floats) -> Floats:
            this.result = [this.brought[rank][0] for rank in range(self.size)]
            return self._exchange(ready, np.array([this.brought[rank][1] for rank in range(self.size)]))

        self.bytes_sent += round(size * (self.size - 1))
        return [one.copy() for one in self._together("a gathering of arrays", (array.copy(), size), finish)]

    def alltoall(self, arrays: Sequence[Array]) -> list[Array]:
        """Send each array to its rank."""
        if len(arrays) != self.size:
            raise ValueError(f"alltoall needs {self.size} arrays, not {len(arrays)}")
        sizes = self._wire("exchange", [array.nbytes for array in arrays])

        def finish(this: Round, ready: Floats) -> Floats:
            brought = [this.brought[rank] for rank in range(self.size)]
            this.result = [list(column) for column in zip(*(one[0] for one in brought), strict=True)]
            return self._exchange(ready, np.array([one[1] for one in brought]))

        copies = [array.copy() for array in arrays]
        self.bytes_sent += round(sum(sizes) - sizes[self.rank])
        found: list[Array] = self._together("an exchange of arrays", (copies, sizes), finish)[self.rank]
        return found

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Send the array down a binomial tree."""
        (size,) = self._wire("broadcast", [array.nbytes])

        def finish(this: Round, ready: Floats) -> Floats:
            this.result = this.brought[root]
            return self._world.links.tree(np.array(self._group.members), ready, size, root)

        mine = array.copy() if self.rank == root else None
        array[...] = self._together(f"a broadcast from {root} of {array.shape} {array.dtype}", mine, finish)
        place, reach = (self.rank - root) % self.size, 1
        while reach < self.size:
            self.bytes_sent += round(size) if place < reach and place + reach < self.size else 0
            reach *= 2

    def barrier(self) -> None:
        """Hear of every other rank."""
        self._together("a meeting of all ranks", None, lambda this, ready: self._exchange(ready, np.zeros(self.size)))

    def split(self, color: int) -> SimulatedCommunicator:
        """Return the communicator of the ranks with this color."""
        name = f"split {self._count}"

        def finish(this: Round, ready: Floats) -> Floats:
            this.result = [this.brought[rank] for rank in range(self.size)]
            return self._exchange(ready, np.full(self.size, 8.0))

        colors = self._together("a division of the ranks", color, finish)
        members = tuple(rank for rank, one in enumerate(colors) if one == color)
        part = SimulatedCommunicator(self._world, self._actor, self._group.part(name, color, members))
        part.watch = self.watch
        return part

    def _wire(self, what: str, sizes: list[int]) -> list[float]:
        return self._world.wire((f"{self._group.path}/{what}", self._count), sizes)

    def _exchange(self, ready: Floats, sizes: Floats) -> Floats:
        return self._world.links.exchange(np.array(self._group.members), ready, sizes)

    def _together(self, operation: str, value: Any, finish: Callable[[Round, Floats], Floats]) -> Any:
        """Bring a value to an operation of all ranks; the last one to come finds the result, and when each has it."""
        actor, group = self._actor, self._group
        self._world.check(actor)
        number, came = self._count, actor.clock
        self._count += 1
        this = group.rounds.setdefault(number, Round(operation))
        if this.operation != operation:
            self._world.end(TrainingError(f"rank {actor.rank} calls {operation} where another calls {this.operation}"))
        this.brought[self.rank], this.came[self.rank] = value, came
        if len(this.came) == self.size:
            self._finish(this, finish)
            self._world.check_deadline(actor, operation, came, self.watch.deadline)
        else:
            self._world.block(actor, operation, self.watch.deadline)
        last = max(this.came.values())
        self.spent.waiting += last - came
        self.spent.communicating += actor.clock - last
        this.taken += 1
        if this.taken == self.size:
            del group.rounds[number]
        return this.result

    def _finish(self, this: Round, finish: Callable[[Round, Floats], Floats]) -> None:
        """Reckon the times and let the others go on."""
        ready = np.array([this.came[rank] for rank in range(self.size)])
        this.done = np.maximum(finish(this, ready), ready.max() if self.size > 1 else 0.0)
        for rank, member in enumerate(self._group.members):
            if rank != self.rank:
                self._world.release(self._world.actor(member), float(this.done[rank]))
        self._actor.clock = max(self._actor.clock, float(this.done[self.rank]))
        self._world.check(self._actor)

    # -- in the background --------------------------------------------------------------------------------

    def background(self, work: Callable[[Communicator], T]) -> Pending[T]:
        """Do the work at once, on a clock of its own: it begins now or when the work before it is done."""
        if self._background is None:
            group = self._group.part("background", 0, tuple(range(self.size)))
            self._background = _Background(SimulatedCommunicator(self._world, self._actor, group))
        behind, actor = self._background, self._actor
        own, before, spent = behind.communicator, actor.clock, attrs.evolve(actor.spent)
        own.watch = self.watch
        sent = own.bytes_sent
        actor.clock = max(before, behind.clock)
        result, failure = None, None
        try:
            result = work(own)
        except Exception as error:  # It comes out where the work is waited for.
            failure = error
        behind.clock, actor.clock = actor.clock, before
        actor.spent.computing, actor.spent.communicating = spent.computing, spent.communicating
        actor.spent.waiting = spent.waiting
        self.bytes_sent += own.bytes_sent - sent
        return _Later(self, behind.clock, result, failure)

    # -- one rank to another ------------------------------------------------------------------------------

    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Send a copy of the array."""
        self._world.give_way(self._actor)
        (size,) = self._world.wire((f"{self._group.path}/message", tag), [array.nbytes])
        if to != self.rank:
            self.bytes_sent += round(size)
            self._busy(self._world.plan.network.overhead)
        message = Message(self.rank, tag, array.copy())
        self._world.post(Letter(self._group, to, message, size, self._actor.clock))

    def receive(self, source: int | None = None, tag: int | None = None) -> Message:
        """Wait for a message."""
        self._world.give_way(self._actor)
        began = self._actor.clock
        letter = self._take(source, tag, float("inf"))
        if letter is None:
            named = "any rank" if source is None else f"rank {self._group.members[source]}"
            what = f"receiving a message from {named}" + ("" if tag is None else f" about {tag}")
            self._actor.ready = lambda one: one.group is self._group and _fits(one, source, tag)
            self._world.block(self._actor, what, self.watch.deadline)
            letter = self._take(source, tag, float("inf"))
        assert letter is not None, "a rank was woken without the message that it waits for"
        self._actor.clock = max(began, letter.there)
        waited = min(max(0.0, letter.sent - began), self._actor.clock - began)
        self.spent.waiting += waited
        self.spent.communicating += self._actor.clock - began - waited
        return self._open(letter)

    def poll(self, source: int | None = None, tag: int | None = None) -> Message | None:
        """Return a message if one is there at this time."""
        self._world.give_way(self._actor)
        letter = self._take(source, tag, self._actor.clock)
        if letter is not None:
            self._vain = 0
            return self._open(letter)
        self._vain = self._vain + 1 if self._world.nothing_happens else 0
        if self._vain > _VAIN and self.size > 1:
            self._world.end(TrainingError(f"rank {self._actor.rank} looks for messages that nobody sends"))
        self._busy(max(POLL_SECONDS, self._world.plan.network.overhead))
        return None

    def _take(self, source: int | None, tag: int | None, until: float) -> Letter | None:
        mail = self._group.mail.get(self.rank, [])
        for index, letter in enumerate(mail):
            if letter.there <= until and _fits(letter, source, tag):
                return mail.pop(index)
        return None

    def _open(self, letter: Letter) -> Message:
        if letter.message.source != self.rank:
            self._busy(self._world.plan.network.overhead)
        return letter.message

    def _busy(self, seconds: float) -> None:
        self._actor.clock += seconds
        self.spent.communicating += seconds
        self._world.check(self._actor)

    # -- all else -----------------------------------------------------------------------------------------

    def abort(self, reason: str) -> None:
        """End all ranks.

        Raises:
            TrainingError: with the reason; every rank ends.
        """
        self._world.end(TrainingError(f"rank {self._actor.rank} aborted: {reason}"))


def _fits(letter: Letter, source: int | None, tag: int | None) -> bool:
    return source in (None, letter.message.source) and tag in (None, letter.message.tag)
