"""Attack ranks that are connected by TCP: nothing may hang, take memory, come in, or end in anything but our errors.

    python tools/fuzz_ranks.py --connections 50000 --messages 50000

Connections go to rank 0 while it waits for the others: garbage, other protocols, half-open ones, slow ones, greetings
that were overheard, that are cut off, of wrong ranks, without the secret. In the middle of them the other ranks come,
and must meet and add up numbers. Messages come from a rank that has greeted rightly and then sends what it likes, or
from somebody between two ranks whose messages are sealed; what comes of an operation must be right, or be the loss of
that rank. The same seed gives the same attacks. The exit status is 1 if one of them succeeds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import signal
import socket
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import pairwise
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any
from unittest.mock import patch

import attrs
import numpy as np

from cntk_core.api import RankGone, RankMissing
from cntk_core.api.parallel import Mesh, MeshCommunicator, Rendezvous, sum_by_rank
from cntk_kit_parallel import mesh as mesh_module
from cntk_kit_parallel.array_bytes import pack
from cntk_kit_parallel.mesh_bytes import HEADER, Line
from cntk_kit_parallel.mesh_communicator import _LETTERS
from cntk_kit_parallel.mesh_greeting import Own, Stranger, TurnedAway, visit

SECRET = b"what all ranks of this run know"
MEGABYTES = 50
"""What an attack may cost."""

PATIENCE = 240.0
"""Seconds within which ranks must meet, and everything must end: busy machines are slow."""

DEADLINE = 60.0
"""Seconds that an operation may wait for a rank that says nothing; nothing else may take as long."""

MAX_SHOWN = 10


class Hang(BaseException):
    """Something takes longer than everything may."""


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise Hang in the block when its time is up."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def peak() -> float:
    """Megabytes that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# -- connections --------------------------------------------------------------------------------------------------


def serve(rank: int, size: int, port: int, answer: Connection) -> None:
    """Be a rank: meet the others, add up, and say what came of it."""
    began, before = time.monotonic(), peak()
    try:
        communicator = MeshCommunicator(
            Mesh(Rendezvous(rank, size, "127.0.0.1", port, SECRET), PATIENCE if rank else 1e6)
        )
        met = time.monotonic() - began
        communicator.watch.deadline = PATIENCE
        numbers = np.arange(50_000.0) + rank
        communicator.allreduce(numbers)
        right = np.array_equal(numbers, size * np.arange(50_000.0) + sum(range(size)))
        answer.send((met, right, peak() - before))
        answer.recv()
        communicator.barrier()
        communicator.close()
    except BaseException as error:
        answer.send((0.0, False, repr(error)))


class Strangers:
    """Those who come to a port, as a seed says."""

    def __init__(self, port: int, seed: int) -> None:
        self._port, self._pick = port, random.Random(seed)
        self._open: list[socket.socket] = []
        self._heard = [bytes(100)]
        self.totals: Counter[str] = Counter()

    def come(self) -> None:
        """Let one come. It may stay."""
        kind = self._pick.choice(_KINDS)
        try:
            connection = socket.create_connection(("127.0.0.1", self._port), timeout=5.0)
        except OSError:
            self.totals["refused"] += 1
            return
        self.totals[kind.__name__.strip("_")] += 1
        connection.settimeout(0.03)
        with suppress(OSError, Stranger, TurnedAway):
            kind(self, connection)
        if kind in (_silent, _slow):
            self._open.append(connection)
        else:
            connection.close()
        while len(self._open) > 200:
            self._open.pop(0).close()
        for one in self._pick.sample(self._open, min(3, len(self._open))):
            with suppress(OSError):
                one.send(b"C")

    def close(self) -> None:
        """Let those go who are still there."""
        for one in self._open:
            one.close()

    def some(self, most: int) -> bytes:
        """Return some bytes."""
        return self._pick.randbytes(self._pick.randrange(1, most))

    def greet(self, connection: socket.socket, secret: bytes, change: Callable[[int, bytes], bytes]) -> None:
        """Go through a greeting with another secret, or with bytes that are changed."""
        own = Own(self._pick.choice((1, 1, 2, 3, 99)), self._pick.choice((3, 3, 2)), secret, sealed=False, port=9)
        steps = visit(own, 0)
        send, wanted = next(steps)
        for number in range(4):
            data = change(number, send)
            self._heard = [*self._heard[-20:], data or b"C"]
            connection.sendall(data)
            received = b""
            while len(received) < wanted:
                if not (piece := connection.recv(wanted - len(received))):
                    return
                received += piece
            self._heard.append(received)
            send, wanted = steps.send(received)

    def half(self, number: int, data: bytes) -> bytes:
        """Return a part of what belongs into a greeting."""
        return data[: self._pick.randrange(len(data) + 1)]

    def flip(self, number: int, data: bytes) -> bytes:
        """Return it with some bits changed."""
        changed = bytearray(data)
        for _ in range(self._pick.randrange(1, 4)):
            if changed:
                changed[self._pick.randrange(len(changed))] ^= 1 << self._pick.randrange(8)
        return bytes(changed)

    def overheard(self, connection: socket.socket) -> None:
        """Send what others have sent."""
        for _ in range(self._pick.randrange(1, 4)):
            connection.sendall(self._pick.choice(self._heard))


