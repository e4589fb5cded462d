"""Importing a plugin: how long it takes, where its output goes, and an end for one that hangs.

An import cannot be stopped safely from outside, but it can be interrupted as Ctrl-C does: a signal raises an exception
in the main thread, which also wakes it up from waiting. The plugin is then a broken one and everything else goes on.
Where that does not help within a few seconds (it hangs in native code, or is not imported in the main thread), the
process ends with a message that names the plugin.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any, TextIO

from cntk_core.errors import UsageError
from cntk_core.plugins.places import Source, Taken, short_place

TIMEOUT_SWITCH = "CNTK_PLUGIN_TIMEOUT"
"""Environment variable: seconds that a plugin has to be imported; 0 is no limit."""

DEFAULT_TIMEOUT = 60.0
"""Seconds. A busy machine imports the largest libraries in a third of it."""

PATIENCE = 5.0
"""Seconds that an import has to end after it was interrupted."""


class ImportTimeout(BaseException):
    """An import took too long. No ``except Exception`` of the plugin may keep it.

    Attributes:
        place: the line where it was, ``folder/file.py:3``; empty if that is not known.
    """

    def __init__(self, seconds: float, place: str) -> None:
        where = f"; it was at {place}" if place else ""
        super().__init__(f"it was not done after {seconds:g} s ({TIMEOUT_SWITCH}){where}")
        self.place = place


@contextmanager
def importing(source: Source, end: Callable[[int], Any] = os._exit, *, module: str = "") -> Iterator[Taken]:
    """Within, a plugin is imported.

    Args:
        source: whose it is.
        end: ends the process when nothing else does.
        module: what is imported. Nobody waits for one that has been: to start a watch takes longer than that.

    Raises:
        ImportTimeout: it took longer than :data:`TIMEOUT_SWITCH` allows.
    """
    taken = Taken()
    begun = time.perf_counter()
    limit = allowed_seconds()
    watch = _Watch(source, limit, end) if limit and module not in sys.modules else nullcontext()
    sys.stdout = output = _Labelled(sys.stdout, str(source))
    try:
        with watch:
            yield taken
    finally:
        output.done()
        if sys.stdout is output:
            sys.stdout = output.real
        taken.seconds = time.perf_counter() - begun


def allowed_seconds() -> float:
    """Return how long an import may take; 0 is no limit.

    Raises:
        UsageError: :data:`TIMEOUT_SWITCH` is no number of seconds.
    """
    text = os.environ.get(TIMEOUT_SWITCH, "").strip()
    if not text:
        return DEFAULT_TIMEOUT
    with suppress(ValueError):
        seconds = float(text)
        if 0 <= seconds < threading.TIMEOUT_MAX:
            return seconds
    raise UsageError(f"{TIMEOUT_SWITCH}={text} is no number of seconds", hint="0 is no limit.")


class _Watch:
    """Interrupts the thread that made it, unless it is told in time that everything is over."""

    def __init__(self, source: Source, limit: float, end: Callable[[int], Any]) -> None:
        self._source = source
        self._limit = limit
        self._end = end
        self._thread = threading.current_thread()
        self._over = threading.Event()
        self._is_late = False
        self._before: Any = None
        self._signal: Any = getattr(signal, "SIGALRM", None)
        self._interrupts = self._signal is not None and self._thread is threading.main_thread()

    def __enter__(self) -> None:
        if self._interrupts:
            self._before = signal.signal(self._signal, self._handle)
        threading.Thread(target=self._wait, name=f"import of {self._source}", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._interrupts:
            signal.signal(self._signal, self._before if self._before is not None else signal.SIG_DFL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_late and not self._over.is_set():
            raise ImportTimeout(self._limit, _place(frame))
        if callable(self._before):  # somebody else's alarm
            self._before(number, frame)

    def _wait(self) -> None:
        if self._over.wait(self._limit):
            return
        self._is_late = True
        if self._interrupts and self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, self._signal)
            if self._over.wait(PATIENCE):
                return
        place = _place(sys._current_frames().get(self._thread.ident or 0))
        print(
            f"error: the import of {self._source} hangs: it was not done after {self._limit:g} s "
            f"({TIMEOUT_SWITCH}), and cannot be interrupted"
            + (f"\n    it is at {place}" if place else "")
            + f"\n    Leave it out (--no-plugin {self._source.qualifier}), or remove it.",
            file=sys.stderr,
            flush=True,
        )
        self._end(1)


def _place(frame: FrameType | None) -> str:
    """The innermost line that is neither of the import machinery nor of this module."""
    frames = [] if frame is None else traceback.extract_stack(frame)
    found = [
        one
        for one in frames
        if not one.filename.startswith("<") and one.filename != __file__ and "importlib" not in one.filename
    ]
    return short_place(found[-1].filename, found[-1].lineno) if found else ""


class _Labelled:
    """Standard output while a plugin is imported: lines go to standard error with its name in front.

    What the plugin keeps of it goes to standard output once the import is over.
    """

    def __init__(self, real: TextIO, name: str) -> None:
        self.real = real
        self._name = name
        self._active = True
        self._line = ""

    def write(self, text: str) -> int:
        """Write, with the name in front of each line."""
        if not self._active:
            return self.real.write(text)
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            print(f"{self._name}: {line}", file=sys.stderr)
        return len(text)

    def done(self) -> None:
        """Write what is left; the import is over."""
        if self._line:
            print(f"{self._name}: {self._line}", file=sys.stderr)
        self._line, self._active = "", False
        with suppress(Exception):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)
