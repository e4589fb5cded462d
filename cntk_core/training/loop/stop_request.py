"""Ending a training between two minibatches because the process was told to (SIGTERM)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import attrs

from cntk_core.errors import TrainingError


class Stopped(TrainingError):
    """The process was told to end, and training has."""

    exit_code = 128 + 15


@attrs.define(eq=False)
class StopRequest:
    """Whether this process was told to end.

    Attributes:
        asked: it was.
    """

    asked: bool = False

    def obey(self, place: str, *, saved: bool = False) -> None:
        """Raise if the process was told to end.

        Args:
            place: where training is.
            saved: a checkpoint of this place was written.

        Raises:
            Stopped: it was.
        """
        if self.asked:
            raise stopped("training", place, saved=saved)


def stopped(who: str, place: str, *, saved: bool) -> Stopped:
    """Return the error that ends training, whoever was told to."""
    kept = "It is saved there" if saved else "What was saved before is kept"
    return Stopped(
        f"{who} was told to end (SIGTERM): it ends {place}", hint=f"{kept}; the same command goes on from it."
    )


def stopped_together(told: Sequence[bool], place: str, *, saved: bool) -> Stopped:
    """Return the error that ends all ranks; ``told`` says by rank who was."""
    named = ", ".join(str(rank) for rank, one in enumerate(told) if one)
    return stopped(f"training on rank {named}", place, saved=saved)


@contextmanager
def listening(stop: StopRequest) -> Iterator[None]:
    """Within, the first SIGTERM is noted, and training ends at the next minibatch; a second one ends the process.

    Threads other than the main one hear nothing.

    Raises:
        Stopped: what was done within is complete, but the process was told to end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL

    def note(number: int, frame: FrameType | None) -> None:
        stop.asked = True
        signal.signal(signal.SIGTERM, before)

    signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    stop.obey("after its last epoch", saved=True)
