"""The signals that ask a training to end (SIGTERM, SIGHUP, SIGUSR1), and who hears them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import attrs

from cntk_kit_recipes.session.stop_request import StopRequest

REQUESTS = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
"""Signals that ask for an end."""

ECHO = 2.0
"""Seconds within which a further signal is the same request: both a batch system and a launcher may pass one on."""


def heard_signals() -> list[signal.Signals]:
    """Return which of them this process listens to: SIGTERM, and others that nobody has made arrangements for.

    ``nohup`` has a process ignore SIGHUP, for example, and then it goes on.
    """
    return [one for one in REQUESTS if one == signal.SIGTERM or signal.getsignal(one) == signal.SIG_DFL]


@contextmanager
def listening(stop: StopRequest) -> Iterator[None]:
    """Within, the first request is noted, and training ends at the next minibatch; a later one ends the process.

    Threads other than the main one hear nothing.

    Raises:
        Stopped: what was done within is complete, but the process was told to end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in heard_signals()}
    first, wakeup = 0.0, _Wakeup()

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if not stop.asked:
            stop.asked, stop.number, first = True, number, time.monotonic()
            wakeup.begin([one for one, handler in before.items() if handler == signal.SIG_DFL])
        elif time.monotonic() - first >= ECHO:
            _restore(before)
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        wakeup.end()
        _restore(before)
    stop.obey("after its last epoch", saved=True)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


@attrs.define(eq=False)
class _Wakeup:
    """After the first request, a thread that ends the process at a later one: the main thread may be long at a sum."""

    _pipe: int = attrs.field(default=-1, init=False)

    def begin(self, numbers: Sequence[int]) -> None:
        """Wait for any of these signals; to be called in the main thread."""
        with suppress(OSError, RuntimeError):  # the main thread will hear it, too
            read, write = os.pipe()
            os.set_blocking(write, False)
            threading.Thread(target=_end_at_next, args=(read, numbers), daemon=True).start()
            self._pipe = write
            signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def end(self) -> None:
        """Wait no more."""
        if self._pipe >= 0:
            signal.set_wakeup_fd(-1)
            os.close(self._pipe)
            self._pipe = -1


def _end_at_next(handle: int, numbers: Sequence[int]) -> None:
    begun = time.monotonic()
    while got := os.read(handle, 1):
        if got[0] in numbers and time.monotonic() - begun >= ECHO:
            os._exit(128 + got[0])
    os.close(handle)
