"""The lines of ranks that come through their launcher, without those that nobody needs to see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import IO

from cntk_core.system.console import tell

Shown = Callable[[Iterable[str]], Iterable[str]]
"""Of lines without their ends, those that are shown."""

_LEFT_OVER = 2.0
"""Seconds for lines that come when the launcher has ended: a process that is left over may keep the stream open."""


@contextmanager
def passing_on(stream: IO[str] | None, shown: Shown | None) -> Iterator[None]:
    """Within, the lines of a stream are written to the standard error stream as they come.

    Args:
        stream: of the launcher; None if it writes there by itself.
        shown: which of them.
    """
    if stream is None or shown is None:
        yield
        return
    lines = (line.rstrip("\n") for line in stream)

    def work() -> None:
        for line in shown(lines):
            tell(line)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(_LEFT_OVER)
