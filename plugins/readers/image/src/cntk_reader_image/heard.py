"""What Pillow remarks on a file, without a way to say which: caught, for those who know the file."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

_mine = threading.local()


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the warnings that are given in this thread.

    The standard library's own way to catch them replaces what all threads share, and puts it back: of two threads
    the second puts back what the first has put there. So it is used once for all threads that listen.
    """
    texts: list[str] = []
    _listeners.join()
    _mine.texts = texts
    try:
        yield texts
    finally:
        del _mine.texts
        _listeners.leave()


class _Listeners:
    """Counts the threads that listen; while there is one, warnings come here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._restore = ExitStack()

    def join(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._restore.enter_context(warnings.catch_warnings())
                warnings.simplefilter("always")
                _divert()

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._restore.close()


def _divert() -> None:
    """Give the warnings of a thread that listens to it, and all others to whom they went."""
    others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        texts = getattr(_mine, "texts", None)
        if texts is None:
            others(message, category, filename, lineno, file, line)
        else:
            texts.append(" ".join(str(message).split()))

    warnings.showwarning = show


_listeners = _Listeners()
