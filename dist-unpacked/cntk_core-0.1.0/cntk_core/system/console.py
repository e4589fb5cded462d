"""The console, which may be closed, full, or gone: that is no reason to end."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

_GONE = {errno.EPIPE, errno.EBADF, errno.EIO, errno.ENXIO}
"""What the system says of a reader, or a terminal, that will not come back."""

_STREAMS = ("stdin", "stdout", "stderr")


def tell(text: str) -> bool:
    """Write a line to the standard error stream of the moment; return whether that could be done."""
    return write_line(sys.stderr, text)


def write_line(stream: TextIO | None, text: str) -> bool:
    """Write a line to a stream; return whether that could be done."""
    if stream is None or getattr(stream, "closed", False):
        return False
    try:
        stream.write(text + "\n")
        stream.flush()
    except OSError as error:
        if error.errno in _GONE:
            abandon(stream)
        return False
    return True


def abandon(stream: TextIO) -> None:
    """Let what is written to a stream from now on, by whomever, go nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, stream.fileno())
        os.close(handle)


def open_missing() -> None:
    """Give this process the standard streams that it was started without.

    Otherwise the next file that is opened would get the number of one, and whatever a library prints would go into it.
    """
    for number, name in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 - kept open


def leave() -> None:
    """At the end, give up what the console has not taken: Python would report that as a failure of the program."""
    if sys.stderr is not None and not getattr(sys.stderr, "closed", False):
        try:
            sys.stderr.flush()
        except OSError:
            abandon(sys.stderr)


class SteadyStream:
    """A stream for a library that writes to the console: what cannot be written is left out.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, if that can be done."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is still to be written, if that can be done."""
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
