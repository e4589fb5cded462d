"""Ranks that take turns by their simulated clocks: always the one that is furthest behind.

Each rank is a thread, of which one runs at a time. A rank gives its turn away where others could matter to it: before
it sends, looks for a message, or waits. So what it finds is what would be there at its time, and a run is the same
every time.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import attrs

from cntk_core.api import RankGone, RankMissing, TrainingError
from cntk_core.api.parallel import Message, SimulatedRank, Simulation, SimulationPlan, TimeSpent, WireSize
from cntk_parallel_simulated.groups import Group
from cntk_parallel_simulated.links import Links

if TYPE_CHECKING:
    from cntk_core.api.parallel import Traffic

T = TypeVar("T")

STACK = 512 * 1024
"""Bytes of the stack of a rank's thread."""

_SAME = WireSize()


class Ended(BaseException):
    """Ends a rank because another one failed. No rank can swallow it by catching exceptions."""


class Failed(BaseException):
    """Ends a rank that fails as it was told to."""


@attrs.define(eq=False)
class Actor:
    """A rank and its clock.

    Attributes:
        rank: its number.
        fails_at: seconds after which it is gone.
        clock: simulated seconds.
        spent: where they went.
        wake: released when it is its turn.
        blocked: what it waits for; empty if nothing.
        ready: for one that waits for a message: takes it if it is one that is wanted.
    """

    rank: int
    fails_at: float = float("inf")
    clock: float = 0.0
    spent: TimeSpent = attrs.field(factory=TimeSpent)
    wake: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    blocked: str = ""
    ready: Callable[[Letter], bool] | None = None


@attrs.frozen(eq=False)
class Letter:
    """A message on its way or in a mailbox.

    Attributes:
        group: of the ranks that it belongs to.
        to: the receiver's rank in the group.
        message: what arrives.
        size: simulated bytes.
        sent: when it was sent.
        there: when it is there as a whole.
    """

    group: Group
    to: int
    message: Message
    size: float
    sent: float
    there: float = 0.0


