"""Bytes over connections: messages that come piece by piece."""

from __future__ import annotations

import selectors
import socket
import struct
from collections.abc import Iterator
from hashlib import blake2b

import attrs
import numpy as np

from cntk_kit_parallel.mesh_seal import SEAL, Seal, is_same

HEADER = struct.Struct("<qqq")
"""Channel, tag, and bytes that follow."""

LARGEST = 1 << 40
"""Bytes of a message; no machine has so many."""

OF_CONNECTION = 1 << 16
"""Bytes of a message about the connection itself, whose channel is below 0."""

_JOINED = 1 << 17
"""Up to so many bytes are copied to be sent at once with the header."""

_PIECE = 1 << 18
"""Bytes that are sent while those before them are sealed."""

Bytes = bytes | memoryview


class BadMessage(Exception):
    """What a rank has sent is no message; says why."""


@attrs.define(eq=False)
class Line:
    """A connection to another rank that has been greeted.

    Attributes:
        connection: takes and gives what there is, and does not block.
        incoming: what comes.
        seal: of what is sent; None if messages are not sealed.
    """

    connection: socket.socket
    incoming: Incoming
    seal: Seal | None = None

    @classmethod
    def over(cls, connection: socket.socket, keys: tuple[bytes, bytes] | None) -> Line:
        """Return the line over a connection with the keys of what is sent and of what comes."""
        if keys is None:
            return cls(connection, Incoming(connection))
        return cls(connection, Incoming(connection, Seal(keys[1])), Seal(keys[0]))

    def framed(self, channel: int, tag: int, body: Bytes) -> Iterator[Bytes]:
        """Return, piece by piece, what has to be sent for a message. Nothing may be left out."""
        head = HEADER.pack(channel, tag, len(body))
        if self.seal is None:
            yield from (b"".join((head, body)),) if len(body) <= _JOINED else (head, body)
            return
        head += self.seal.of_head(head)
        if not len(body):
            yield head
            return
        seal = self.seal.of_body()
        if len(body) <= _JOINED:
            seal.update(body)
            yield b"".join((head, body, seal.digest()))
            return
        yield head
        rest = memoryview(body)
        for begin in range(0, len(rest), _PIECE):
            piece = rest[begin : begin + _PIECE]
            yield piece
            seal.update(piece)
        yield seal.digest()


def await_room(connection: socket.socket, seconds: float) -> None:
    """Wait until a connection takes something, at most so long.

    Raises:
        OSError: it has been closed.
    """
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(connection, selectors.EVENT_WRITE)
        except ValueError as error:
            raise OSError(str(error)) from None
        selector.select(seconds)


class Incoming:
    """The message that is coming over a connection, piece by piece: no rank is kept waiting by a slow one.

    Attributes:
        announced: channel, tag and bytes of the message that is coming; None between messages. Where messages are
            sealed, the other rank has said so and nobody else.
        most: bytes that a message may have.
    """

    def __init__(self, connection: socket.socket, seal: Seal | None = None) -> None:
        self._connection, self._seal = connection, seal
        self._seal_size = SEAL if seal is not None else 0
        self.announced: tuple[int, int, int] | None = None
        self.most = LARGEST
        self._head = memoryview(bytearray(HEADER.size + self._seal_size))
        self._expect_head()

    def _expect_head(self) -> None:
        self._rest = self._bytes = self._head
        self._sealing: blake2b | None = None

    def _expect_body(self, size: int) -> None:
        """Make room for bytes. Memory is taken when they come, not before."""
        self._rest = self._bytes = memoryview(np.empty(size, np.uint8))  # type: ignore[arg-type] # an array is a buffer
        self._sealing = self._seal.of_body() if self._seal is not None else None

    def read(self) -> tuple[int, int, memoryview] | None:
        """Read what is there; return channel, tag and bytes when a message is complete.

        Raises:
            EOFError: the connection has ended.
            BadMessage: what has come is no message of the other rank.
        """
        if len(self._rest):
            try:
                count = self._connection.recv_into(self._rest)
            except BlockingIOError:
                return None
            if not count:
                raise EOFError
            self._update(count)
        if len(self._rest):
            return None
        if self.announced is None:
            self._open()
            return self.read()
        channel, tag, size = self.announced
        body = self._bytes[:size]
        if self._sealing is not None and size and not is_same(self._sealing.digest(), bytes(self._bytes[size:])):
            raise BadMessage("its seal is not that of the rank")
        self.announced = None
        self._expect_head()
        return channel, tag, body

    def _update(self, count: int) -> None:
        """Note bytes that have come; those of a body are sealed while the next ones are on their way."""
        if self._sealing is not None:
            of_body = max(0, len(self._rest) - self._seal_size)
            self._sealing.update(self._rest[: min(count, of_body)])
        self._rest = self._rest[count:]

    def _open(self) -> None:
        """See what is coming."""
        head = bytes(self._bytes[: HEADER.size])
        if self._seal is not None and not is_same(self._seal.of_head(head), bytes(self._bytes[HEADER.size :])):
            raise BadMessage("its seal is not that of the rank")
        channel, tag, size = HEADER.unpack(head)
        if not 0 <= size <= (self.most if channel >= 0 else OF_CONNECTION) or tag < 0:
            raise BadMessage(f"{size} bytes on channel {channel} with tag {tag} are not possible")
        self.announced = channel, tag, size
        self._expect_body(size + self._seal_size if size else 0)
