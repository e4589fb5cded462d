"""The communicator on sockets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from numpy.typing import NDArray

from cntk_core.api import RankMissing
from cntk_core.api.parallel import Launcher, Mesh, MeshCommunicator, Message, Whereabouts

Array = NDArray[Any]

PATIENCE = 5.0
"""Seconds in which others must answer a rank that has waited for them for as long as it may."""

LAST_WORK = 5.0
"""Seconds that work in the background has to notice that a rank is lost."""


class SocketCommunicator(MeshCommunicator):
    """Ranks that are processes, with a TCP connection between each two."""

    requires_api = "1.0"

    def __init__(self, mesh: Mesh | None = None, members: Sequence[int] | None = None, channel: int = 0) -> None:
        super().__init__(mesh, members, channel)
        self.is_elastic = self._mesh.views is not None
        self._whereabouts: Whereabouts | None = None

    @classmethod
    def launcher(cls, ranks: int, *, elastic: bool = False) -> Launcher:
        """A small program that starts processes and waits for them."""
        own = (str(ranks), "--elastic") if elastic else (str(ranks),)
        command = (sys.executable, "-P", "-m", "cntk_parallel_sockets.launching", *own)
        return Launcher(command, {}, "the launcher of cntk-parallel-sockets")

    # -- going on without a rank --------------------------------------------------------------------------

    def tolerate_losses(self) -> None:
        """A rank is lost when its connections end, when it says that it fails, and when it does not answer."""
        self._whereabouts = Whereabouts.gather(self)
        self._mesh.tolerate_losses()
        self.is_elastic = True

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
        following.watch, following._whereabouts = self.watch, self._whereabouts
        return following

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
