"""The communicator on MPI.

Collective operations are made of messages, for three reasons: sums are added in the order of the ranks whatever the
library would do, a rank that waits knows for whom, and nothing blocks inside the library, so deadlines hold.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Available, Communicator, Unavailable
from cntk_core.api.parallel import BackgroundWorker, Launcher, Message, Pending, Whereabouts, sum_by_rank
from cntk_parallel_mpi.frames import pack, unpack
from cntk_parallel_mpi.ulfm import Losses, Those, check_library, tells_losses
from cntk_parallel_mpi.waiting import wait

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")
Array = NDArray[Any]

DIRECT_BYTES = 8192
"""Up to so many bytes a rank sends a whole array to all others; larger ones are summed stripe by stripe."""

TAGS = 32768
"""Tags that every MPI library has."""

LAST_WORK = 5.0
"""Seconds that work in the background has to notice that a rank is lost."""

_FORMER: list[Communicator] = []
"""Communicators of before a loss, with what is under way there: MPI must not write into memory that was given back."""


class MPICommunicator(Communicator):
    """The ranks of an MPI program, or some of them.

    Args:
        comm: an MPI communicator that belongs to this object alone; by default a copy of that of all processes.
        letters: another one of the same ranks; by default a copy.

    Attributes:
        losses: what is known of lost ranks, where they are tolerated; otherwise None.
    """

    requires_api = "1.0"
    priority = 20

    def __init__(self, comm: MPI.Comm | None = None, letters: MPI.Comm | None = None) -> None:
        super().__init__()
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm if comm is not None else MPI.COMM_WORLD.Dup()
        self._letters = letters if letters is not None else self._comm.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        self._count = 0
        self._sending: list[tuple[MPI.Request, Array]] = []
        self._own_mail: list[Message] = []
        self._under_way: list[MPI.Request] = []
        self._worker: BackgroundWorker | None = None
        self.losses: Losses | None = None
        self._is_rest = False

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Whether mpi4py is installed; the library itself is not loaded."""
        if find_spec("mpi4py") is None:
            return Unavailable("mpi4py is not installed", 'pip install "cntk-parallel-mpi[openmpi]"')
        return Available("mpi4py is installed")

    @classmethod
    def launcher(cls, ranks: int, *, elastic: bool = False) -> Launcher:
        """The ``mpiexec`` that belongs to the library which mpi4py loads."""
        from cntk_parallel_mpi.launching import make_launcher

        return make_launcher(ranks, elastic=elastic)

    # -- all ranks together -------------------------------------------------------------------------------

    def allreduce(self, array: Array) -> None:
        """Sum in place: small arrays at every rank, of large ones a stripe at each."""
        self.allreduce_all([array])

    @tells_losses
    def allreduce_all(self, arrays: Sequence[Array]) -> None:
        """Sum all of them in place, with the messages of all on their way together."""
        if self.size == 1:
            return
        flats = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
        sums = [_Direct(flat, self) if self._is_small(flat) else _Striped(flat, self) for flat in flats]
        operation = f"the sum of {sum(flat.size for flat in flats)} numbers"
        others = self._others()
        for _ in range(max(one.rounds for one in sums)):
            receives: list[tuple[int, MPI.Request]] = []
            sends: list[MPI.Request] = []
            for one in sums:
                tag = self._next_tag()
                receives += [(source, self._irecv(room, source, tag)) for source, room in one.rooms(others)]
                sends += [self._isend(part, to, tag) for to, part in one.parts(others)]
            self._finish(receives, sends, operation)
            for one in sums:
                one.add()
        for array, flat in zip(arrays, flats, strict=True):
            if not np.shares_memory(flat, array):
                array[...] = flat.reshape(array.shape)

    def _is_small(self, flat: Array) -> bool:
        return flat.nbytes * (self.size - 1) <= DIRECT_BYTES

    def allgather(self, array: Array) -> list[Array]:
        """Send the array to all others."""
        packed = pack(array)
        return self._exchange([packed] * self.size, array.copy(), "a gathering of arrays")

    def alltoall(self, arrays: Sequence[Array]) -> list[Array]:
        """Send each array to its rank."""
        if len(arrays) != self.size:
            raise ValueError(f"alltoall needs {self.size} arrays, not {len(arrays)}")
        own = arrays[self.rank].copy()
        return self._exchange([pack(array) for array in arrays], own, "an exchange of arrays")

    @tells_losses
    def _exchange(self, packed: Sequence[Array], own: Array, operation: str) -> list[Array]:
        tag, others = self._next_tag(), self._others()
        sends = [self._isend(packed[to], to, tag) for to in others]
        found: dict[int, Array] = {}
        receives: dict[int, MPI.Request] = {}

        def look() -> bool:
            for source in others:
                if source not in receives:
                    message = self._comm.Improbe(source, tag, status := self._mpi.Status())
                    if message is not None:
                        found[source] = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
                        receives[source] = self._note(message.Irecv(found[source]))
            return len(receives) == len(others)

        self._wait(look, operation, lambda: [source for source in others if source not in receives])
        self._finish(list(receives.items()), sends, operation)
        return [own if rank == self.rank else unpack(found[rank]) for rank in range(self.size)]

    @tells_losses
    def broadcast(self, array: Array, root: int = 0) -> None:
        """Send the array down a binomial tree."""
        flat = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        tag, place = self._next_tag(), (self.rank - root) % self.size
        operation = f"a broadcast from rank {root}"
        reach = 1
        while reach < self.size:
            if place < reach and place + reach < self.size:
                self._finish([], [self._isend(flat, (place + reach + root) % self.size, tag)], operation)
            elif reach <= place < 2 * reach:
                source = (place - reach + root) % self.size
                self._finish([(source, self._irecv(flat, source, tag))], [], operation)
            reach *= 2
        if flat is not array:
            array[...] = flat

    @tells_losses
    def barrier(self) -> None:
        """Hear of every other rank."""
        tag, nothing = self._next_tag(), np.empty(0, np.uint8)
        others = self._others()
        sends = [self._isend(nothing, to, tag) for to in others]
        receives = [(source, self._irecv(np.empty(0, np.uint8), source, tag)) for source in others]
        self._finish(receives, sends, "a meeting of all ranks")

    @tells_losses
    def split(self, color: int) -> MPICommunicator:
        """Return the communicator of the ranks with this color."""
        self.barrier()  # with a deadline; what the library does then cannot wait for long
        part = MPICommunicator(self._comm.Split(color, self.rank))
        part.watch = self.watch
        if self.losses is not None:
            part.losses, part.is_elastic = self.losses, True
            self.losses.watch_over(part._comm, part._letters)
        return part

    def background(self, work: Callable[[Communicator], T]) -> Pending[T]:
        """Give the work to a thread, if the library lets several threads use it; otherwise do it at once."""
        if self._mpi.Query_thread() < self._mpi.THREAD_MULTIPLE:
            try:
                return Pending(work(self))
            except Exception as error:
                return Pending(error=error)
        if self._worker is None:
            self._worker = BackgroundWorker(self, self.split(0))
        return self._worker.begin(work)

    # -- one rank to another ------------------------------------------------------------------------------

    @tells_losses
    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Send a copy of the array."""
        self._sending = [(request, kept) for request, kept in self._sending if not request.Test()]
        if to == self.rank:
            self._own_mail.append(Message(self.rank, tag, array.copy()))
            return
        packed = pack(array)
        self.bytes_sent += array.nbytes
        self._sending.append((self._letters.Isend(packed, to, tag), packed))

    @tells_losses
    def receive(self, source: int | None = None, tag: int | None = None) -> Message:
        """Wait for a message."""
        found: list[Message] = []

        def look() -> bool:
            message = self.poll(source, tag)
            if message is not None:
                found.append(message)
            return bool(found)

        named = self._others() if source is None else [source]
        about = "" if tag is None else f" about {tag}"
        self._wait(look, f"receiving a message{about}", lambda: named)
        return found[0]

    @tells_losses
    def poll(self, source: int | None = None, tag: int | None = None) -> Message | None:
        """Return a message if there is one."""
        for index, message in enumerate(self._own_mail):
            if source in (None, message.source) and tag in (None, message.tag):
                return self._own_mail.pop(index)
        if source == self.rank:
            return None
        any_source, any_tag = self._mpi.ANY_SOURCE, self._mpi.ANY_TAG
        status = self._mpi.Status()
        letter = self._letters.Improbe(
            any_source if source is None else source, any_tag if tag is None else tag, status
        )
        if letter is None:
            return None
        packed = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
        sender = status.Get_source()
        self._finish([(sender, self._note(letter.Irecv(packed)))], [], "receiving a message")
        return Message(sender, status.Get_tag(), unpack(packed))

    # -- all else -----------------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds of the system's clock."""
        return time.monotonic()

    def abort(self, reason: str) -> None:
        """End all processes of the program, with the exit code of the error that is being handled, or 1."""
        print(f"rank {self.rank} ends all ranks: {reason}", file=sys.stderr, flush=True)
        self._mpi.COMM_WORLD.Abort(getattr(sys.exc_info()[1], "exit_code", 1))

    # -- going on without a rank --------------------------------------------------------------------------

    def tolerate_losses(self) -> None:
        """See :class:`Communicator`; the library must be Open MPI, started with ULFM."""
        check_library(self._mpi)
        those = Those(self._comm, self._letters, self._comm.Dup(), Whereabouts.gather(self))
        self.losses, self.is_elastic = Losses(self._mpi, those, self.watch), True

    def regroup(self, done: bool) -> MPICommunicator | None:
        """Call the roll, and let MPI make communicators of those that are left."""
        assert self.losses is not None, "losses are not tolerated"
        those = self.losses.regroup(done)
        if those is None:
            return None
        if self._worker is not None:
            self._worker.close(LAST_WORK)
        _FORMER.append(self)
        following = MPICommunicator(those.comm, those.letters)
        following.watch, following.is_elastic = self.watch, True
        following.losses = Losses(self._mpi, those, self.watch)
        following._is_rest = True
        return following

    def leave(self, reason: str) -> None:
        """Let this process end by a signal: MPI does not notice that a process has ended in any other way."""
        print(f"rank {self.rank} leaves: {reason}", file=sys.stderr, flush=True)
        atexit.register(_end_by_signal)

    @tells_losses
    def close(self) -> None:
        """Wait until the last messages are on their way, and end the thread in the background.

        After a loss the process does not say goodbye to the library, which may wait for those that are lost.
        """
        if self._is_rest:
            atexit.register(_end_at_once)
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._finish([], [request for request, _ in self._sending], "sending the last messages")
        self._sending.clear()

    # -- parts of operations ------------------------------------------------------------------------------

    def _others(self) -> list[int]:
        """The other ranks, beginning with the next one, so that not all begin with the same."""
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    def _next_tag(self) -> int:
        """Operations follow each other in the same order on all ranks, so a number tells them apart."""
        self._count += 1
        return self._count % TAGS

    def _isend(self, array: Array, to: int, tag: int) -> MPI.Request:
        self.bytes_sent += array.nbytes
        return self._note(self._comm.Isend(array, to, tag))

    def _irecv(self, room: Array, source: int, tag: int) -> MPI.Request:
        return self._note(self._comm.Irecv(room, source, tag))

    def _note(self, request: MPI.Request) -> MPI.Request:
        """Keep a request, and with it its buffer, if the operation may end before it does because a rank is lost."""
        if self.losses is not None:
            self._under_way.append(request)
        return request

    def _wait(self, look: Callable[[], bool], operation: str, missing: Callable[[], list[int]]) -> None:
        losses = self.losses
        if losses is None:
            wait(look, self.watch, self.rank, operation, missing)
            return

        def look_out() -> bool:
            losses.check()
            return look()

        wait(look_out, self.watch, self.rank, operation, missing)

    def _finish(
        self, receives: Sequence[tuple[int, MPI.Request]], sends: Sequence[MPI.Request], operation: str
    ) -> None:
        """Wait until everything has come, and everything that was sent may be changed."""
        missing, leaving = list(receives), list(sends)

        def look() -> bool:
            missing[:] = [(source, request) for source, request in missing if not request.Test()]
            leaving[:] = [request for request in leaving if not request.Test()]
            return not missing and not leaving

        self._wait(look, operation, lambda: sorted({source for source, _ in missing}))
        self._under_way.clear()


