"""How each rank gets a connection to each other one: all go to rank 0, hear where the others are, and go to those."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from typing import cast

from cntk_core.errors import RankGone, TrainingError
from cntk_kit_parallel.mesh_bytes import LARGEST, BadMessage, Line
from cntk_kit_parallel.mesh_door import Door, is_open, listening
from cntk_kit_parallel.mesh_greeting import (
    OTHER_SECRET,
    OTHER_SIZE,
    STILL_HERE,
    TAKEN,
    WELCOME,
    Known,
    Own,
    Steps,
    Stranger,
    TurnedAway,
    receive_guest,
    visit,
)
from cntk_kit_parallel.rendezvous import Rendezvous, check_secret, is_loopback, listening_places

VISIT = 30.0
"""Seconds that a host has for a greeting: it may have others before."""

_PLACE = 96
"""Bytes of a line of the table of ranks, at most."""

_TABLE = 0
"""Channel of this table."""

_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 8))
"""When a machine that is gone without a word is noticed: after 150 seconds without a sign of it. No TCP_USER_TIMEOUT is
set, which would also count a process that is only stopped as gone; what is on its way the system gives up by itself."""


def connect(meeting: Rendezvous, patience: float) -> dict[int, Line]:
    """Return a line to every other rank.

    Args:
        meeting: where the ranks meet.
        patience: seconds within which all must have come.

    Raises:
        RankGone: a rank has not come, or cannot be reached.
        TrainingError: this rank cannot listen, or is turned away.
        UsageError: the environment makes no sense, or the ranks need a secret.
        ComesLate: the ranks have met without this one.
    """
    check_secret(meeting)
    party = _Party(meeting, time.monotonic() + patience)
    try:
        party.gather()
        for line in party.peers.values():
            prepare(line.connection)
    except BaseException:
        for line in party.peers.values():
            line.connection.close()
        raise
    return party.peers


class ComesLate(Exception):
    """The ranks have met already, and this one waits over the line until they take it in."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self.line = line


