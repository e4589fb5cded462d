"""Progress of training and tests: when it is written, and what every writer is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Totals = Callable[[], tuple[float | None, float | None]]
"""Reads the sums of loss and metric since the last summary; None is what there is not."""


class _Pace:
    """Counts updates since the last summary, and says which of them are written.

    Args:
        frequency: every so many updates; 0: after 1, 3, 7, 15, ... updates.
        first: the first so many, too.
    """

    def __init__(self, frequency: int, first: int) -> None:
        self.frequency = frequency
        self.first = first
        self.total = self.summaries = 0
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.samples = self.updates = (0, 0)
        self.loss = self.metric = (0.0, 0.0)
        self.began = time.monotonic()

    def add(self, samples: int) -> bool:
        """Count an update. Returns whether it is written."""
        self.samples = (self.samples[0], self.samples[1] + samples)
        self.updates = (self.updates[0], self.updates[1] + 1)
        self.total += 1
        number = self.updates[1]
        if self.frequency == 0:
            return (number + 1) & number == 0
        return number % self.frequency == 0 or number <= self.first

    def read(self, totals: Totals) -> None:
        """Take the sums."""
        loss, metric = totals()
        self.loss = (self.loss[0], self.loss[1] if loss is None else loss)
        self.metric = (self.metric[0], self.metric[1] if metric is None else metric)

    def close_window(self) -> None:
        """Let the next window begin where this one ends."""
        self.samples, self.updates = (self.samples[1],) * 2, (self.updates[1],) * 2
        self.loss, self.metric = (self.loss[1],) * 2, (self.metric[1],) * 2

    def milliseconds(self) -> int:
        """Return how long it is since the last summary."""
        return int((time.monotonic() - self.began) * 1000)


class ProgressWriter:
    """Is told of the progress of trainers and evaluators; a class of one's own overrides the ``on_`` methods.

    Pairs that these get are (before the window, at its end), counted from the last summary on.

    Args:
        training_update_freq: :meth:`on_write_training_update` is called after every so many minibatches; 0: after 1, 3,
            7, ... of them.
        training_first: and after the first so many.
        test_freq, test_first: the same for tests.
        distributed_freq, distributed_first: the same for meetings of ranks.
    """

    def __init__(
        self,
        training_update_freq: int = sys.maxsize,
        training_first: int = 0,
        test_freq: int = sys.maxsize,
        test_first: int = 0,
        distributed_freq: int = sys.maxsize,
        distributed_first: int = 0,
    ) -> None:
        self._training = _Pace(training_update_freq, training_first)
        self._test = _Pace(test_freq, test_first)
        self._sync = _Pace(distributed_freq, distributed_first)

    def __disown__(self) -> None:
        """Do nothing: the original's writers were objects of C++ that had to be given away."""

    # -- overridden ---------------------------------------------------------------------------------------

    def on_write_training_update(
        self,
        samples: tuple[int, int],
        updates: tuple[int, int],
        aggregate_loss: tuple[float, float],
        aggregate_metric: tuple[float, float],
    ) -> None:
        """Write a window of minibatches: counts, and sums of loss and metric."""

    def on_training_update_end(self) -> None:
        """Note that a minibatch has ended, written or not."""

    def on_write_test_update(
        self, samples: tuple[int, int], updates: tuple[int, int], aggregate_metric: tuple[float, float]
    ) -> None:
        """Write a window of minibatches of a test."""

    def on_write_distributed_sync_update(
        self, samples: tuple[int, int], updates: tuple[int, int], aggregate_metric: tuple[float, float]
    ) -> None:
        """Write a window of meetings of the ranks."""

    def on_write_training_summary(
        self,
        samples: int,
        updates: int,
        summaries: int,
        aggregate_loss: float,
        aggregate_metric: float,
        elapsed_milliseconds: int,
    ) -> None:
        """Write the summary of an epoch, or of whatever the program takes for one."""

    def on_write_test_summary(
        self, samples: int, updates: int, summaries: int, aggregate_metric: float, elapsed_milliseconds: int
    ) -> None:
        """Write the summary of a test."""

    def write(self, key: str, value: float) -> None:
        """Write a number that has changed, such as a learning rate."""

    # -- called by trainers -------------------------------------------------------------------------------

    def total_training_updates(self) -> int:
        """Return how many minibatches there were."""
        return self._training.total

    def total_test_updates(self) -> int:
        """Return how many minibatches of tests there were."""
        return self._test.total

    def update_training(self, samples: int, totals: Totals) -> None:
        """Count a minibatch, and write if it is time."""
        pace = self._training
        if samples and pace.add(samples):
            pace.read(totals)
            self.on_write_training_update(pace.samples, pace.updates, pace.loss, pace.metric)
            pace.close_window()
        self.on_training_update_end()

    def update_test(self, samples: int, totals: Totals) -> None:
        """Count a minibatch of a test, and write if it is time."""
        pace = self._test
        if samples and pace.add(samples):
            pace.read(totals)
            self.on_write_test_update(pace.samples, pace.updates, pace.metric)
            pace.close_window()

    def update_distributed_sync(self, samples: int) -> None:
        """Count a meeting of the ranks, and write if it is time."""
        pace = self._sync
        if samples and pace.add(samples):
            self.on_write_distributed_sync_update(pace.samples, pace.updates, pace.metric)
            pace.close_window()

    def write_training_summary(self, totals: Totals) -> None:
        """Write a summary, and begin anew."""
        pace = self._summed(self._training, totals)
        self.on_write_training_summary(
            pace.samples[1], pace.updates[1], pace.summaries, pace.loss[1], pace.metric[1], pace.milliseconds()
        )
        pace.reset()

    def write_test_summary(self, totals: Totals) -> None:
        """Write the summary of a test, and begin anew."""
        pace = self._summed(self._test, totals)
        self.on_write_test_summary(
            pace.samples[1], pace.updates[1], pace.summaries, pace.metric[1], pace.milliseconds()
        )
        pace.reset()

    @staticmethod
    def _summed(pace: _Pace, totals: Totals) -> _Pace:
        if pace.samples[1]:
            pace.read(totals)
        pace.summaries += 1
        return pace


def average(numerator: Any, denominator: Any) -> float:
    """Return a quotient of numbers, or of the differences of pairs; 0 where there is nothing to divide by."""
    above = numerator[1] - numerator[0] if isinstance(numerator, tuple) else numerator
    below = denominator[1] - denominator[0] if isinstance(denominator, tuple) else denominator
    return float(above / below) if below > 0 else 0.0
