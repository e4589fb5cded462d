"""Room on Python's stack for deep networks and deep texts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FRAMES = 600_000
"""Frames that parser and evaluator may use. Calls between Python functions take no room on the machine's stack, and
both have a limit of their own on the depth of what they walk, which is reached first."""

_lock = threading.Lock()
_users = 0
_before = 0


@contextmanager
def deep_stack() -> Iterator[None]:
    """Raise the recursion limit inside of the block; the last block to end puts it back."""
    global _users, _before
    with _lock:
        if _users == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, FRAMES))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                sys.setrecursionlimit(_before)
