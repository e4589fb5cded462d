"""A communicator on connections of TCP, for plugins whose ranks need one: for everything, or for small things."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.parallel import Communicator, Message, Pending
from cntk_core.errors import RankGone, RankMissing
from cntk_kit_parallel.array_bytes import HEAD_BYTES, pack, unpack
from cntk_kit_parallel.background_worker import BackgroundWorker, sum_by_rank
from cntk_kit_parallel.mesh import Mesh
from cntk_kit_parallel.mesh_bytes import LARGEST, Bytes
from cntk_kit_parallel.rendezvous import rendezvous_here

T = TypeVar("T")
Array = NDArray[Any]

DIRECT_BYTES = 8192
"""Up to so many bytes a rank sends a whole array to all others; larger ones are summed stripe by stripe."""

_LETTERS = 1 << 40
"""Tags of messages from one rank to another; those of collective operations are their numbers."""


TAGS = 256


class MeshCommunicator(Communicator):
    """Ranks that are processes, with a TCP connection between each two.

    Args:
        mesh: the connections; by default those of the ranks that ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and
            ``MASTER_PORT`` name.
        members: ranks of the mesh that belong to this communicator; by default all.
        channel: number that tells its messages from those of other communicators.
    """

    def __init__(self, mesh: Mesh | None = None, members: Sequence[int] | None = None, channel: int = 0) -> None:
        super().__init__()
        self._mesh = mesh if mesh is not None else Mesh(rendezvous_here())
        self._members = list(members) if members is not None else list(range(self._mesh.size))
        self._channel = channel
        self.rank, self.size = self._members.index(self._mesh.rank), len(self._members)
        self._count = 0
        self._worker: BackgroundWorker | None = None

    # -- all ranks together -------------------------------------------------------------------------------

    def allreduce(self, array: Array) -> None:
        """Sum in place: small arrays at every rank, of large ones a stripe at each."""
        if self.size == 1:
            return
        if array.nbytes * (self.size - 1) <= DIRECT_BYTES:
            array[...] = sum_by_rank(self._exchange([array] * self.size, "a sum", [array] * self.size))
            return
        flat = np.ascontiguousarray(array).reshape(-1)
        cuts = [flat.size * rank // self.size for rank in range(self.size + 1)]
        stripes = [flat[begin:end] for begin, end in pairwise(cuts)]
        mine = sum_by_rank(self._exchange(stripes, "a sum", [stripes[self.rank]] * self.size))
        array[...] = np.concatenate(self._exchange([mine] * self.size, "a sum", stripes)).reshape(array.shape)

    def allgather(self, array: Array) -> list[Array]:
        """Send the array to all others."""
        return self._exchange([array] * self.size, "a gathering of arrays")

    def alltoall(self, arrays: Sequence[Array]) -> list[Array]:
        """Send each array to its rank."""
        if len(arrays) != self.size:
            raise ValueError(f"alltoall needs {self.size} arrays, not {len(arrays)}")
        return self._exchange(arrays, "an exchange of arrays")

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Send the array of a rank to all others."""
        self._count += 1
        if self.rank == root:
            for to in self._others():
                self._post(array, to, self._count)
        else:
            array[...] = self._fetch(root, _only(self._count), f"a broadcast from rank {root}", array).array

    def barrier(self) -> None:
        """Hear of every other rank."""
        nothing = [np.empty(0, np.uint8)] * self.size
        self._exchange(nothing, "a meeting of all ranks", nothing)

    def _exchange(self, arrays: Sequence[Array], operation: str, like: Sequence[Array] | None = None) -> list[Array]:
        """Send each rank an array and return what they send; ``like`` says of which shapes and types that is."""
        self._count += 1
        number = self._count
        for to in self._others():
            self._post(arrays[to], to, number)
        found = {self.rank: arrays[self.rank].copy()}
        for source in self._others():
            found[source] = self._fetch(source, _only(number), operation, None if like is None else like[source]).array
        return [found[rank] for rank in range(self.size)]

    def split(self, color: int) -> Self:
        """Return the communicator of the ranks with this color."""
        colors = [int(one[0]) for one in self.allgather(np.array([color]))]
        members = [self._members[rank] for rank, one in enumerate(colors) if one == color]
        name = f"{self._channel}/{self._count}/{color}".encode()
        channel = int.from_bytes(blake2b(name, digest_size=7).digest(), "little")
        part = self._part(members, channel)
        part.watch = self.watch
        return part

    def _part(self, members: Sequence[int], channel: int) -> Self:
        """Make the communicator of some ranks, given as those of the mesh."""
        return type(self)(self._mesh, members, channel)

    def background(self, work: Callable[[Communicator], T]) -> Pending[T]:
        """Give the work to a thread."""
        if self._worker is None:
            self._worker = BackgroundWorker(self, self.split(0))
        return self._worker.begin(work)

    # -- one rank to another ------------------------------------------------------------------------------

    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Send a copy of the array."""
        self._post(array, to, _LETTERS + tag)

    def receive(self, source: int | None = None, tag: int | None = None) -> Message:
        """Wait for a message."""
        return self._fetch(source, _letters(tag), "receiving a message")

    def poll(self, source: int | None = None, tag: int | None = None) -> Message | None:
        """Return a message if there is one."""
        return self._look(source, _letters(tag))

    # -- all else -----------------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds of the system's clock."""
        return time.monotonic()

    def abort(self, reason: str) -> None:
        """Tell all ranks that this one has failed; each ends with the next thing that it wants from another."""
        self._mesh.fail(reason)

    def close(self) -> None:
        """End the thread in the background, and tell the others that this rank needs nothing any more."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._channel == 0:
            self._mesh.end()

    # -- parts of operations ------------------------------------------------------------------------------

    def _others(self) -> list[int]:
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    def _post(self, array: Array, to: int, tag: int) -> None:
        """Send an array; as with :meth:`_fetch`, never longer than the deadline."""
        if to != self.rank:
            self.bytes_sent += array.nbytes
        waiting = _Waiting(self, "sending an array", [to])
        self._mesh.post(self._members[to], self._channel, tag, pack(array), waiting.go_on)

    def _look(self, source: int | None, tags: range, like: Array | None = None) -> Message | None:
        most = LARGEST if like is None else like.nbytes + HEAD_BYTES
        for one in range(self.size) if source is None else (source,):
            found = self._mesh.take_bounded(self._channel, self._members[one], tags, most)
            if found is not None:
                return Message(one, found[0] % _LETTERS, self._read(one, found[1], like))
        return None

    def _read(self, source: int, packed: Bytes, like: Array | None) -> Array:
        """Return the array that a rank has sent, which is of the shape and type of ``like`` if that is known.

        Raises:
            RankGone: it is not, and the rank counts as lost.
        """
        member = self._members[source]
        try:
            array = unpack(packed)
        except ValueError as error:
            raise self._mesh.drop(member, f"rank {member} has sent what is no array: {error}") from None
        if like is not None and (array.dtype, array.shape) != (like.dtype, like.shape):
            raise self._mesh.drop(
                member,
                f"rank {member} has sent an array of {array.dtype} of the shape {array.shape} where one of "
                f"{like.dtype} of the shape {like.shape} belongs",
            )
        return array

    def _fetch(self, source: int | None, tags: range, operation: str, like: Array | None = None) -> Message:
        """Wait for a message; never longer than the deadline, and never in silence."""
        missing = sorted(self._others()) if source is None else [source]
        waiting = _Waiting(self, operation, missing)
        while True:
            seen, over = self._mesh.arrivals, self._mesh.have_ended(self._members[rank] for rank in missing)
            found = self._look(source, tags, like)
            if found is not None:
                return found
            if over and missing:
                named = ", ".join(map(str, missing))
                raise RankGone(f"rank {self.rank} waits in {operation} for rank {named}, which has ended")
            self._mesh.wait(seen, waiting.go_on())


class _Waiting:
    """One operation's waiting for other ranks.

    Args:
        communicator: who waits.
        operation: what it waits in.
        missing: the ranks that it waits for.
    """

    def __init__(self, communicator: Communicator, operation: str, missing: Sequence[int]) -> None:
        self._rank, self._watch = communicator.rank, communicator.watch
        self._operation, self._missing = operation, missing
        self._begun = time.monotonic()
        self._report_at = self._watch.report_after

    def go_on(self) -> float:
        """Return the seconds after which to ask again; say for whom the rank waits when it is time to.

        Raises:
            RankMissing: the deadline has passed.
        """
        waited = time.monotonic() - self._begun
        if waited >= self._watch.deadline:
            raise RankMissing(
                self._text(waited),
                hint="A rank that is only slow needs a longer communicationTimeout in parallelTrain.",
            )
        if waited >= self._report_at:
            self._report_at += max(self._watch.report_after, 1.0)
            self._watch.say(f"Warning: {self._text(waited)}")
        return min(0.5, self._watch.deadline - waited, max(self._report_at - waited, 0.01))

    def _text(self, waited: float) -> str:
        named = ", ".join(map(str, self._missing))
        at = f" ({self._watch.doing})" if self._watch.doing else ""
        return f"rank {self._rank} has waited {waited:.0f} s in {self._operation}{at} for rank {named}"


def _only(number: int) -> range:
    return range(number, number + 1)


def _letters(tag: int | None) -> range:
    return _only(_LETTERS + tag) if tag is not None else range(_LETTERS, _LETTERS + TAGS)