class World(Simulation):
    """All ranks of a simulation, and the network between them.

    Args:
        plan: what is simulated.
        make: makes the communicator of a rank.
    """

    def __init__(self, plan: SimulationPlan, make: Callable[[World, Actor], SimulatedRank]) -> None:
        self.plan = plan
        self._make = make
        self._begin()

    def _begin(self) -> None:
        size = self.plan.ranks
        self.links = Links(self.plan.network, size)
        self.everybody = Group(tuple(range(size)))
        self.traffic: dict[Traffic, tuple[int, int]] = {}
        self.ended_at = 0.0
        self._actors = [Actor(rank, self.plan.failures.get(rank, float("inf"))) for rank in range(size)]
        self._events: list[tuple[float, int, Actor | Letter]] = []
        self._count = 0
        self._done: set[int] = set()
        self._gone: dict[int, float] = {}
        self._error: BaseException | None = None
        self._over = threading.Event()

    def run(self, work: Callable[[SimulatedRank], T]) -> list[T]:
        """Call ``work(communicator)`` on all ranks and return the results by rank.

        Raises:
            BaseException: the first error of a rank.
            RankGone: a rank failed as it was told to.
            TrainingError: the ranks wait for each other in vain, or it takes more real seconds than there are.
        """
        self._begin()
        results: dict[int, T] = {}
        before = threading.stack_size(STACK)
        try:
            threads = [
                threading.Thread(target=self._work, args=(actor, work, results), daemon=True) for actor in self._actors
            ]
            for thread in threads:
                thread.start()
        finally:
            threading.stack_size(before)
        for actor in self._actors:
            self._plan_turn(actor)
        self._pass_on()
        if not self._over.wait(self.plan.patience):
            self._fail(TrainingError(f"the simulation did not end within {self.plan.patience:g} s"))
        for thread in threads:
            thread.join(self.plan.patience if self._error is None else 5.0)
        self.ended_at = max(actor.clock for actor in self._actors)
        if self._error is not None:
            raise self._error
        if self._gone:
            raise self._gone_error()
        return [results[rank] for rank in range(self.plan.ranks)]

    def _work(self, actor: Actor, work: Callable[[SimulatedRank], T], results: dict[int, T]) -> None:
        actor.wake.acquire()
        try:
            self.check(actor)
            results[actor.rank] = work(self._make(self, actor))
        except Ended:
            return
        except Failed:
            self._gone[actor.rank] = actor.clock
        except BaseException as error:  # Whatever it is, the caller of run gets it.
            self._fail(error)
            return
        self._done.add(actor.rank)
        self._pass_on()

    # -- failures -----------------------------------------------------------------------------------------

    def check(self, actor: Actor) -> None:
        """End a rank if all end, or if its time has come."""
        if self._error is not None:
            raise Ended
        if actor.clock >= actor.fails_at:
            actor.clock = actor.fails_at
            raise Failed

    def _fail(self, error: BaseException) -> None:
        """Keep the first error and end everybody."""
        self._error = self._error or error
        for actor in self._actors:
            actor.wake.release()
        self._over.set()

    def end(self, error: BaseException) -> None:
        """End all ranks with an error.

        Raises:
            BaseException: the error.
        """
        self._fail(error)
        raise error

    def _gone_error(self) -> RankGone:
        rank, at = min(self._gone.items(), key=lambda one: one[1])
        return RankGone(f"rank {rank} is gone after {at:.6g} simulated seconds")

    def _stuck(self) -> BaseException:
        """Return the error of ranks that wait although nothing will happen any more."""
        if self._gone:
            return self._gone_error()
        waiting = [f"rank {actor.rank} waits in {actor.blocked}" for actor in self._actors if actor.blocked]
        ended = f", and rank {', '.join(map(str, sorted(self._done)[:8]))} has ended" if self._done else ""
        shown = "; ".join(waiting[:8]) + (f"; and {len(waiting) - 8} more" if len(waiting) > 8 else "")
        return RankMissing(f"the ranks wait in vain: {shown}{ended}")

    # -- turns --------------------------------------------------------------------------------------------

    def _push(self, time: float, event: Actor | Letter) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, event))

    def _plan_turn(self, actor: Actor) -> None:
        self._push(actor.clock, actor)

    def _pass_on(self) -> None:
        """Wake the rank whose turn it is; the one that calls this runs no longer."""
        following = self._next()
        if following is not None:
            following.wake.release()
        elif any(actor.blocked for actor in self._actors):
            self._fail(self._stuck())
        else:
            self._over.set()

    def _next(self) -> Actor | None:
        """Let messages arrive until it is a rank's turn."""
        while self._events:
            time, _, event = heapq.heappop(self._events)
            if isinstance(event, Actor):
                return event
            self._land(event, time)
        return None

    def give_way(self, actor: Actor) -> None:
        """Let everything happen that is before the time of a rank."""
        self.check(actor)
        while self._events and self._events[0][0] < actor.clock:
            event = self._events[0][2]
            if isinstance(event, Actor):
                self._plan_turn(actor)
                self._sleep(actor)
                return
            self._land(event, heapq.heappop(self._events)[0])

    def _sleep(self, actor: Actor) -> None:
        """Let others run until it is this rank's turn again."""
        following = self._next()
        if following is not actor:
            if following is not None:
                following.wake.release()
            elif actor.blocked:
                self._fail(self._stuck())
            actor.wake.acquire()
        self.check(actor)

    def block(self, actor: Actor, what: str, deadline: float) -> None:
        """Wait until :meth:`release` is called for this rank.

        Raises:
            RankMissing: it took longer than the deadline.
        """
        began, actor.blocked = actor.clock, what
        self._sleep(actor)
        self.check_deadline(actor, what, began, deadline)

    @staticmethod
    def check_deadline(actor: Actor, what: str, began: float, deadline: float) -> None:
        """See whether a rank has waited too long.

        Raises:
            RankMissing: it took longer than the deadline.
        """
        if actor.clock - began > deadline:
            raise RankMissing(f"rank {actor.rank} has waited {actor.clock - began:.6g} simulated seconds in {what}")

    def release(self, actor: Actor, time: float) -> None:
        """Let a rank that waits go on at some time."""
        actor.blocked = ""
        actor.clock = max(actor.clock, time)
        self._plan_turn(actor)

    def actor(self, rank: int) -> Actor:
        """Return a rank by its number among all."""
        return self._actors[rank]

    @property
    def nothing_happens(self) -> bool:
        """Whether nobody else can run, and nothing is on its way."""
        return not self._events

    # -- messages -----------------------------------------------------------------------------------------

    def wire(self, kind: Traffic, sizes: list[int]) -> list[float]:
        """Note the bytes of arrays that are handed over; return what they stand for."""
        total, count = self.traffic.get(kind, (0, 0))
        self.traffic[kind] = (total + sum(sizes), count + len(sizes))
        meaning = self.plan.wire.get(kind, _SAME)
        return [meaning.of(size) for size in sizes]

    def post(self, letter: Letter) -> None:
        """Send a message."""
        members = letter.group.members
        source, to = members[letter.message.source], members[letter.to]
        if source == to:
            letter.group.mail.setdefault(letter.to, []).append(attrs.evolve(letter, there=letter.sent))
            return
        self._push(self.links.leave(source, to, letter.size, letter.sent), letter)

    def _land(self, letter: Letter, time: float) -> None:
        members = letter.group.members
        source, to = members[letter.message.source], members[letter.to]
        there = attrs.evolve(letter, there=self.links.land(source, to, letter.size, time))
        letter.group.mail.setdefault(letter.to, []).append(there)
        receiver = self._actors[to]
        if receiver.ready is not None and receiver.ready(there):
            receiver.ready = None
            self.release(receiver, there.there)