def prepare(connection: socket.socket) -> None:
    """Set what connections between ranks have in common."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Party:
    """The ranks that have come so far; ``end`` is when all must have."""

    def __init__(self, meeting: Rendezvous, end: float) -> None:
        self._meeting, self._end = meeting, end
        self.rank, self.size = meeting.rank, meeting.size
        self.peers: dict[int, Line] = {}
        self._places: dict[int, tuple[str, int]] = {}
        self._port = 0

    def gather(self) -> None:
        """Meet all others."""
        with contextlib.ExitStack() as stack:
            if self.rank == 0 and not self._meeting.late:
                places = listening_places(self._meeting, self._end)
                self._receive_all([stack.enter_context(listening(host, self._meeting.port)) for host in places])
                self._tell_places()
                return
            servers: list[socket.socket] = []

            def listen(connection: socket.socket) -> None:
                """Listen at the interface that reaches the meeting."""
                if not servers:
                    everywhere = self._meeting.listen if self._meeting.listens_everywhere else ""
                    host = everywhere or connection.getsockname()[0]
                    servers.append(stack.enter_context(listening(host, 0)))
                    self._port = servers[0].getsockname()[1]

            self._go_to(0, (self._meeting.address, self._meeting.port), listen)
            for rank, place in self._read_places():
                if rank < self.rank:
                    self._go_to(rank, place, lambda connection: None)
            self._receive_all(servers)

    def _own(self, connection: socket.socket) -> Own:
        """Return what this rank says of itself over a connection; inside of a machine nothing is sealed."""
        meeting = self._meeting
        return Own(self.rank, self.size, meeting.secret, is_sealed(connection), self._port, meeting.late)

    # -- ranks that come ----------------------------------------------------------------------------------

    def _receive_all(self, servers: Sequence[socket.socket]) -> None:
        """Wait until all are here."""
        with contextlib.closing(Door(servers, self._receive, self._take)) as door:
            while len(self.peers) < self.size - 1:
                if time.monotonic() > self._end:
                    here = {self.rank, *self.peers}
                    missing = ", ".join(str(rank) for rank in range(self.size) if rank not in here)
                    at = ", ".join("{}:{}".format(*server.getsockname()[:2]) for server in servers)
                    raise RankGone(
                        f"rank {self.rank} has waited in vain for rank {missing} to connect",
                        hint=f"It listens at {at}; CNTK_BIND names another address of this machine.",
                    )
                door.look(min(0.5, max(0.0, self._end - time.monotonic())))

    def _receive(self, connection: socket.socket) -> Steps:
        return receive_guest(self._own(connection), self._judge)

    def _judge(self, known: Known) -> bytes:
        """Say whether a rank that knows the secret can come; one whose connection has ended can come again."""
        if known.late:
            return STILL_HERE
        if known.size != self.size:
            return OTHER_SIZE
        if known.rank >= self.size or (known.rank in self.peers and is_open(self.peers[known.rank].connection)):
            return TAKEN
        return WELCOME

    def _take(self, connection: socket.socket, host: str, known: Known) -> None:
        if known.rank in self.peers:
            self.peers[known.rank].connection.close()
        self.peers[known.rank] = Line.over(connection, known.keys)
        self._places[known.rank] = host, known.port

    # -- where they are -----------------------------------------------------------------------------------

    def _tell_places(self) -> None:
        """As rank 0: tell each of the others where they are."""
        table = "\n".join(f"{rank} {host} {port}" for rank, (host, port) in sorted(self._places.items())).encode()
        for rank, line in self.peers.items():
            line.connection.settimeout(max(1.0, self._end - time.monotonic()))
            try:
                for piece in line.framed(_TABLE, self.size, table):
                    line.connection.sendall(piece)
            except OSError:
                raise RankGone(f"rank {rank} is gone before all ranks had come") from None

    def _read_places(self) -> list[tuple[int, tuple[str, int]]]:
        """As another rank: hear where the others are."""
        line = self.peers[0]
        line.incoming.most = _PLACE * self.size
        try:
            message = None
            while message is None:
                line.connection.settimeout(max(0.1, self._end - time.monotonic()))
                message = line.incoming.read()
            line.incoming.most = LARGEST
            return [_read_place(row, self.size) for row in bytes(message[2]).decode("ascii").splitlines()]
        except TimeoutError:
            raise RankGone(f"rank {self.rank} has waited in vain for all ranks to come") from None
        except (OSError, EOFError):
            raise RankGone("rank 0 is gone before all ranks had come") from None
        except (BadMessage, ValueError) as error:
            raise RankGone(f"rank 0 has not told where the ranks are: {error}") from None

    # -- ranks to go to -----------------------------------------------------------------------------------

    def _go_to(self, rank: int, place: tuple[str, int], prepare: Callable[[socket.socket], None]) -> None:
        """Get a connection to a rank that listens.

        Args:
            rank: the other one.
            place: its address and port.
            prepare: is called with the connection before the greeting.
        """
        while True:
            try:
                self.peers[rank] = self._try(rank, place, prepare)
                return
            except TurnedAway as error:
                if error.args[0] == STILL_HERE:
                    said = f"a rank {self.rank} seems to be there still, or the ranks have not met yet"
                    self._wait(place, said)
                    continue
                message, hint = _turned_away(self.rank, rank, place, error.args[0])
                raise TrainingError(message, hint=hint) from None
            except Stranger as error:
                said = f"who answers there is not rank {rank} of this run: {error}"
            except EOFError:
                said = "the connection is closed without an answer"
            except OSError as error:
                said = error.strerror or str(error)
            self._wait(place, said)

    def _wait(self, place: tuple[str, int], said: str) -> None:
        """Wait a moment before the next try.

        Raises:
            RankGone: it is too late for another one.
        """
        if time.monotonic() > self._end:
            raise RankGone(f"rank {self.rank} does not reach {place[0]}:{place[1]}: {said}", hint=_REACH)
        time.sleep(0.1)

    def _try(self, rank: int, place: tuple[str, int], prepare: Callable[[socket.socket], None]) -> Line:
        """Greet a rank.

        Raises:
            ComesLate: the ranks have met without this one.
        """
        connection = socket.create_connection(place, timeout=5.0)
        try:
            prepare(connection)
            known = greet(connection, visit(self._own(connection), rank), time.monotonic() + VISIT)
            line = Line.over(connection, known.keys)
        except BaseException:
            connection.close()
            raise
        if known.late:
            raise ComesLate(line)
        return line


_REACH = (
    "MASTER_ADDR and MASTER_PORT name rank 0; all ranks must be able to reach each other. Rank 0 listens at the "
    "address that MASTER_ADDR has on its own machine; CNTK_BIND names another one there."
)


def is_sealed(connection: socket.socket) -> bool:
    """Whether messages over a connection are sealed: those inside of a machine are not."""
    return not all(map(is_loopback, (connection.getsockname()[0], connection.getpeername()[0])))


def greet(connection: socket.socket, steps: Steps, end: float) -> Known:
    """Go through a greeting, which ends in time whoever is on the other side."""
    send, count = next(steps)
    while True:
        connection.settimeout(max(0.01, end - time.monotonic()))
        connection.sendall(send)
        received = b""
        while len(received) < count:
            if time.monotonic() > end:
                raise TimeoutError("no answer in time")
            connection.settimeout(max(0.01, end - time.monotonic()))
            if not (piece := connection.recv(count - len(received))):
                raise EOFError
            received += piece
        try:
            send, count = steps.send(received)
        except StopIteration as done:
            return cast(Known, done.value)


def _read_place(row: str, size: int) -> tuple[int, tuple[str, int]]:
    rank, host, port = row.split()
    if not 0 < int(rank) < size or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{row!r} is no place of a rank")
    return int(rank), (host, int(port))


def _turned_away(rank: int, host: int, place: tuple[str, int], verdict: bytes) -> tuple[str, str]:
    """Return what a rank that is turned away says, and how to mend it."""
    there = f"rank {host} at {place[0]}:{place[1]}"
    same = "RANK is different for all ranks of a run, and WORLD_SIZE and CNTK_SECRET are the same."
    said = {
        OTHER_SECRET: "its secret is another one",
        OTHER_SIZE: "its WORLD_SIZE is another one",
        TAKEN: "there is a rank of this number already",
    }
    return f"rank {rank} is turned away by {there}: {said.get(verdict, 'no reason is known here')}", same
