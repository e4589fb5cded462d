"""Ending a training between two minibatches because the process was told to (SIGTERM, SIGHUP, SIGUSR1)."""

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

from cntk_core.errors import TrainingError

REQUESTS = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
"""Signals that ask for an end."""

ECHO = 2.0
"""Seconds within which a further signal is the same request: both a batch system and a launcher may pass one on."""


class Stopped(TrainingError):
    """The process was told to end, and training has.

    Args:
        message, hint: as for every error.
        number: of the signal.
    """

    def __init__(self, message: str, *, hint: str, number: int = signal.SIGTERM) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = 128 + number


@attrs.define(eq=False)
class StopRequest:
    """Whether this process was told to end.

    Attributes:
        asked: it was.
        number: of the signal that told it.
    """

    asked: bool = False
    number: int = signal.SIGTERM

    def obey(self, place: str, *, saved: bool = False) -> None:
        """Raise if the process was told to end.

        Args:
            place: where training is.
            saved: a checkpoint of this place was written.

        Raises:
            Stopped: it was.
        """
        if self.asked:
            raise stopped("training", place, self.number, saved=saved)


def stopped(who: str, place: str, number: int, *, saved: bool) -> Stopped:
    """Return the error that ends training, whoever was told to by the signal of this number."""
    kept = "It is saved there" if saved else "What was saved before is kept"
    return Stopped(
        f"{who} was told to end ({signal.Signals(number).name}): it ends {place}",
        hint=f"{kept}; the same command goes on from it.",
        number=number,
    )


def stopped_together(told: Sequence[int], place: str, *, saved: bool) -> Stopped:
    """Return the error that ends all ranks; ``told`` says by rank which signal it got, 0 for none."""
    named = ", ".join(str(rank) for rank, number in enumerate(told) if number)
    return stopped(
        f"training on rank {named}" if len(told) > 1 else "training", place, next(filter(None, told)), saved=saved
    )


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
