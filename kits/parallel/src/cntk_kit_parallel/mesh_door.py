"""The door at which ranks come: many may be greeted at once, and none waits for a stranger."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

import attrs

from cntk_core.errors import TrainingError
from cntk_kit_parallel.mesh_greeting import Known, Steps, Stranger, TurnedAway

GREETING = 10.0
"""Seconds that somebody who comes has for all of a greeting."""

WAITING = 128
"""So many can be greeted at once; when another one comes, the one who has been there longest is sent away."""

_LISTENING = 1024
"""Connections that the system keeps until they are accepted."""


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Within, listen at an address of this machine, which is given in numbers.

    Raises:
        TrainingError: this cannot be done.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, port), family=family, backlog=_LISTENING)
    except OSError as error:
        raise TrainingError(
            f"this rank cannot listen at {host}:{port}: {os.strerror(error.errno or 0)}",
            hint="MASTER_PORT names the port of rank 0, which must be free. Where MASTER_ADDR is no address of the "
            "machine of rank 0, CNTK_BIND names one there.",
        ) from None
    with server:
        server.setblocking(False)
        yield server


def is_open(connection: socket.socket) -> bool:
    """Whether the other side has not ended a connection, as far as is known here."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


@attrs.define(eq=False)
class _Guest:
    """Somebody who has come.

    Attributes:
        steps: of the greeting.
        host: the address.
        end: when the greeting must be over.
        wanted: bytes that come next.
        received: those of them that are here.
    """

    steps: Steps
    host: str
    end: float
    wanted: int
    received: bytearray = attrs.field(factory=bytearray)


class Door:
    """Greets those who come.

    Args:
        servers: where they come; none of them blocks.
        receive: begins the greeting of somebody over a connection.
        take: gets the connection, the address and the rank of one who is welcome.
    """

    def __init__(
        self,
        servers: Iterable[socket.socket],
        receive: Callable[[socket.socket], Steps],
        take: Callable[[socket.socket, str, Known], None],
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._receive, self._take = receive, take
        self._guests: OrderedDict[socket.socket, _Guest] = OrderedDict()  # who has come first stands first
        for server in servers:
            self._selector.register(server, selectors.EVENT_READ)

    def look(self, seconds: float) -> None:
        """Wait for something to come, at most so long, and go on with all greetings."""
        first = next(iter(self._guests.values()), None)
        if first is not None:
            seconds = min(seconds, max(0.0, first.end - time.monotonic()))
        for key, _ in self._selector.select(seconds):
            if key.fileobj in self._guests:
                self._go_on(key.fileobj)  # type: ignore[arg-type] # it is a socket
            elif isinstance(key.fileobj, socket.socket) and key.data is None:
                self._accept(key.fileobj)
        now = time.monotonic()
        while self._guests and next(iter(self._guests.values())).end <= now:
            self._send_away(next(iter(self._guests)))

    def close(self) -> None:
        """Send away all who are still here."""
        while self._guests:
            self._send_away(next(iter(self._guests)))
        self._selector.close()

    def _accept(self, server: socket.socket) -> None:
        try:
            connection, (host, *_) = server.accept()
        except OSError:  # it is gone already, or too many files are open here
            if self._guests:
                self._send_away(next(iter(self._guests)))
            return
        connection.setblocking(False)
        try:
            steps = self._receive(connection)
            _, wanted = next(steps)
        except OSError:  # gone
            connection.close()
            return
        self._guests[connection] = _Guest(steps, host, time.monotonic() + GREETING, wanted)
        self._selector.register(connection, selectors.EVENT_READ, _Guest)
        if len(self._guests) > WAITING:
            self._send_away(next(iter(self._guests)))

    def _go_on(self, connection: socket.socket) -> None:
        """Read what a guest has sent, and answer."""
        guest = self._guests[connection]
        try:
            piece = connection.recv(guest.wanted - len(guest.received))
            guest.received += piece
            if not piece:
                raise EOFError
            while len(guest.received) == guest.wanted:
                answer, guest.wanted = guest.steps.send(bytes(guest.received))
                guest.received.clear()
                if connection.send(answer) < len(answer):
                    raise EOFError  # so few bytes are taken at once, or by nobody who reads
        except StopIteration as done:
            self._forget(connection)
            self._take(connection, guest.host, done.value)
        except BlockingIOError:
            return
        except (OSError, EOFError, Stranger, TurnedAway):
            self._send_away(connection)

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._guests[connection]

    def _send_away(self, connection: socket.socket) -> None:
        self._forget(connection)
        connection.close()
