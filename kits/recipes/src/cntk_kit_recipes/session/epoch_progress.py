"""What an epoch has given so far: counts, sums of criteria, log lines, the place for a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import attrs

from cntk_core.contract.events import MinibatchResult
from cntk_core.errors import DataError, TrainingError
from cntk_core.training.files.position import Position
from cntk_core.training.loop.criteria import Criterion, CriterionSums, since
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.session.run_log import RunLog, averages, share_of_epoch


class NotANumber(TrainingError):
    """The training criterion is not a number.

    Args:
        minibatches: of the epoch, learned until it was noticed.
        hint: when it happened, and what may help.
    """

    def __init__(self, minibatches: int, *, hint: str | None) -> None:
        super().__init__("The training criterion is not a number (NAN).", hint=hint)
        self.minibatches = minibatches


@attrs.frozen
class Pace:
    """How an epoch, or a trial before it, goes through the data.

    Attributes:
        epoch: index, from 0.
        rate: learning rate per sample.
        minibatch_size: samples of a minibatch.
        trial: what the log calls a trial; empty for an epoch. Nobody is told of a trial's minibatches.
        limit: a trial ends after the minibatch that passes this number of samples; 0 is no limit.
        may_fail: a criterion that is not a number ends it early; otherwise that is an error.
    """

    epoch: int
    rate: float
    minibatch_size: int
    trial: str = ""
    limit: int = 0
    may_fail: bool = False


@attrs.frozen
class EpochResult:
    """What an epoch gave.

    Attributes:
        criteria: sums by name; the training criterion comes first.
        samples: samples learned.
        minibatches: minibatches learned.
        seconds: wall-clock time.
    """

    criteria: Mapping[str, Criterion]
    samples: int
    minibatches: int
    seconds: float

    @property
    def loss(self) -> float:
        """Average of the training criterion."""
        return next(iter(self.criteria.values())).average


class EpochProgress:
    """Counts the minibatches of an epoch and shows them when it is time to.

    Args:
        sums: of the criteria.
        pace: of the epoch.
        log: where lines go.
        settings: when there are lines.
        tell: called with each minibatch; None if nobody listens.
        epoch_samples: samples of the epoch, 0 if not known.
        first_stream: number of this rank's first random stream in the epoch.

    Attributes:
        count: minibatches so far.
        read: samples that the reader counts, of all ranks that learn together.
        own_read: samples that the reader of this rank counts.
        is_over: the epoch or the trial ends after this minibatch.
    """

    def __init__(
        self,
        sums: CriterionSums,
        pace: Pace,
        log: RunLog,
        settings: SGDSettings,
        tell: Callable[[MinibatchResult], None] | None = None,
        *,
        epoch_samples: int = 0,
        first_stream: int = 0,
    ) -> None:
        self.sums = sums
        self.pace = pace
        self.epoch_samples = epoch_samples
        self.count = 0
        self.is_over = False
        self.read = 0
        self.own_read = 0
        self._log = log
        self._settings = settings
        self._tell = None if pace.trial else tell
        self._first_stream = first_stream
        self._shown: Mapping[str, Criterion] = {}
        self._shown_at = 0
        self._began = self._mark = time.perf_counter()

    def go_on(self, position: Position) -> None:
        """Take back what an earlier run had counted."""
        self.count, self.own_read = position.minibatches, position.read
        self.read = position.read_by_all
        self.sums.restore(position.sums, position.samples)
        self._shown = {name: Criterion(total, samples) for name, (total, samples) in position.shown.items()}
        self._shown_at = position.shown_at
        self._began -= position.seconds

    @property
    def place(self) -> str:
        """Where training is, in words."""
        what = "a trial for epoch" if self.pace.trial else "epoch"
        return f"after minibatch {self.count} of {what} {self.pace.epoch + 1}"

    def position(self) -> Position | None:
        """Return the place after the last minibatch; None if the program cannot tell what it takes along."""
        program = self.sums.program.state()
        if program is None:
            return None
        return Position(
            minibatches=self.count,
            passes=self.sums.program.step - (self.pace.epoch << 32) - self._first_stream,
            samples=self.sums.samples,
            read=self.own_read,
            read_by_all=self.read,
            rate=self.pace.rate,
            minibatch_size=self.pace.minibatch_size,
            may_fail=self.pace.may_fail,
            sums=self.sums.fetched,
            shown={name: (shown.total, shown.samples) for name, shown in self._shown.items()},
            shown_at=self._shown_at,
            seconds=time.perf_counter() - self._began,
            program=program,
        )

    def done(self, samples: int, read: int) -> None:
        """Note that a minibatch was learned; its sums have been added up.

        Args:
            samples: that count in the criteria.
            read: that the reader counts.
        """
        self.count += 1
        self.read += read
        settings = self._settings
        bar = None if self.pace.trial else self._log.bar
        every = settings.num_mbs_to_show_result
        fresh: Mapping[str, Criterion] = {}
        if self.count <= settings.first_mbs_to_show_result or (every and self.count % every == 0):
            fresh = self._show()
        if 0 < self.pace.limit < self.read:
            self.is_over = True
        if bar is not None:
            bar.advance(self.sums.samples, next(iter(fresh.values())).average if fresh else None)
        if self._tell is not None:
            seconds = time.perf_counter() - self._began
            samples_now = self.sums.samples
            self._tell(MinibatchResult(self.pace.epoch, self.count - 1, samples, samples_now, averages(fresh), seconds))

    def _show(self) -> Mapping[str, Criterion]:
        now = self.sums.read()
        fresh = since(now, self._shown)
        seconds = time.perf_counter() - self._mark
        size, epoch = self.pace.minibatch_size, self.pace.epoch
        share = share_of_epoch(self.sums.samples, self.epoch_samples, size, self.count - self._shown_at)
        first, last = self._shown_at + 1, self.count
        epochs = self._settings.max_epochs
        self._log.minibatches(epoch, epochs, first, last, share, fresh, seconds, trial=self.pace.trial)
        self._check(now)
        self._shown, self._shown_at, self._mark = now, self.count, time.perf_counter()
        return fresh

    def _check(self, criteria: Mapping[str, Criterion]) -> None:
        if not math.isnan(next(iter(criteria.values())).total):
            return
        self.is_over = True
        if not self.pace.may_fail:
            raise NotANumber(
                self.count,
                hint=f"It happened in epoch {self.pace.epoch + 1}, minibatches {self._shown_at + 1} to {self.count}.\n"
                "A lower learning rate or clippingThresholdPerSample may help.",
            )

    def finish(self) -> EpochResult:
        """Return what the epoch gave."""
        # A small epoch may lie inside one long sequence that the epoch before has read to its end.
        if not self.read and (self.pace.epoch == 0 or not self._settings.epoch_size):
            raise DataError(
                f"there is no data to train on: the reader gave no minibatch in epoch {self.pace.epoch + 1}"
            )
        criteria = self.sums.read()
        self._check(criteria)
        return EpochResult(criteria, self.sums.samples, self.count, time.perf_counter() - self._began)
