"""A stand-in for CuPy's NCCL, for ranks that are threads: bytes go from memory to memory when all have come.

As on GPUs, an operation is put on a stream and done later, a send ends when it was received, and nothing ends by itself
when a rank does not come. What NCCL calls undefined is an error here.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from types import SimpleNamespace

import numpy as np

from cntk_testing_gpu.cupy_stand_in import Stream

TYPES = {
    "NCCL_INT8": np.int8,
    "NCCL_UINT8": np.uint8,
    "NCCL_INT32": np.int32,
    "NCCL_UINT32": np.uint32,
    "NCCL_INT64": np.int64,
    "NCCL_UINT64": np.uint64,
    "NCCL_FLOAT16": np.float16,
    "NCCL_FLOAT32": np.float32,
    "NCCL_FLOAT64": np.float64,
}
NUMBERS = {name: number for number, name in enumerate(TYPES)}


class NcclError(RuntimeError):
    pass


class World:
    """What the communicators of one unique id share."""

    worlds: dict[tuple[int, ...], World] = {}
    lock = threading.Lock()

    def __init__(self, size):
        self.size = size
        self.changed = threading.Condition()
        self.ranks = set()
        self.rounds = {}  # of collective operations: number -> rank -> what it brings
        self.letters = {}  # (source, to) -> list of [place, size, was taken]
        self.lost = False

    @classmethod
    def of(cls, identity, size):
        with cls.lock:
            return cls.worlds.setdefault(identity, cls(size))


class NcclCommunicator:
    """One rank's.

    Attributes:
        blocks: calls wait for the other ranks themselves, as NCCL's do while it makes connections.
        alone: nobody finds the others.
        stuck: operations are never done.
        made: how many there are that were neither destroyed nor aborted.
    """

    blocks = False
    alone = False
    stuck = False
    problems: list[str] = []
    made = 0

    def __init__(self, size, identity, rank):
        assert isinstance(identity, tuple)
        assert len(identity) == 128
        self.rank, self.size = rank, size
        self._world = World.of(identity, size)
        self._aborted = self._destroyed = False
        self._count = 0
        type(self).made += 1
        with self._world.changed:
            if rank in self._world.ranks or size != self._world.size:
                raise NcclError("NCCL_ERROR_INVALID_USAGE: invalid usage")
            self._world.ranks.add(rank)
            self._world.changed.notify_all()
            patience = 5.0 if self.alone else 20.0  # a loaded machine may need some
            if not self._world.changed.wait_for(lambda: len(self._world.ranks) == size and not self.alone, patience):
                type(self).made -= 1
                raise NcclError("NCCL_ERROR_SYSTEM_ERROR: not all ranks have come")

    # -- operations ---------------------------------------------------------------------------------------

    def send(self, pointer, count, kind, to, stream):
        self._put(("send", pointer, self._bytes(count, kind), to, stream))

    def recv(self, pointer, count, kind, source, stream):
        self._put(("recv", pointer, self._bytes(count, kind), source, stream))

    def _bytes(self, count, kind):
        assert count > 0
        return count * np.dtype(TYPES[list(TYPES)[kind]]).itemsize

    def _put(self, operation):
        self._usable()
        if operation[3] == self.rank or not 0 <= operation[3] < self.size:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT: invalid argument")
        _group.works.append((self, operation))
        if not _group.depth:
            _flush()

    def broadcast(self, source, to, count, kind, root, stream):
        size = self._bytes(count, kind)

        def work(found):
            if self.rank != root:
                ctypes.memmove(to, found[root][0], size)

        self._together(("broadcast", source, size, root), work, stream)

    def allReduce(self, source, to, count, kind, operation, stream):
        assert operation == 0
        dtype = np.dtype(TYPES[list(TYPES)[kind]])

        def read(pointer):
            return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(pointer), dtype)

        def work(found):  # from the last rank to the first one: not in the order of the ranks
            total = read(found[self.size - 1][0]).copy()
            for rank in reversed(range(self.size - 1)):
                total += read(found[rank][0])
            self._results[id(found)] = total

        def write(found):
            total = self._results.pop(id(found))
            ctypes.memmove(to, total.ctypes.data, total.nbytes)

        self._results = getattr(self, "_results", {})
        self._together(("sum", source, count * dtype.itemsize, kind), work, stream, write)

    def _together(self, brought, work, stream, after=lambda found: None):
        self._usable()
        self._count += 1
        number, world = self._count, self._world
        operation, pointer, *rest = brought

        def run():
            with world.changed:
                said = world.rounds.setdefault(number, {})
                said[self.rank] = (pointer, operation, *rest)
                world.changed.notify_all()
            if not self._until(lambda: len(said) == self.size and not self.stuck):
                return
            if len({one[1:] for one in said.values()}) > 1:
                self.problems.append(f"ranks do different things together: {said}")
                return
            work(said)
            self._meet((number, "read"))  # nobody writes before all have read
            after(said)
            self._meet((number, "done"))

        Stream.by_pointer[stream].submit(run)

    def _meet(self, name):
        with self._world.changed:
            here = self._world.rounds.setdefault(name, set())
            here.add(self.rank)
            self._world.changed.notify_all()
        self._until(lambda: len(here) == self.size)

    def _until(self, holds):
        """Wait, unless this communicator is aborted."""
        with self._world.changed:
            while not holds():
                if self._aborted:
                    return False
                self._world.changed.wait(0.05)
        return True

    # -- the end ------------------------------------------------------------------------------------------

    def _usable(self):
        if self._aborted or self._destroyed:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT: invalid argument")

    def check_async_error(self):
        if self._world.lost:
            raise NcclError("NCCL_ERROR_REMOTE_ERROR: a connection is lost")

    def abort(self):
        self._end()
        self._aborted = True
        with self._world.changed:
            self._world.changed.notify_all()

    def destroy(self):
        self._end()
        self._destroyed = True

    def _end(self):
        if not self._aborted and not self._destroyed:
            type(self).made -= 1


class _Group(threading.local):
    depth = 0

    def __init__(self):
        self.works = []


_group = _Group()


def group_start():
    _group.depth += 1


def group_end():
    _group.depth -= 1
    if not _group.depth:
        _flush()


def _flush():
    works, _group.works = _group.works, []
    if not works:
        return
    communicator, world = works[0][0], works[0][0]._world
    assert all(one is communicator for one, _ in works)
    communicator._usable()
    streams = {operation[4] for _, operation in works}
    assert len(streams) == 1
    sent, sends = [], [operation for _, operation in works if operation[0] == "send"]
    receives = [operation for _, operation in works if operation[0] == "recv"]

    def run():
        with world.changed:
            for _, pointer, size, to, _ in sends:
                letter = [pointer, size, False]
                sent.append(letter)
                world.letters.setdefault((communicator.rank, to), []).append(letter)
            world.changed.notify_all()
        for _, pointer, size, source, _ in receives:
            waiting = world.letters.setdefault((source, communicator.rank), [])
            if not communicator._until(lambda waiting=waiting: waiting and not communicator.stuck):
                return
            letter = waiting.pop(0)
            if letter[1] != size:
                communicator.problems.append(f"{letter[1]} bytes of rank {source} were received as {size}")
            ctypes.memmove(pointer, letter[0], min(size, letter[1]))
            with world.changed:
                letter[2] = True
                world.changed.notify_all()
        communicator._until(lambda: all(letter[2] for letter in sent))

    if communicator.blocks:
        communicator._count += 1
        communicator._meet(("call", communicator._count))
        if communicator._aborted:
            raise NcclError("NCCL_ERROR_INTERNAL_ERROR: internal error")
    Stream.by_pointer[streams.pop()].submit(run)


_identities = itertools.count(1)


def unique_id():
    number = next(_identities)
    return tuple((number >> 8 * place & 0x7F) if place < 4 else -place for place in range(128))


def make_nccl(**more):
    """Return what takes the place of ``cupy.cuda.nccl``, with a class of communicators of its own."""
    kind = type("NcclCommunicator", (NcclCommunicator,), {"problems": [], "made": 0, **more})
    return SimpleNamespace(
        NcclCommunicator=kind,
        NcclError=NcclError,
        NCCL_SUM=0,
        available=True,
        get_unique_id=unique_id,
        get_version=lambda: 22703,
        groupEnd=group_end,
        groupStart=group_start,
        **NUMBERS,
    )


def settle():
    """Give threads of streams the time to end."""
    end = time.monotonic() + 5.0
    while any(one.name == "stream" for one in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