def _end_by_signal() -> None:
    _flush()
    os.kill(os.getpid(), signal.SIGKILL)


def _end_at_once() -> None:
    _flush()
    os._exit(0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


class _Direct:
    """The sum of a small array: in one round every rank gets all arrays and adds them up itself."""

    rounds = 1

    def __init__(self, flat: Array, communicator: MPICommunicator) -> None:
        self._flat, self._rank = flat, communicator.rank
        self._parts = [np.empty_like(flat) for _ in range(communicator.size)]
        self._parts[self._rank] = flat.copy()
        self._is_done = False

    def rooms(self, others: Sequence[int]) -> list[tuple[int, Array]]:
        """Where the arrays of the others go in this round."""
        return [] if self._is_done else [(source, self._parts[source]) for source in others]

    def parts(self, others: Sequence[int]) -> list[tuple[int, Array]]:
        """What the others get in this round."""
        return [] if self._is_done else [(to, self._parts[self._rank]) for to in others]

    def add(self) -> None:
        """Finish the round."""
        if not self._is_done:
            self._flat[...] = sum_by_rank(self._parts)
            self._is_done = True


class _Striped:
    """The sum of a large array: in the first round each rank gets all arrays' stripe that it adds up, in the second
    one everybody gets the sums.
    """

    rounds = 2

    def __init__(self, flat: Array, communicator: MPICommunicator) -> None:
        size = communicator.size
        cuts = [flat.size * rank // size for rank in range(size + 1)]
        self._stripes = [flat[begin:end] for begin, end in pairwise(cuts)]
        self._rank = communicator.rank
        self._mine = self._stripes[self._rank]
        self._copies = [self._mine if rank == self._rank else np.empty_like(self._mine) for rank in range(size)]
        self._has_sum = False

    def rooms(self, others: Sequence[int]) -> list[tuple[int, Array]]:
        """Where what comes in this round goes."""
        return [(source, (self._stripes if self._has_sum else self._copies)[source]) for source in others]

    def parts(self, others: Sequence[int]) -> list[tuple[int, Array]]:
        """What the others get in this round."""
        return [(to, self._mine if self._has_sum else self._stripes[to]) for to in others]

    def add(self) -> None:
        """Finish the round."""
        if not self._has_sum:
            self._mine[...] = sum_by_rank(self._copies)
            self._has_sum = True
