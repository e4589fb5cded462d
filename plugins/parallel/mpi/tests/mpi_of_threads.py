"""MPI among the threads of one process, as far as our communicator needs it: messages, and ranks that are lost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import attrs
import numpy as np
from cntk_parallel_mpi import MPICommunicator

ANY = -1
FAILED, PENDING, REVOKED, OTHER = 75, 76, 77, 16
DEADLINE = 60.0


class Fault(Exception):
    """What the operations of MPI raise."""

    def Get_error_class(self):
        return self.args[0]


class Lost(BaseException):
    """Ends the thread of a rank that is lost."""


@attrs.define
class Letter:
    source: int
    tag: int
    content: bytes


class Status:
    def Get_count(self, kind):
        return len(self.letter.content)

    def Get_source(self):
        return self.letter.source

    def Get_tag(self):
        return self.letter.tag


class Group:
    def __init__(self, members):
        self.members = members

    def Get_size(self):
        return len(self.members)

    def Translate_ranks(self, ranks, other):
        assert ranks is None
        return [other.members.index(one) for one in self.members]


class World:
    """All ranks.

    Attributes:
        gone: those that are lost.
        dying: those that will be when a communicator has been shrunk.
        revoked: what identifies communicators that nobody waits in any more.
        aborted: with which code the program was ended.
    """

    def __init__(self, size):
        self.size = size
        self.changed = threading.Condition()
        self.mail = {}
        self.gone, self.dying, self.revoked = set(), set(), set()
        self.aborted = []
        self._meetings = {}

    def lose(self, rank):
        with self.changed:
            self.gone.add(rank)
            self.changed.notify_all()

    def meet(self, key, members, rank, value):
        """Return what all that live have brought, and who does not live, alike for all."""
        with self.changed:
            brought, found = self._meetings.setdefault(key, ({}, []))
            brought[rank] = value

            def are_there():
                if not found and self.gone.union(brought) >= set(members):
                    found.append((dict(brought), self.gone & set(members)))
                return bool(found)

            self.changed.notify_all()
            assert self.changed.wait_for(are_there, DEADLINE)
            self.changed.notify_all()
            return found[0]


class Comm:
    def __init__(self, world, key, members, rank):
        self.world, self.key, self.members, self.rank = world, key, members, rank
        self._count = 0

    def _next(self, kind):
        self._count += 1
        return (*self.key, kind, self._count)

    def Get_rank(self):
        return self.members.index(self.rank)

    def Get_size(self):
        return len(self.members)

    def Get_group(self):
        return Group(self.members)

    # -- new ones -----------------------------------------------------------------------------------------

    def Dup(self):
        self._check()
        return Comm(self.world, self._next("copy"), self.members, self.rank)

    def Split(self, color, key):
        name = self._next("part")
        brought, _ = self.world.meet(name, self.members, self.rank, (color, key))
        members = sorted((one for one in brought if brought[one][0] == color), key=lambda one: brought[one][1])
        return Comm(self.world, (*name, color), members, self.rank)

    # -- messages -----------------------------------------------------------------------------------------

    def Isend(self, array, to, tag):
        self._check(to)
        assert array.flags.c_contiguous
        with self.world.changed:
            box = self.world.mail.setdefault((self.key, self.members[to]), [])
            box.append(Letter(self.Get_rank(), tag, array.tobytes()))
        return SimpleNamespace(Test=lambda: True)

    def Irecv(self, room, source, tag):
        self._check()

        def test():
            letter = self._taken(source, tag)
            if letter is None:
                self._check(source)
                return False
            _fill(room, letter)
            return True

        return SimpleNamespace(Test=test)

    def Improbe(self, source, tag, status):
        letter = self._taken(source, tag)
        if letter is None:
            self._check(*([] if source == ANY else [source]))
            return None
        status.letter = letter

        def receive(room):
            _fill(room, letter)
            return SimpleNamespace(Test=lambda: True)

        return SimpleNamespace(Irecv=receive)

    def _taken(self, source, tag):
        with self.world.changed:
            box = self.world.mail.get((self.key, self.rank), [])
            for index, letter in enumerate(box):
                if source in (ANY, letter.source) and tag in (ANY, letter.tag):
                    return box.pop(index)
        return None

    # -- losses -------------------------------------------------------------------------------------------

    def _check(self, *others):
        if self.key in self.world.revoked:
            raise Fault(REVOKED)
        if any(self.members[one] in self.world.gone for one in others):
            raise Fault(FAILED)

    def Is_revoked(self):
        return self.key in self.world.revoked

    def Revoke(self):
        self.world.revoked.add(self.key)

    def Get_failed(self):
        return Group([one for one in self.members if one in self.world.gone])

    def Agree(self, flag):
        brought, gone = self.world.meet(self._next("vote"), self.members, self.rank, flag)
        if gone:
            raise Fault(FAILED)
        return int(all(brought.values()))

    def Shrink(self):
        key = self._next("rest")
        _, gone = self.world.meet(key, self.members, self.rank, None)
        if self.rank in self.world.dying:
            self.world.lose(self.rank)
            raise Lost
        return Comm(self.world, key, [one for one in self.members if one not in gone], self.rank)

    def Abort(self, code):
        self.world.aborted.append(code)


def _fill(room, letter):
    into = room.reshape(-1).view(np.uint8)
    assert np.shares_memory(into, room) or not into.size
    into[...] = np.frombuffer(letter.content, np.uint8)


class Module:
    """What ``from mpi4py import MPI`` gives, of another rank in each thread."""

    ANY_SOURCE = ANY_TAG = ANY
    BYTE, THREAD_MULTIPLE = "byte", 3
    ERR_PROC_FAILED, ERR_PROC_FAILED_PENDING, ERR_REVOKED = FAILED, PENDING, REVOKED
    Status, Exception = Status, Fault

    def __init__(self, threads=THREAD_MULTIPLE):
        self.own = threading.local()
        self._threads = threads

    @property
    def COMM_WORLD(self):
        return self.own.comm

    def Query_thread(self):
        return self._threads

    def Get_library_version(self):
        return "Open MPI v5.0.11"

    def get_vendor(self):
        return "Open MPI", (5, 0, 11)


@contextmanager
def installed(module):
    with patch.dict(sys.modules, {"mpi4py": SimpleNamespace(MPI=module)}):
        yield


def run(size: int, work: Callable, *, world: World | None = None, threads: int = 3) -> list:
    """Call ``work`` with the communicator of each rank; return the results, None of those that are lost."""
    world, module = world or World(size), Module(threads)
    results, errors = [None] * size, []

    def one(rank):
        module.own.comm = Comm(world, (), list(range(size)), rank)
        try:
            communicator = MPICommunicator()
            communicator.watch.deadline = DEADLINE
            results[rank] = work(communicator)
        except Lost:
            pass
        except BaseException as error:
            errors.append(error)
            world.lose(rank)

    with installed(module):
        ranks = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(2 * DEADLINE)
    if errors:
        raise errors[0]
    return results
