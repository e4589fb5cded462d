"""Ending a training between two minibatches because the process was told to."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import attrs

from cntk_core.errors import TrainingError


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
