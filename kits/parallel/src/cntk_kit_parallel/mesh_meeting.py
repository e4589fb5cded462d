"""Where ranks meet, and how each gets a connection to each other one."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Mapping
from hashlib import blake2b

import attrs

from cntk_core.errors import RankGone
from cntk_kit_parallel.mesh_bytes import receive

_HELLO = struct.Struct("<16sqq")
"""Digest of the run's secret, rank, and port at which the rank listens."""


@attrs.frozen
class Rendezvous:
    """Where ranks meet.

    Attributes:
        rank, size: this rank and how many there are.
        address, port: of rank 0.
        secret: what all ranks of a run know.
    """

    rank: int
    size: int
    address: str
    port: int
    secret: bytes

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Rendezvous:
        """Read ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``; a single rank where they are not set."""
        port = int(environment.get("MASTER_PORT", "29500"))
        if environment.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true":
            port += 1  # torchrun listens at the other one
        secret = environment.get("CNTK_SECRET", "") or environment.get("TORCHELASTIC_RUN_ID", "")
        return cls(
            int(environment.get("RANK", "0")),
            int(environment.get("WORLD_SIZE", "1")),
            environment.get("MASTER_ADDR", "127.0.0.1"),
            port,
            blake2b(secret.encode(), digest_size=16).digest(),
        )


def rendezvous_here() -> Rendezvous:
    """The meeting that the environment of this process names."""
    return Rendezvous.of(os.environ)


def connect(meeting: Rendezvous, patience: float) -> dict[int, socket.socket]:
    """Return a connection to every other rank, none of which blocks.

    Args:
        meeting: where the ranks meet.
        patience: seconds within which all must have come.

    Raises:
        RankGone: a rank has not come, or cannot be reached.
    """
    party = _Party(meeting, time.monotonic() + patience)
    try:
        party.gather()
        for connection in party.peers.values():
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        for connection in party.peers.values():
            connection.close()
        raise
    return party.peers


class _Party:
    """The ranks that have come so far; ``end`` is when all must have."""

    def __init__(self, meeting: Rendezvous, end: float) -> None:
        self._meeting, self._end = meeting, end
        self.rank, self.size = meeting.rank, meeting.size
        self.peers: dict[int, socket.socket] = {}

    def gather(self) -> None:
        """Meet all others."""
        place = ("", self._meeting.port) if self.rank == 0 else ("", 0)
        with socket.create_server(place, backlog=self.size, family=socket.AF_INET) as server:
            server.settimeout(1.0)
            if self.rank == 0:
                self._receive_all(server)
            else:
                self._join(server)

    def _receive_all(self, server: socket.socket) -> None:
        """As rank 0: wait for all others, then tell each where the others are."""
        places: dict[int, tuple[str, int]] = {}
        while len(self.peers) < self.size - 1:
            rank, port, connection, host = self._accept(server)
            self.peers[rank] = connection
            places[rank] = (host, port)
        table = "\n".join(f"{rank} {host} {port}" for rank, (host, port) in sorted(places.items())).encode()
        for connection in self.peers.values():
            connection.sendall(struct.pack("<q", len(table)) + table)

    def _join(self, server: socket.socket) -> None:
        """As another rank: go to rank 0, then to the ranks before, and wait for those after."""
        port = int(server.getsockname()[1])
        first = self._go_to((self._meeting.address, self._meeting.port), port)
        self.peers[0] = first
        first.settimeout(max(1.0, self._end - time.monotonic()))
        (size,) = struct.unpack("<q", receive(first, 8))
        for line in receive(first, size).decode().splitlines():
            other, host, there = line.split()
            if int(other) < self.rank:
                self.peers[int(other)] = self._go_to((host, int(there)), port)
        while len(self.peers) < self.size - 1:
            rank, _, connection, _ = self._accept(server)
            self.peers[rank] = connection

    def _go_to(self, place: tuple[str, int], port: int) -> socket.socket:
        while True:
            try:
                connection = socket.create_connection(place, timeout=5.0)
                connection.sendall(_HELLO.pack(self._meeting.secret, self.rank, port))
                return connection
            except OSError as error:
                if time.monotonic() > self._end:
                    raise RankGone(
                        f"rank {self.rank} does not reach {place[0]}:{place[1]}: {error.strerror or error}",
                        hint="MASTER_ADDR and MASTER_PORT name rank 0; all ranks must be able to reach each other.",
                    ) from None
                time.sleep(0.1)

    def _accept(self, server: socket.socket) -> tuple[int, int, socket.socket, str]:
        while True:
            if time.monotonic() > self._end:
                here = {self.rank, *self.peers}
                missing = ", ".join(str(rank) for rank in range(self.size) if rank not in here)
                raise RankGone(f"rank {self.rank} has waited in vain for rank {missing} to connect")
            try:
                connection, (host, *_) = server.accept()
            except TimeoutError:
                continue
            connection.settimeout(5.0)
            with contextlib.suppress(OSError, EOFError, struct.error):
                secret, rank, port = _HELLO.unpack(receive(connection, _HELLO.size))
                if secret == self._meeting.secret and 0 <= rank < self.size and rank not in (self.rank, *self.peers):
                    return rank, port, connection, host
            connection.close()  # nobody of ours