def _silent(one: Strangers, connection: socket.socket) -> None:
    pass


def _slow(one: Strangers, connection: socket.socket) -> None:
    connection.sendall(b"CNTKtcp2"[: one._pick.randrange(8)])


def _garbage(one: Strangers, connection: socket.socket) -> None:
    connection.sendall(one.some(200))


def _flood(one: Strangers, connection: socket.socket) -> None:
    connection.sendall(one.some(200_000))


def _web(one: Strangers, connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n" * one._pick.choice((1, 50)))


def _gone(one: Strangers, connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _guess(one: Strangers, connection: socket.socket) -> None:
    one.greet(connection, one.some(40), lambda number, data: data)


def _cut(one: Strangers, connection: socket.socket) -> None:
    one.greet(connection, b"x", one.half)


def _flipped(one: Strangers, connection: socket.socket) -> None:
    one.greet(connection, SECRET, one.flip)


def _overheard(one: Strangers, connection: socket.socket) -> None:
    one.overheard(connection)


_KINDS = (_silent, _slow, _garbage, _flood, _web, _gone, _guess, _cut, _flipped, _overheard)


def attack_meeting(count: int, seed: int) -> list[str]:
    """Let strangers come to three ranks, before they meet and while they do; return what is wrong."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    started = []

    def start(rank: int) -> None:
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=serve, args=(rank, 3, port, there), daemon=True)
        process.start()
        started.append((process, here))

    start(0)
    began = time.monotonic()
    with closing(Strangers(port, seed)) as strangers:
        while not _listens(port):
            time.sleep(0.01)
        for number in range(count):
            if number == count - count // 50 - 1:
                start(1)
                start(2)
            strangers.come()
        answers = [here.recv() if here.poll(PATIENCE) else (0.0, False, "it hangs") for _, here in started]
        closed = not _listens(port)
    for _, here in started:  # all of them first: they wait for each other
        with suppress(OSError):
            here.send("end")
    for process, _ in started:
        process.join(30.0)
        process.kill()
    seconds = time.monotonic() - began
    most = max((cost for _, _, cost in answers if isinstance(cost, float)), default=0.0)
    print(f"{count} connections in {seconds:.0f} s: {json.dumps(dict(sorted(strangers.totals.items())))}")
    print(f"  rank 1 and 2 had met the others after {answers[1][0]:.1f} and {answers[2][0]:.1f} s")
    print(f"  memory {most:.0f} MB more")
    problems = [f"rank {rank}: {cost}" for rank, (_, right, cost) in enumerate(answers) if not right]
    problems += ["somebody still listens during the job"] if not closed else []
    return problems + ([f"{most:.0f} MB of memory"] if most > MEGABYTES else [])


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5.0):
        return True
    return False


# -- messages -----------------------------------------------------------------------------------------------------


@attrs.frozen
class Operation:
    """Something that rank 0 of two does, and what the other one sends for it.

    Attributes:
        do: returns arrays.
        messages: tag and array of each, on channel 0.
        expected: what comes of it if the other one sends these.
    """

    do: Callable[[MeshCommunicator], list[Any]]
    messages: tuple[tuple[int, Any], ...]
    expected: list[Any]


def operations() -> list[Operation]:
    """All kinds of operations."""
    small, large = np.arange(10.0), np.arange(5000, dtype=np.float32)
    cut = [large[begin:end] for begin, end in pairwise((0, 2500, 5000))]
    double = sum_by_rank([large, large])

    def summed(array: Any) -> Callable[[MeshCommunicator], list[Any]]:
        def do(communicator: MeshCommunicator) -> list[Any]:
            found = array.copy()
            communicator.allreduce(found)
            return [found]

        return do

    def told(communicator: MeshCommunicator) -> list[Any]:
        found = np.zeros(10)
        communicator.broadcast(found, root=1)
        return [found]

    def met(communicator: MeshCommunicator) -> list[Any]:
        communicator.barrier()
        return []

    letter = ((_LETTERS + 7, small),)
    return [
        Operation(summed(small), ((1, small),), [2 * small]),
        Operation(summed(large), ((1, cut[0]), (2, double[2500:])), [double]),
        Operation(told, ((1, small),), [small]),
        Operation(met, ((1, np.empty(0, np.uint8)),), []),
        Operation(lambda one: one.allgather(small), ((1, small),), [small, small]),
        Operation(lambda one: one.alltoall([small, small]), ((1, large),), [small, large]),
        Operation(lambda one: [one.receive(1, 7).array], letter, [small]),
        Operation(lambda one: [one.receive().array], letter, [small]),
        Operation(lambda one: [np.array(one.split(0).size)], ((1, np.array([0])),), [np.array(2)]),
    ]


class Liar:
    """Bytes that a rank sends in place of what belongs there."""

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick

    def stream(self, operation: Operation) -> bytes:
        """Return messages, changed in some way."""
        parts = [HEADER.pack(0, tag, len(body)) + body for tag, body in self._bodies(operation)]
        for _ in range(self._pick.choice((1, 1, 2, 4))):
            parts.insert(self._pick.randrange(len(parts) + 1), self._nonsense())
        if self._pick.random() < 0.3:
            self._pick.shuffle(parts)
        data = bytearray(b"".join(parts))
        return bytes(data[: self._pick.randrange(len(data) + 1)] if self._pick.random() < 0.3 else data)

    def _bodies(self, operation: Operation) -> list[tuple[int, bytes]]:
        found = []
        for tag, array in operation.messages:
            body = bytearray(pack(array))
            match self._pick.randrange(6):
                case 0:
                    body[self._pick.randrange(min(40, len(body)))] = self._pick.randrange(256)
                case 1:
                    body = body[: self._pick.randrange(len(body))]
                case 2:
                    body += self._pick.randbytes(self._pick.choice((1, 8, 1000)))
                case 3:
                    tag += self._pick.choice((-1, 1, 1 << 30))
            found.append((max(0, tag), bytes(body)))
        return found

    def _nonsense(self) -> bytes:
        size = self._pick.choice((0, 1, 24, 300, 1 << 16, 1 << 20, 20 << 30, 1 << 41, 1 << 62, -1, -(1 << 63)))
        channel = self._pick.choice((0, 0, 0, 1, 1 << 55, -1, -2, -3, -4, -(1 << 63)))
        tag = self._pick.choice((0, 1, 2, 3, _LETTERS, 1 << 62, -1))
        match self._pick.randrange(4):
            case 0:
                return self._pick.randbytes(self._pick.randrange(200))
            case 1:
                return HEADER.pack(channel, tag, size) + self._pick.randbytes(max(0, min(size, 5000)))
            case 2:
                text = self._pick.choice((b"", b"1", b"0", b"0 1", b"7", b"-1", b"x", b"\xff\xfe", b"1 " * 5000))
                return HEADER.pack(self._pick.choice((-1, -2, -3)), max(0, tag) % (1 << 45), len(text)) + text
            case _:
                body = self._pick.randbytes(self._pick.randrange(100))
                return HEADER.pack(channel, max(0, tag), len(body)) + body


class Victim:
    """Rank 0 of two, whose other rank is a socket here."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._operations = operations()

    def trial(self, number: int) -> str:
        """Attack an operation; return what came of it, ``right``, ``lost`` or ``late``, or raise."""
        pick = random.Random(self._seed * 1_000_003 + number)
        operation = pick.choice(self._operations)
        keys = (b"a" * 32, b"b" * 32) if pick.random() < 0.4 else None
        here, there = socket.socketpair()
        with ExitStack() as stack:
            stack.enter_context(closing(there))
            here.setblocking(False)
            with patch.object(mesh_module, "connect", lambda meeting, patience: {1: Line.over(here, keys)}):
                communicator = MeshCommunicator(Mesh(Rendezvous(0, 2, "127.0.0.1", 1, SECRET)))
            silent = pick.random() < 0.01
            communicator.watch.deadline = 0.05 if silent else DEADLINE
            data = self._sealed(pick, operation, keys) if keys else Liar(pick).stream(operation)
            there.sendall(data)
            if not silent:
                there.shutdown(socket.SHUT_WR)
            verdict = "right"
            try:
                found = operation.do(communicator)
                same = len(found) == len(operation.expected) and all(map(np.array_equal, found, operation.expected))
                if not same and keys:
                    raise AssertionError("a sealed message was changed, and believed")
            except RankGone as error:
                verdict = "lost" if str(error) else "lost without a reason"
            except RankMissing:
                verdict = "late" if silent else "waits in vain"
            communicator.close()
        return verdict

    def _sealed(self, pick: random.Random, operation: Operation, keys: tuple[bytes, bytes]) -> bytes:
        """Return what an honest rank sends, and somebody in between changes."""
        one, other = socket.socketpair()
        with closing(one), closing(other):
            line = Line.over(one, keys[::-1])
            parts = [b"".join(line.framed(0, tag, pack(array))) for tag, array in operation.messages]
        match pick.randrange(5):
            case 0:
                parts.insert(0, parts[-1])
            case 1:
                parts.reverse()
            case 2:
                parts.insert(pick.randrange(len(parts) + 1), pick.randbytes(40))
        data = bytearray(b"".join(parts))
        for _ in range(pick.randrange(3)):
            data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
        return bytes(data)


def attack_operations(numbers: range, seed: int) -> list[str]:
    """Let a rank send what it likes; return what is wrong."""
    victim, totals, problems = Victim(seed), Counter[str](), []
    for number in range(200):
        victim.trial(-1 - number)  # what is taken once
    before, slowest, began = peak(), 0.0, time.monotonic()
    for number in numbers:
        start = time.monotonic()
        try:
            with in_time(PATIENCE):
                verdict = victim.trial(number)
        except Hang:
            verdict = "hangs"
        except BaseException as error:
            verdict = type(error).__name__
            traceback.print_exc()
        slowest = max(slowest, time.monotonic() - start)
        totals[verdict] += 1
        if verdict not in ("right", "lost", "late"):
            problems.append(f"message {number}: {verdict}")
    more = peak() - before
    print(f"{len(numbers)} streams of messages in {time.monotonic() - began:.0f} s: {json.dumps(dict(totals))}")
    print(f"  slowest {slowest:.2f} s, memory {more:.0f} MB more")
    return problems + ([f"{more:.0f} MB of memory"] if more > MEGABYTES else [])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first stream of messages")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    problems = attack_meeting(options.connections, options.seed) if options.connections else []
    problems += attack_operations(range(options.first, options.first + options.messages), options.seed)
    for problem in problems[:MAX_SHOWN]:
        print(problem, file=sys.stderr)
    print(f"{len(problems)} failures")
    return 1 if problems else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
