"""Ranks that come to others which have met already, and how all meet anew.

One rank of those that have met keeps the door: it listens where ranks meet. Who comes there and knows the secret is
told that it comes late, and waits. When the others come to a place where they can begin again with more ranks, the
keeper tells all who wait that they will all meet, as ranks meet at first; then there is a new mesh. Whether it is used
the keeper alone decides, after it has heard from everybody: ranks that could decide for themselves might part into two
groups that both go on.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import CntkError, RankGone, RankMissing
from cntk_core.system.console import tell
from cntk_kit_parallel.mesh import Mesh, at_most
from cntk_kit_parallel.mesh_bytes import BadMessage, Line
from cntk_kit_parallel.mesh_doorkeeper import OVER, PLAN, Doorkeeper, Newcomer
from cntk_kit_parallel.mesh_doorkeeper import tell as tell_newcomers
from cntk_kit_parallel.mesh_meeting import ComesLate
from cntk_kit_parallel.rendezvous import Rendezvous, rendezvous_here

JOINING = 30.0
"""Seconds in which all have met anew, or go on as before."""

PATIENCE, OF_LATE = 300.0, 60.0
"""Seconds in which all ranks come that begin together; in which one that comes later finds the others."""

_VOTES = 1
"""Channel of a mesh on which ranks tell whether they have met, and hear whether all go on so."""

_TRIES = 5
"""So many times a rank that waits may be told of a meeting that does not take place."""

_MOST = 1 << 16
"""Bytes of what a rank that waits is told, at most."""


def meet(meeting: Rendezvous) -> tuple[Mesh, list[int] | None]:
    """Return the connections to all others, and, if they had begun without this rank, their launcher's numbers.

    Raises:
        RankGone: a rank has not come; or those that have begun end without this one.
        TrainingError: this rank cannot listen, or is turned away.
        UsageError: the environment makes no sense, or the ranks need a secret.
    """
    for _ in range(_TRIES):
        try:
            return Mesh(meeting, OF_LATE if meeting.late else PATIENCE), None
        except ComesLate as late:
            numbers = _wait(meeting.rank, late.line)
        meeting = attrs.evolve(meeting, late=True)
        if not numbers:
            continue
        with contextlib.suppress(RankGone, RankMissing):  # the others go on as before, and this rank waits again
            mesh = meet_anew(meeting, meeting.rank, numbers)
            if _vote(mesh, 0, 0, sound=not mesh.failure):
                return mesh, numbers
            _abandon(mesh)
    raise RankGone(f"rank {meeting.rank} was to be taken in {_TRIES} times, and the ranks have never met")


def _wait(number: int, line: Line) -> list[int]:
    """Wait, perhaps for hours, until the others take this rank in; return who meets: nobody if they are gone."""
    tell(f"rank {number} waits: the others take it in when they have saved an epoch, or lose a rank")
    line.incoming.most = _MOST
    line.connection.settimeout(None)
    try:
        while (message := line.incoming.read()) is None:
            pass
    except (OSError, EOFError, BadMessage):
        return []
    finally:
        line.connection.close()
    if message[0] == OVER:
        raise RankGone(f"the ranks have come to the end of their work without rank {number}")
    return _numbers(bytes(message[2]))


def _numbers(packed: bytes) -> list[int]:
    return [int(number) for number in json.loads(packed)]


def meet_anew(meeting: Rendezvous, number: int, numbers: Sequence[int]) -> Mesh:
    """Return the connections of ranks that meet anew, where losses are tolerated.

    Args:
        meeting: has the address of the rank that keeps the door, and the secret.
        number: what the launcher calls this rank.
        numbers: what it calls all of them, by rank; that which keeps the door is rank 0.

    Raises:
        CntkError: they have not met.
    """
    size, rank = len(numbers), numbers.index(number)
    mesh = Mesh(attrs.evolve(meeting, rank=rank, size=size, late=False), JOINING)
    mesh.tolerate_losses()
    return mesh


def _vote(mesh: Mesh, keeper: int, attempt: int, *, sound: bool) -> bool:
    """Tell the keeper whether this rank has met all others anew, and return whether all go on so.

    Args:
        mesh: connects this rank with the keeper: that of before, or the new one for a rank that has come.
        keeper: its rank there.
        attempt: number of this meeting.
        sound: this rank has met all.

    Raises:
        RankGone: nobody can tell this rank any more what the others do.
    """
    mesh.post(keeper, _VOTES, attempt, bytes([sound]), at_most(JOINING))
    if not sound:
        return False  # then nobody goes on so
    found = _hear(mesh, keeper, attempt, time.monotonic() + 3 * JOINING)
    if found is None:
        raise RankGone(
            f"rank {keeper} was lost while ranks were taken in, and this one does not know whether the others go on",
            hint="Start it again: if they do, they take it in.",
        )
    return found


def _decide(old: Mesh, members: Sequence[int], new: Mesh | None, attempt: int) -> bool:
    """As the rank that keeps the door: say whether all go on in a new mesh, and tell all others.

    Args:
        old: the mesh of before.
        members: its ranks that are left, this one first.
        new: the new one, in which they are the first ones; None if they have not met.
        attempt: number of this meeting.
    """
    end = time.monotonic() + JOINING + 5.0
    known = [(old, rank) for rank in members[1:]]
    voters = known + ([(new, rank) for rank in range(len(members), new.size)] if new is not None else [])
    agreed = new is not None and not new.failure
    agreed = agreed and all(_hear(mesh, rank, 0 if mesh is new else attempt, end) for mesh, rank in voters)
    for mesh, rank in voters:
        with contextlib.suppress(RankGone):
            mesh.post(rank, _VOTES, 0 if mesh is new else attempt, bytes([agreed]), at_most(5.0))
    return agreed


def _hear(mesh: Mesh, rank: int, attempt: int, end: float) -> bool | None:
    """Return what a rank has told; None if it is gone, or tells nothing in time."""
    while time.monotonic() < end:
        seen = mesh.arrivals
        with contextlib.suppress(RankGone):  # others may be lost: what has come from this one still counts
            found = mesh.take(_VOTES, rank, range(attempt, attempt + 1))
            if found is not None:
                return found[1] == bytes([True])
        if mesh.views is not None and rank in mesh.views.lost:
            return None
        mesh.wait(seen, 0.2)
    return None


def _abandon(mesh: Mesh) -> None:
    """Let go of connections that are not used."""
    mesh.fail("the meeting has failed")
    mesh.end()


class Joining:
    """What one of the ranks of a mesh does to take others in.

    Args:
        mesh: the connections; losses are tolerated.
        numbers: what the launcher calls its ranks, by rank.
    """

    def __init__(self, mesh: Mesh, numbers: Sequence[int]) -> None:
        self._mesh, self._numbers = mesh, list(numbers)
        self._door: Doorkeeper | None = None
        self._invited: list[Newcomer] = []

    @staticmethod
    def meet_others() -> tuple[Mesh, list[int] | None]:
        """Meet those of the environment of this process; see :func:`meet`."""
        return meet(rendezvous_here())

    @property
    def count(self) -> int:
        """How many wait at the door of this rank."""
        return len(self._door.waiting) if self._door is not None else 0

    def keep_door(self, members: Sequence[int]) -> None:
        """Keep the door if this is the first of the ranks of the mesh that are left, and they have a secret."""
        if members[0] != self._mesh.rank or not self._mesh.meeting.secret:
            return
        here = frozenset(self._numbers[rank] for rank in members)
        if self._door is None:
            own = attrs.evolve(self._own_meeting(), rank=self._numbers[self._mesh.rank])
            self._door = Doorkeeper(own, here)
        self._door.numbers = here

    def _own_meeting(self) -> Rendezvous:
        """The meeting with this rank's own address."""
        meeting, own = self._mesh.meeting, self._mesh.own_address
        if self._mesh.rank == 0:
            return meeting
        return attrs.evolve(meeting, address=own, listen=meeting.listen or own)

    def plan(self, members: Sequence[int]) -> NDArray[np.uint8]:
        """As the keeper of the door: say who will meet, as bytes; nothing if nobody has come. Others say nothing."""
        text = b""
        if self.count and self._door is not None:
            self._invited, self._door = self._door.close(), None  # the meeting is where the door is
            numbers = [self._numbers[rank] for rank in members] + [one.number for one in self._invited]
            text = json.dumps(numbers).encode()
        return np.frombuffer(text, np.uint8)

    def go(self, members: Sequence[int], plan: bytes) -> tuple[Mesh, list[int]] | None:
        """Meet anew; return the new connections and the launcher's numbers, or None: all go on as they are.

        Raises:
            RankGone: nobody can tell this rank what the others do.
        """
        numbers, keeper, attempt = _numbers(plan), members[0], self._attempt()
        is_keeper = keeper == self._mesh.rank
        tell_newcomers(self._invited, PLAN, plan)
        self._invited = []
        address = self._mesh.addresses.get(keeper, "")
        meeting = self._own_meeting() if is_keeper else attrs.evolve(self._mesh.meeting, address=address)
        mesh: Mesh | None = None
        with contextlib.suppress(CntkError):
            mesh = meet_anew(meeting, self._numbers[self._mesh.rank], numbers)
        if is_keeper:
            agreed = _decide(self._mesh, members, mesh, attempt)
        else:
            agreed = _vote(self._mesh, keeper, attempt, sound=mesh is not None and not mesh.failure)
        if agreed and mesh is not None:
            return mesh, numbers
        if mesh is not None:
            _abandon(mesh)
        return None

    def _attempt(self) -> int:
        views = self._mesh.views
        assert views is not None, "losses are not tolerated"
        return views.agreed.number

    def give_up(self) -> None:
        """Forget those who were invited to a meeting that did not begin; they come again."""
        for one in self._invited:
            one.line.connection.close()
        self._invited = []

    def close(self) -> None:
        """Tell those who wait that the work is done."""
        if self._door is not None:
            tell_newcomers(self._door.close(), OVER)
            self._door = None
