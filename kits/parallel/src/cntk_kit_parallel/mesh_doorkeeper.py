"""The door of ranks that have met: who comes later is greeted there, and waits."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence

import attrs

from cntk_core.errors import CntkError
from cntk_kit_parallel.mesh_bytes import Line
from cntk_kit_parallel.mesh_door import Door, is_open, listening
from cntk_kit_parallel.mesh_greeting import LATER, STILL_HERE, Known, Own, Steps, receive_guest
from cntk_kit_parallel.mesh_meeting import is_sealed, prepare
from cntk_kit_parallel.rendezvous import Rendezvous, listening_places

PLAN, OVER = 0, 1
"""Channels of what those who wait are told: who meets; that the work is done."""


@attrs.frozen(eq=False)
class Newcomer:
    """A rank that waits at the door.

    Attributes:
        number: what its launcher calls it.
        line: the connection.
    """

    number: int
    line: Line


class Doorkeeper:
    """Greets, in a thread, ranks that come while the others work.

    Args:
        meeting: where they come; its rank is what the launcher calls this one.
        numbers: what it calls the ranks that are here.

    Attributes:
        numbers: the same; may be set.
    """

    def __init__(self, meeting: Rendezvous, numbers: frozenset[int]) -> None:
        self._meeting, self.numbers = meeting, numbers
        self._lock = threading.Lock()
        self._waiting: list[Newcomer] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="door", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> list[Newcomer]:
        """Who waits, in the order of their numbers; those who have given up are forgotten."""
        with self._lock:
            for one in [one for one in self._waiting if not is_open(one.line.connection)]:
                self._waiting.remove(one)
                one.line.connection.close()
            return sorted(self._waiting, key=lambda one: one.number)

    def close(self) -> list[Newcomer]:
        """Let nobody in any more; return those who wait."""
        self._closing.set()
        self._thread.join()
        return self.waiting

    def _run(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(CntkError), contextlib.ExitStack() as stack:
                places = listening_places(self._meeting, 0.0)
                servers = [stack.enter_context(listening(host, self._meeting.port)) for host in places]
                with contextlib.closing(Door(servers, self._receive, self._take)) as door:
                    while not self._closing.is_set():
                        door.look(0.2)
            self._closing.wait(1.0)  # a rank that is lost may have the port for a while

    def _receive(self, connection: socket.socket) -> Steps:
        meeting = self._meeting
        own = Own(meeting.rank, meeting.size, meeting.secret, is_sealed(connection), meeting.port, late=True)
        return receive_guest(own, self._judge)

    def _judge(self, known: Known) -> bytes:
        taken = known.rank in self.numbers or any(one.number == known.rank for one in self.waiting)
        return STILL_HERE if taken else LATER

    def _take(self, connection: socket.socket, host: str, known: Known) -> None:
        prepare(connection)
        with self._lock:
            self._waiting.append(Newcomer(known.rank, Line.over(connection, known.keys)))


def tell(newcomers: Sequence[Newcomer], channel: int, text: bytes = b"") -> None:
    """Tell those who wait something, the last thing over these connections."""
    for one in newcomers:
        with contextlib.suppress(OSError):  # who is gone will be missed at the meeting
            one.line.connection.settimeout(1.0)
            for piece in one.line.framed(channel, 0, text):
                one.line.connection.sendall(piece)
        one.line.connection.close()
