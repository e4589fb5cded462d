"""Bytes over connections: messages that come piece by piece."""

from __future__ import annotations

import selectors
import socket
import struct

HEADER = struct.Struct("<qqq")
"""Channel, tag, and bytes that follow."""


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
    """The message that is coming over a connection, piece by piece: no rank is kept waiting by a slow one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._expect(HEADER.size, None)

    def _expect(self, size: int, header: tuple[int, int] | None) -> None:
        self._bytes, self._header = bytearray(size), header
        self._rest = memoryview(self._bytes)

    def read(self) -> tuple[int, int, bytes] | None:
        """Read what is there; return channel, tag and bytes when a message is complete.

        Raises:
            EOFError: the connection has ended.
        """
        if len(self._rest):
            try:
                count = self._connection.recv_into(self._rest)
            except BlockingIOError:
                return None
            if not count:
                raise EOFError
            self._rest = self._rest[count:]
        if len(self._rest):
            return None
        if self._header is None:
            channel, tag, size = HEADER.unpack(self._bytes)
            self._expect(size, (channel, tag))
            return self.read()
        channel, tag = self._header
        packed = bytes(self._bytes)
        self._expect(HEADER.size, None)
        return channel, tag, packed


def receive(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes.

    Raises:
        EOFError: the connection ended before.
    """
    received = bytearray(size)
    view = memoryview(received)
    while len(view):
        count = connection.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return bytes(received)
