"""The communicator on sockets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from numpy.typing import NDArray

from cntk_core.api import RankGone, RankMissing
from cntk_core.api.parallel import Joining, Launcher, Mesh, MeshCommunicator, Message, Whereabouts

Array = NDArray[Any]

PATIENCE = 5.0
"""Seconds in which others must answer a rank that has waited for them for as long as it may."""

LAST_WORK = 5.0
"""Seconds that work in the background has to notice that a rank is lost."""


class SocketCommunicator(MeshCommunicator):
    """Ranks that are processes, with a TCP connection between each two."""

    requires_api = "1.0"

    takes_newcomers = True

    def __init__(self, mesh: Mesh | None = None, members: Sequence[int] | None = None, channel: int = 0) -> None:
        numbers: Sequence[int] | None = None
        if mesh is None:
            mesh, numbers = Joining.meet_others()
        super().__init__(mesh, members, channel)
        self.is_elastic = self._mesh.views is not None
        self._whereabouts: Whereabouts | None = None
        self._joining: Joining | None = None
        if numbers is not None:
            self.has_joined = True
            self._begin_with_newcomers(numbers)

    @classmethod
    def launcher(cls, ranks: int, *, elastic: bool = False) -> Launcher:
        """A small program that starts processes and waits for them."""
        own = (str(ranks), "--elastic") if elastic else (str(ranks),)
        command = (sys.executable, "-P", "-m", "cntk_parallel_sockets.launching", *own)
        return Launcher(command, {}, "the launcher of cntk-parallel-sockets")

    # -- going on without a rank --------------------------------------------------------------------------

    def tolerate_losses(self) -> None:
        """A rank is lost when its connections end, when it says that it fails, and when it does not answer."""
        if self.is_elastic:
            return  # it has come to ranks that do
        self._whereabouts = Whereabouts.gather(self)
        self._mesh.tolerate_losses()
        self.is_elastic = True
        self._joining = Joining(self._mesh, range(self._mesh.size))
        self._joining.keep_door(self._members)

    def regroup(self, done: bool) -> SocketCommunicator | None:
        """Tell all others who is lost, until all that are left agree; those that do not answer are ended."""
        views = self._mesh.views
        assert views is not None, "losses are not tolerated"
        patience = PATIENCE if views.missed else self.watch.deadline + PATIENCE
        if self._mesh.regroup(done=done, patience=patience, give_up=self._give_up):
            return None
        if self._worker is not None:
            self._worker.close(LAST_WORK)
            self._worker = None
        view = views.agreed
        members = [rank for rank in self._members if rank not in view.lost]
        name = f"view {view.number}: {members}".encode()
        channel = int.from_bytes(blake2b(name, digest_size=7).digest(), "little")
        self._mesh.forget_others(channel)
        following = SocketCommunicator(self._mesh, members, channel)
        following.watch, following._whereabouts, following._joining = self.watch, self._whereabouts, self._joining
        return following._with_newcomers()

    # -- taking ranks in ----------------------------------------------------------------------------------

    @property
    def newcomers(self) -> int:
        """How many wait at the door that rank 0 keeps."""
        return 0 if self._joining is None else self._joining.count

    def _with_newcomers(self) -> SocketCommunicator:
        """Take in those who wait; return a communicator of all, or this one if nobody has come or it cannot be done."""
        joining = self._joining
        assert joining is not None, "losses are not tolerated"
        joining.keep_door(self._members)
        try:
            plan = self.allgather(joining.plan(self._members))[0]
        except (RankGone, RankMissing):  # one more is lost; whoever uses this communicator hears of it
            joining.give_up()
            return self
        if not plan.size:
            return self
        found = joining.go(self._members, bytes(plan))
        if found is None:
            joining.keep_door(self._members)
            return self
        grown = SocketCommunicator(found[0])
        grown.watch = self.watch
        grown._begin_with_newcomers(found[1])
        self._mesh.end()
        return grown

    def _begin_with_newcomers(self, numbers: Sequence[int]) -> None:
        """Begin with others to whom ranks have come, or to whom this one has."""
        self._joining = Joining(self._mesh, numbers)
        self._joining.keep_door(self._members)
        self._whereabouts = Whereabouts(("",) * self.size)
        with suppress(RankGone, RankMissing):  # whoever uses this communicator hears of it
            self._whereabouts = Whereabouts.gather(self)

    def _give_up(self, ranks: Sequence[int]) -> None:
        """End ranks of the mesh that do not answer, where that can be done; elsewhere they will hear of it."""
        named = f"rank {', '.join(map(str, ranks))}"
        self.watch.say(f"Warning: {named} does not answer: it counts as lost, and is ended if it is on this machine")
        if self._whereabouts is not None:
            for rank in ranks:
                self._whereabouts.end(rank)

    def leave(self, reason: str) -> None:
        """Tell the others that this rank fails."""
        self.abort(reason)

    def close(self) -> None:
        """Close the connections, too, if they are those of the ranks that are left."""
        if self._joining is not None:
            self._joining.close()
        super().close()
        if self._whereabouts is not None:
            self._mesh.end()

    def _post(self, array: Array, to: int, tag: int) -> None:
        try:
            super()._post(array, to, tag)
        except RankMissing:
            self._note_missing()
            raise

    def _fetch(self, source: int | None, tags: range, operation: str, like: Array | None = None) -> Message:
        try:
            return super()._fetch(source, tags, operation, like)
        except RankMissing:
            self._note_missing()
            raise

    def _note_missing(self) -> None:
        if self._mesh.views is not None:
            self._mesh.views.missed = True
