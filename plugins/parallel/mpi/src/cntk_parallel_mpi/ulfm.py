"""Going on without ranks that are lost, with what Open MPI calls ULFM (user-level failure mitigation).

The library notices that a process has ended, and lets the others agree on who is left. A process that hangs or is
stopped it does not notice: that one is ended here, if it is on this machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import attrs
import numpy as np

from cntk_core.api import RankGone, RankMissing, UnsupportedError
from cntk_core.api.parallel import Watch, Whereabouts

if TYPE_CHECKING:
    from mpi4py import MPI

    from cntk_parallel_mpi.communicator import MPICommunicator

P = ParamSpec("P")
T = TypeVar("T")

ENABLED = "OMPI_MCA_mpi_ft_enable"
"""Variable with which the launcher of Open MPI says that it was started ``--with-ft ulfm``."""

HINT = (
    "Open MPI from version 5 on can: 'cntk train recipe.cntk -n 4 --elastic' starts it as needed, by hand it is "
    "'mpiexec --with-ft ulfm ...'.\nRanks that cntk-parallel-sockets connects can without MPI."
)

ROLL = 1
"""Tag of the messages with which ranks say that they are there."""

PATIENCE = 5.0
"""Seconds in which others must answer a rank that has waited for them for as long as it may."""

NOTICE = 30.0
"""Seconds in which the library must have noticed that a process has ended, whoever ended it."""

_PAUSE = 0.001


def check_library(mpi: Any) -> None:
    """Raise what is missing, if MPI cannot go on without a rank.

    Raises:
        UnsupportedError: it is another library, an older one, or was started otherwise.
    """
    title = mpi.Get_library_version().strip().splitlines()[0].rstrip(" \0")
    name, version = mpi.get_vendor()
    if name != "Open MPI" or version < (5, 0, 0):
        raise UnsupportedError(f"{title} cannot go on without a rank (--elastic)", hint=HINT)
    if os.environ.get(ENABLED, "").lower() not in ("1", "t", "true", "y", "yes", "enabled"):
        raise UnsupportedError(
            f"{name} was not started so that it can go on without a rank (--elastic): --with-ft ulfm is missing",
            hint=HINT,
        )


@attrs.frozen
class Those:
    """The ranks that are left.

    Attributes:
        comm, letters, roll: MPI communicators of them.
        whereabouts: of their processes.
    """

    comm: MPI.Comm
    letters: MPI.Comm
    roll: MPI.Comm
    whereabouts: Whereabouts


class Losses:
    """What a communicator, and those that are made of it, know of ranks that are lost.

    Args:
        mpi: the module of mpi4py.
        those: the ranks. Their communicators but for ``roll`` are revoked when one is lost, so that none waits any
            more.
        watch: how long ranks wait.

    Attributes:
        missed: this rank has waited in vain for others.
        stranded: requests that may still be under way when the communicator is given up, with their buffers.
    """

    def __init__(self, mpi: Any, those: Those, watch: Watch) -> None:
        self._mpi, self._watch = mpi, watch
        self._comm, self._roll, self._whereabouts = those.comm, those.roll, those.whereabouts
        self._rank = those.comm.Get_rank()
        self._comms = [those.comm, those.letters]
        self._broken = False
        self.missed = False
        self.stranded: list[object] = []

    def watch_over(self, *comms: MPI.Comm) -> None:
        """Revoke other communicators, too, when a rank is lost."""
        self._comms += comms

    def check(self) -> None:
        """Raise if a rank is known to be lost.

        Raises:
            RankGone: one is.
        """
        if self._broken or self._comm.Is_revoked():
            raise self.gone()

    def gone(self) -> RankGone:
        """Return the error that names who is lost, as far as this rank knows."""
        failed = self._comm.Get_failed()
        ranks = sorted(failed.Translate_ranks(None, self._comm.Get_group())) if failed.Get_size() else []
        named = f"rank {', '.join(map(str, ranks))}" if ranks else "another rank"
        return RankGone(f"{named} is gone")

    def regroup(self, done: bool) -> Those | None:
        """See ``Communicator.regroup``."""
        if not done:
            self._revoke()
        self._call_roll()
        if self._agree(self._roll, done):
            return None
        self._revoke()
        base = self._comm
        while True:
            following = base.Shrink()
            copies: list[MPI.Comm] = []
            try:
                copies += [following.Dup(), following.Dup()]
            except self._mpi.Exception:
                following.Revoke()  # others may wait in the same operation
            if self._agree(following, len(copies) == 2):
                return Those(following, copies[0], copies[1], self._still(following))
            base = following

    def _still(self, following: MPI.Comm) -> Whereabouts:
        group = following.Get_group()
        before = group.Translate_ranks(None, self._comm.Get_group())
        return Whereabouts(tuple(self._whereabouts.texts[rank] for rank in before))

    def _agree(self, comm: MPI.Comm, fine: bool) -> bool:
        """Return, on all ranks that are left alike, whether all ranks are there and say that it is fine."""
        try:
            return bool(comm.Agree(int(fine)))
        except self._mpi.Exception as error:
            if not is_loss(self._mpi, error):
                raise
            return False

    def _revoke(self) -> None:
        self._broken = True
        for comm in self._comms:
            comm.Revoke()

    def _call_roll(self) -> None:
        """Wait until each other rank is here, or is known to be lost; end those that do not come.

        Raises:
            RankMissing: one does not come, and nobody can end it.
        """
        nothing = np.empty(0, np.uint8)
        awaited: dict[int, MPI.Request] = {}
        for rank in range(self._roll.Get_size()):
            if rank != self._rank:
                self.stranded.append(self._unless_lost(partial(self._roll.Isend, nothing, rank, ROLL)))
                request = self._unless_lost(partial(self._roll.Irecv, nothing, rank, ROLL))
                self.stranded.append(request)
                if request is not None:
                    awaited[rank] = request
        begun, limit = time.monotonic(), PATIENCE if self.missed else self._watch.deadline + PATIENCE
        are_ended = False
        while awaited := {
            rank: request for rank, request in awaited.items() if self._unless_lost(request.Test) is False
        }:
            waited = time.monotonic() - begun
            if waited > limit and not are_ended:
                self._end(sorted(awaited))
                are_ended = True
            elif (
                waited > limit + self._watch.deadline + NOTICE
            ):  # ranks on their machines have had the time to end them
                named = ", ".join(map(str, sorted(awaited)))
                raise RankMissing(
                    f"rank {named} does not answer, and MPI does not notice that it is lost",
                    hint="Either it has ended without a signal, or it hangs and no other rank is on its machine.",
                )
            time.sleep(_PAUSE)

    def _end(self, ranks: list[int]) -> None:
        named = f"rank {', '.join(map(str, ranks))}"
        self._watch.say(f"Warning: {named} does not answer: it counts as lost, and is ended if it is on this machine")
        for rank in ranks:
            self._whereabouts.end(rank)

    def _unless_lost(self, step: Callable[[], T]) -> T | None:
        """Return what a step gives, None if it fails because a rank is lost."""
        try:
            return step()
        except self._mpi.Exception as error:
            if not is_loss(self._mpi, error):
                raise
            return None


def is_loss(mpi: Any, error: Any) -> bool:
    """Whether an error of MPI says that a rank is lost, or that another one has noticed that."""
    return error.Get_error_class() in (mpi.ERR_PROC_FAILED, mpi.ERR_PROC_FAILED_PENDING, mpi.ERR_REVOKED)


def tells_losses(
    method: Callable[Concatenate[MPICommunicator, P], T],
) -> Callable[Concatenate[MPICommunicator, P], T]:
    """Let an operation raise ``RankGone`` when MPI says that a rank is lost, where losses are tolerated."""

    @wraps(method)
    def tell(self: MPICommunicator, *args: P.args, **kwargs: P.kwargs) -> T:
        losses = self.losses
        if losses is None:
            return method(self, *args, **kwargs)
        try:
            losses.check()
            return method(self, *args, **kwargs)
        except losses._mpi.Exception as error:
            if not is_loss(losses._mpi, error):
                raise
            raise losses.gone() from None
        except RankMissing:
            losses.missed = True
            raise

    return cast(Callable[Concatenate["MPICommunicator", P], T], tell)
