"""Callbacks: who is told how a fit goes, and may end it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from cntk_fit.history import History

if TYPE_CHECKING:
    from cntk_core.api import Network
    from cntk_core.api.training import StepResult, Trainer


@attrs.define(eq=False)
class Fitting:
    """A fit while it runs, as callbacks see it.

    Attributes:
        trainer: what learns; rates of its learners may be changed.
        epochs: how many epochs were asked for.
        history: the epochs that are done.
        epoch: the epoch that is learned or was learned last, from 1.
        minibatch: the minibatch that was learned last in it, from 1.
        ended: why training is to end; empty while it goes on.
    """

    trainer: Trainer
    epochs: int
    history: History
    epoch: int = 0
    minibatch: int = 0
    ended: str = ""

    @property
    def network(self) -> Network:
        """What is trained, with its parameters as they are now."""
        return self.trainer.model.network

    @property
    def training(self) -> Mapping[str, float]:
        """The criteria of the epoch that was learned last."""
        return self.history.training[-1] if self.history.training else {}

    @property
    def validation(self) -> Mapping[str, float]:
        """The criteria of the validation set after it; empty without one."""
        return self.history.validation[-1] if self.history.validation else {}

    def stop(self, reason: str = "a callback asked for it") -> None:
        """End training: after the minibatch, or, when an epoch has ended, before the next one."""
        self.ended = self.ended or reason


class Callback:
    """Is told how a fit goes. Override what you need; what is not overridden costs nothing."""

    def fit_begins(self, fitting: Fitting) -> None:
        """Hear that training begins, or goes on."""

    def epoch_begins(self, fitting: Fitting) -> None:
        """Hear that an epoch begins."""

    def minibatch_ends(self, fitting: Fitting, result: StepResult) -> None:
        """Hear that a minibatch was learned; ``result.loss`` waits for the engine."""

    def epoch_ends(self, fitting: Fitting) -> None:
        """Hear that an epoch was learned and validated."""

    def fit_ends(self, fitting: Fitting) -> None:
        """Hear that training has ended and the best parameters are in place, if they were asked for."""


class _EpochEnds(Callback):
    """A function that is called after each epoch."""

    def __init__(self, function: Callable[[Fitting], Any]) -> None:
        self._function = function

    def epoch_ends(self, fitting: Fitting) -> None:
        self._function(fitting)


class Callbacks:
    """Calls several.

    Args:
        given: callbacks, or functions of a :class:`Fitting` that are called after each epoch.
    """

    def __init__(self, given: Sequence[Callback | Callable[[Fitting], Any]]) -> None:
        self.all = [each if isinstance(each, Callback) else _EpochEnds(each) for each in given]
        self.of_minibatches = [each for each in self.all if type(each).minibatch_ends is not Callback.minibatch_ends]

    def tell(self, what: str, fitting: Fitting) -> None:
        """Call all with the name of an event."""
        for each in self.all:
            getattr(each, what)(fitting)
