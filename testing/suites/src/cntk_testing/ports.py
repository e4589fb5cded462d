"""Ports at which ranks meet in tests."""

from __future__ import annotations

import os
import random
import socket

FIRST, LAST = 15_000, 32_000
"""Below those that the system gives to every connection: a port of these is still free a moment later."""

_RANDOM = random.Random(os.urandom(8))


def free_port() -> int:
    """Return a port of this machine at which nobody listens, and nobody will who does not ask for it by its number.

    A port of the system's choice may be anybody's connection before the ranks of a test have met there.
    """
    while True:
        port = _RANDOM.randint(FIRST, LAST)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
