"""The communicator on NCCL.

Ranks have connections of TCP, too. Messages, small arrays and everything about failures go that way; large arrays, and
those that are on a GPU, go from GPU to GPU. Before NCCL is called all ranks have met over TCP: NCCL waits for ever for
a rank that does not come, so nobody calls it before all are there, and each operation is ended when a rank fails or
the time is over.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Available, TrainingError, Unavailable, UnsupportedError, local_rank
from cntk_core.api.parallel import Mesh, MeshCommunicator, sum_by_rank
from cntk_parallel_nccl import libraries
from cntk_parallel_nccl.heads import Head
from cntk_parallel_nccl.link import Link, Place
from cntk_parallel_nccl.meeting import meet
from cntk_parallel_nccl.staging import Staging

Array = NDArray[Any]

DIRECT_BYTES = 1 << 14
"""A rank sends an array of a GPU to all others if that is up to so many bytes; larger ones are summed in stripes."""


class NcclCommunicator(MeshCommunicator):
    """Ranks with a GPU each. Sums are made in the order of the ranks, on the GPUs.

    Args:
        mesh: the connections of TCP; by default those of the ranks that were launched.
        members: ranks of the mesh that belong to this communicator; by default all.
        channel: number that tells its messages from those of other communicators.
        device: number of this rank's GPU; by default that of its place among the ranks of its machine.

    Attributes:
        small_bytes: arrays of the processor up to this size go over TCP.

    Raises:
        TrainingError: there are more ranks than GPUs on a machine.
    """

    requires_api = "1.0"
    takes_device_arrays = True
    small_bytes: ClassVar[int] = 1 << 16

    def __init__(
        self,
        mesh: Mesh | None = None,
        members: Sequence[int] | None = None,
        channel: int = 0,
        device: int | None = None,
    ) -> None:
        super().__init__(mesh if mesh is not None else Mesh(meet(os.environ)), members, channel)
        self._cupy, self._nccl = libraries.load_cupy(), libraries.load_nccl()
        self._link: Link | None = None
        self._staging: Staging | None = None
        self._parts: list[NcclCommunicator] = []
        try:
            self._number = self._find_device() if device is None else device
        except TrainingError as error:
            self._mesh.fail(error.message)  # nobody else can: this is not a communicator yet
            raise

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Whether CuPy, NCCL and a GPU are here."""
        return libraries.availability()

    def tolerate_losses(self) -> None:
        """NCCL's connections of all ranks end with one of them.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "ranks on NCCL cannot go on without a rank",
            hint="Leave --elastic (elastic=true) away, or communicator=nccl.",
        )

    # -- all ranks together -------------------------------------------------------------------------------

    def allreduce(self, array: Any) -> None:
        """Sum in place: small arrays over TCP, all others on the GPUs."""
        if self.size == 1:
            return
        operation = f"a sum of {array.size} numbers"
        if _is_on_device(array):
            values = self._own(array).ravel()
            self._agree(f"a sum of {array.size} {array.dtype} on GPUs", operation)
            self._on_device(lambda link: self._add(link, values), operation)
        elif array.nbytes <= self.small_bytes:
            super().allreduce(array)
        else:
            self._agree(f"a sum of {array.size} {array.dtype}", operation)
            self._through(array, lambda link, place, values: self._add(link, values), operation)

    def broadcast(self, array: Any, root: int = 0) -> None:
        """Send the array of a rank to all others, small ones over TCP."""
        if self.size == 1:
            return
        operation = f"a broadcast from rank {root}"
        if not _is_on_device(array) and array.nbytes <= self.small_bytes:
            super().broadcast(array, root)
            return
        self.bytes_sent += array.nbytes if self.rank == root else 0  # NCCL hands it on from rank to rank
        if _is_on_device(array):
            place = _place_of(self._own(array))
            self._agree(f"{operation} of {array.size} {array.dtype} on GPUs", operation)
            self._on_device(lambda link: link.broadcast(place, root), operation)
        else:
            self._agree(f"{operation} of {array.size} {array.dtype}", operation)
            self._through(array, lambda link, place, values: link.broadcast(place, root), operation)

    def allgather(self, array: Any) -> list[Any]:
        """Send the array to all others, small ones over TCP."""
        return self._swap([array] * self.size, "a gathering of arrays")

    def alltoall(self, arrays: Sequence[Any]) -> list[Any]:
        """Send each array to its rank, small ones over TCP."""
        if len(arrays) != self.size:
            raise ValueError(f"alltoall needs {self.size} arrays, not {len(arrays)}")
        return self._swap(arrays, "an exchange of arrays")

    def _part(self, members: Sequence[int], channel: int) -> Self:
        part = type(self)(self._mesh, members, channel, self._number)
        self._parts.append(part)
        return part

    # -- all else -----------------------------------------------------------------------------------------

    def abort(self, reason: str) -> None:
        """Tell all ranks that this one has failed, and give up what is under way here."""
        super().abort(reason)
        self._give_up()

    def _give_up(self) -> None:
        if self._link is not None:
            self._link.abort()
        for part in self._parts:
            part._give_up()

    def close(self) -> None:
        """Let go of the GPUs' connections, then of the others."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        for part in self._parts:
            part.close()
        self._parts.clear()
        if self._link is not None:
            with self._device():
                self._link.close()
            self._link = self._staging = None
        super().close()

    # -- sums ---------------------------------------------------------------------------------------------

    def _add(self, link: Link, values: Any) -> None:
        """Put on the stream what sums an array with one axis, in place, in the order of the ranks."""
        if values.nbytes * (self.size - 1) <= DIRECT_BYTES:
            copies = self._copies(values)
            self._exchange_on(link, [values] * self.size, copies)
            values[...] = sum_by_rank(copies)
            return
        cuts = [values.size * rank // self.size for rank in range(self.size + 1)]
        stripes = [values[begin:end] for begin, end in pairwise(cuts)]
        mine = stripes[self.rank]
        copies = self._copies(mine)
        self._exchange_on(link, stripes, copies)
        mine[...] = sum_by_rank(copies)
        self._exchange_on(link, [mine] * self.size, stripes)

    def _copies(self, mine: Any) -> list[Any]:
        """Room for what all ranks have in the place of an array; its own where this rank is."""
        return [mine if rank == self.rank else self._cupy.empty(mine.size, mine.dtype) for rank in range(self.size)]

    def _exchange_on(self, link: Link, sends: Sequence[Any], receives: Sequence[Any]) -> None:
        """Put on the stream what sends an array of the GPU to each other rank, and receives one from each."""
        others = self._others()
        self.bytes_sent += sum(sends[to].nbytes for to in others)
        link.exchange(
            [(to, _place_of(sends[to])) for to in others], [(source, _place_of(receives[source])) for source in others]
        )

    # -- exchanges ----------------------------------------------------------------------------------------

    def _swap(self, arrays: Sequence[Any], operation: str) -> list[Any]:
        """Give each rank its array; return those for this one, by rank."""
        on_device = any(_is_on_device(array) for array in arrays)
        owned = [self._own(array) for array in arrays] if on_device else list(arrays)
        along = [not array.nbytes or (not on_device and array.nbytes <= self.small_bytes) for array in owned]
        own = owned[self.rank].copy() if not on_device else self._copy(owned[self.rank])
        if self.size == 1:
            return [own]
        some_large = not all(along[to] for to in self._others())
        heads = [
            Head.of(one, comes_along=comes, some_large=some_large) for one, comes in zip(owned, along, strict=True)
        ]
        found = [Head.unpack(one) for one in self._exchange([head.packed() for head in heads], operation)]
        found[self.rank] = heads[self.rank]
        received = self._small(found, on_device)
        if any(head.some_large for head in found):
            sends = {to: owned[to] for to in self._others() if heads[to].bytes is None}
            awaited = {source: found[source] for source in self._others() if found[source].bytes is None}
            self.bytes_sent += sum(array.nbytes for array in sends.values())
            swap = self._swap_on_device if on_device else self._swap_through
            received.update(swap(sends, awaited, operation))
        received[self.rank] = own
        return [received[rank] for rank in range(self.size)]

    def _small(self, heads: Sequence[Head], on_device: bool) -> dict[int, Any]:
        """The arrays that came with what the ranks said."""
        found = {source: heads[source].array() for source in self._others() if heads[source].bytes is not None}
        if not on_device:
            return dict(found)
        with self._device():
            return {source: self._cupy.asarray(array) for source, array in found.items()}

    def _swap_on_device(self, sends: dict[int, Any], awaited: dict[int, Head], operation: str) -> dict[int, Any]:
        with self._device():
            received = {source: self._cupy.empty(head.shape, head.dtype) for source, head in awaited.items()}
        outgoing = [(to, _place_of(array)) for to, array in sends.items()]
        incoming = [(source, _place_of(array)) for source, array in received.items()]
        self._on_device(lambda link: link.exchange(outgoing, incoming), operation)
        return received

    def _swap_through(self, sends: dict[int, Any], awaited: dict[int, Head], operation: str) -> dict[int, Any]:
        distinct = {id(array): array for array in sends.values()}
        sizes = [*(array.nbytes for array in distinct.values()), *(head.size for head in awaited.values())]
        _, staging = self._connected()
        with self._device():
            places = staging.make_room(sizes)
        there = dict(zip(distinct, places, strict=False))
        rooms = dict(zip(awaited, places[len(distinct) :], strict=True))

        def work(link: Link) -> None:
            for key, place in there.items():
                staging.up(place, distinct[key])
            link.exchange([(to, there[id(array)]) for to, array in sends.items()], list(rooms.items()))
            for place in rooms.values():
                staging.down(place)

        self._on_device(work, operation)
        return {source: staging.array(rooms[source], head.dtype, head.shape).copy() for source, head in awaited.items()}

    def _through(self, array: Array, work: Callable[[Link, Place, Any], None], operation: str) -> None:
        """Do something, in place, with a copy of an array on the GPU."""
        _, staging = self._connected()
        with self._device():
            (place,) = staging.make_room([array.nbytes])

        def there_and_back(link: Link) -> None:
            staging.up(place, array)
            work(link, place, staging.on_device(place, array.dtype))
            staging.down(place)

        self._on_device(there_and_back, operation)
        array[...] = staging.array(place, array.dtype, array.shape)

    # -- the GPU ------------------------------------------------------------------------------------------

    @contextmanager
    def _device(self) -> Iterator[None]:
        """Within, CuPy works on this rank's GPU.

        Raises:
            TrainingError: it has no memory left.
        """
        with self._cupy.cuda.Device(self._number):
            try:
                yield
            except self._cupy.cuda.memory.OutOfMemoryError as error:
                raise TrainingError(
                    f"rank {self.rank}: GPU {self._number} has no memory left for what ranks exchange: {error}",
                    hint="A smaller minibatchSize leaves more; or another communicator, such as communicator=mpi.",
                ) from None

    def _copy(self, array: Any) -> Any:
        with self._device():
            return array.copy()

    def _own(self, array: Any) -> Any:
        """Return an array of a GPU as one of CuPy, of the same memory.

        Raises:
            TrainingError: it is on another GPU than this rank's.
            ValueError: it is not contiguous.
        """
        with self._device():
            found = self._cupy.asarray(array)
        if not found.flags.c_contiguous:
            raise ValueError("ranks exchange contiguous arrays")
        if found.device.id != self._number:
            raise TrainingError(
                f"rank {self.rank} has GPU {self._number}, but the engine computes on GPU {found.device.id}",
                hint="deviceId=auto gives each rank its own GPU.",
            )
        return found

    def _on_device(self, work: Callable[[Link], None], operation: str) -> None:
        """Do something on the link, after what the engine has put on its stream, and wait for it."""
        link, _ = self._connected()
        with self._device():
            link.stream.wait_event(self._cupy.cuda.get_current_stream().record())
            link.do(lambda: work(link), self.watch, operation)

    def _connected(self) -> tuple[Link, Staging]:
        """Connect the GPUs, the first time; all ranks do it together."""
        if self._link is None or self._staging is None:
            with self._device():
                identity = self._introduce()
                self._link = Link(
                    self._cupy,
                    self._nccl,
                    identity,
                    self.rank,
                    self.size,
                    failure=lambda: self._mesh.failure,
                    watch=self.watch,
                )
                self._staging = Staging(self._cupy, self._link.stream)
        return self._link, self._staging

    def _introduce(self) -> tuple[int, ...]:
        """Tell all ranks which GPU this one has; return the id that NCCL has given to the first one.

        Raises:
            TrainingError: two ranks have the same.
        """
        runtime = self._cupy.cuda.runtime
        identity = list(self._nccl.get_unique_id()) if self.rank == 0 else []
        said = [socket.gethostname(), runtime.deviceGetPCIBusId(self._number), identity]
        packed = np.frombuffer(json.dumps(said).encode(), np.uint8)
        found = [json.loads(bytes(one)) for one in self._exchange([packed] * self.size, "connecting the GPUs")]
        owners: dict[tuple[str, str], int] = {}
        for rank, (host, gpu, _) in enumerate(found):
            first = owners.setdefault((host, gpu), rank)
            if first != rank:
                raise TrainingError(
                    f"the ranks {first} and {rank} have the same GPU, {gpu} of {host}; NCCL wants one for each",
                    hint="Start at most as many ranks on a machine as it has GPUs.",
                )
        return tuple(found[0][2])

    def _agree(self, what: str, operation: str) -> None:
        """Wait until all ranks have come to the same operation.

        Raises:
            TrainingError: one has come to another.
        """
        packed = np.frombuffer(what.encode(), np.uint8)
        for rank, one in enumerate(self._exchange([packed] * self.size, operation)):
            if bytes(one) != what.encode():
                theirs = bytes(one).decode(errors="replace")
                raise TrainingError(f"rank {self.rank} does {what} where rank {rank} does {theirs}")

    def _find_device(self) -> int:
        """Return the number of this rank's GPU: its place among the ranks of its machine.

        Raises:
            TrainingError: there are not so many.
        """
        count = int(self._cupy.cuda.runtime.getDeviceCount())
        host = socket.gethostname()
        packed = np.frombuffer(host.encode(), np.uint8)
        hosts = [bytes(one).decode() for one in self._exchange([packed] * self.size, "a meeting of all ranks")]
        place = local_rank()
        place = hosts[: self.rank].count(host) if place is None else place
        if count == 1:
            return 0  # its own one, where the launcher shows each rank one; else it is noticed when they connect
        if place >= count:
            raise TrainingError(
                f"rank {self.rank} is number {place + 1} on {host}, which has {count} GPUs",
                hint="Start at most as many ranks on a machine as it has GPUs.",
            )
        return place


class NcclAllReduceCommunicator(NcclCommunicator):
    """As :class:`NcclCommunicator`, with sums that NCCL makes, in an order of its own.

    That is faster between several machines and inside of switches that add. Results differ in the last bits from those
    of every other communicator and from one number of ranks to another.
    """

    requires_api = "1.0"

    def _add(self, link: Link, values: Any) -> None:
        if not link.sums(values.dtype):
            super()._add(link, values)
            return
        self.bytes_sent += 2 * values.nbytes * (self.size - 1) // self.size
        link.sum(_place_of(values), values.dtype)


def _is_on_device(array: Any) -> bool:
    return hasattr(array, "__cuda_array_interface__")


def _place_of(array: Any) -> Place:
    return Place(array.data.ptr, array.nbytes)
