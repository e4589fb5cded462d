"""A process that ends with the one that has started it, also if that is killed without a chance to say so."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_BOUND = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
try:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
except (OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(128 + signal.SIGTERM)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Lets the system send a signal when the parent is gone, sees that it is there still, and becomes another program."""


def bound(command: Sequence[str]) -> list[str]:
    """Return a command that is told to end (SIGTERM) when this process has ended, however that happens.

    It is the command itself where the system cannot do that: on all but Linux.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
