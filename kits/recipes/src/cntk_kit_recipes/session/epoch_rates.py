"""The learning rate and the size of minibatches of the next epoch: given, adjusted, or searched with trials."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import attrs

from cntk_core.contract.reader import DataReader, EpochSpec
from cntk_core.training.rates.auto_adjust import RateControl
from cntk_kit_recipes.session.epoch import EpochLoop
from cntk_kit_recipes.session.epoch_progress import EpochResult, Pace
from cntk_kit_recipes.session.minibatch_size_search import is_kept, search_size, size_range
from cntk_kit_recipes.session.rate_control import ControlState, single
from cntk_kit_recipes.session.rate_search import Search, search_rate, share_of_trial

TRIAL_MARGIN = 0.3
"""Share of ``minLearningRatePerSample`` below which no rate is tried."""


class Try(Protocol):
    """Makes one trial."""

    def __call__(self, rate: float, minibatch_size: int, name: str) -> float:
        """Return the average criterion of the first samples of the epoch, learned with a rate and a size."""
        ...


@attrs.frozen
class Pacing:
    """Decides how an epoch goes through the data.

    Trials leave nothing behind: parameters, the learner's slots and the count of updates are put back, random numbers
    are keyed by the epoch, and a reader gives the same minibatches for the same epoch whatever was read before.

    Attributes:
        loop: trains.
        reader: gives the data.
    """

    loop: EpochLoop
    reader: DataReader

    def decide(self, epoch: int, state: ControlState, epoch_samples: int) -> tuple[Pace, ControlState]:
        """Return the pace of an epoch (from 0), and what control remembers now.

        Args:
            epoch: its index.
            state: what control remembers.
            epoch_samples: samples of an epoch, 0 if not known yet.
        """
        settings = self.loop.settings
        size = settings.minibatch_size[epoch]
        if settings.has_rate(epoch):
            rate = settings.rate(epoch, state.rows)
            # The original's rates are of single precision, and adjusted ones are products of them.
            state = attrs.evolve(state, rate=single(rate))
        else:
            if settings.auto_adjust.rate_control is RateControl.BEFORE:
                state = self._search_rate(epoch, state, epoch_samples)
            rate = state.rate
        if not settings.has_minibatch_size(epoch) and rate >= settings.min_learning_rate_per_sample:
            size, state = self._search_size(epoch, rate, state, epoch_samples)
        may_fail = self.compares(epoch) and settings.auto_adjust.rolls_back and state.previous is not None
        return Pace(epoch, rate, size, may_fail=may_fail), state

    def compares(self, epoch: int) -> bool:
        """Whether the rate is adjusted after an epoch."""
        options, given = self.loop.settings.auto_adjust, self.loop.settings.has_rate(epoch)
        return not given and options.rate_control is RateControl.AFTER and (epoch + 1) % options.interval == 0

    def _search_rate(self, epoch: int, state: ControlState, epoch_samples: int) -> ControlState:
        settings, options = self.loop.settings, self.loop.settings.auto_adjust
        size, samples = settings.minibatch_size[epoch], self._trial_samples(epoch)
        search = Search(
            size,
            state.searched,
            TRIAL_MARGIN * settings.min_learning_rate_per_sample,
            state.previous,
            0.0 if options.better_than_unchanged else share_of_trial(samples, settings.epoch_size),
            epoch < options.num_best_search_epoch,
        )
        with self._trials(epoch, epoch_samples) as trial:
            rate, base = search_rate(search, lambda rate, name: trial(rate, size, name))
        self.loop.log.line(
            f" SearchForBestLearnRate Epoch[{epoch + 1}]: Best learningRatePerSample = {rate:.10g}, "
            f"baseCriterion={base:.10g}"
        )
        before = state.rate or 0.5 / size
        found = (*state.searched, rate)[-options.num_prev_learn_rates :]
        return attrs.evolve(state, rate=rate, searched=found, rate_change=rate / before)

    def _search_size(
        self, epoch: int, rate: float, state: ControlState, epoch_samples: int
    ) -> tuple[int, ControlState]:
        settings, log = self.loop.settings, self.loop.log
        options, previous = settings.auto_adjust, state.minibatch_size
        if epoch < 2 and previous:
            log.line(f" Before Epoch[2], previous minibatchSize {previous} is considered invalid -> resetting.")
            previous = 0
        if is_kept(options, epoch, previous):
            log.line(
                f" AdaptiveMinibatchSearch: Search for a better minibatchSize in epoch {epoch + 1} skipped, "
                f"keeping minibatchSize of {previous}"
            )
            return previous, state
        change = state.rate_change * (settings.rate(epoch) / settings.rate(0) if settings.given_rates else 1.0)
        sizes = size_range(options, settings.minibatch_size[epoch], change, previous)
        margin = options.minibatch_search_criterion_error_margin
        with self._trials(epoch, epoch_samples) as trial:
            chosen = search_size(sizes, margin, epoch, lambda size, name: trial(rate, size, name), log)
        if log.trace_level < 1 and chosen != previous:
            log.line(f"Minibatch size adapted to {chosen}.")
        return chosen, attrs.evolve(state, minibatch_size=chosen)

    def _trial_samples(self, epoch: int) -> int:
        settings = self.loop.settings
        samples = settings.auto_adjust.trial_samples(epoch, settings.minibatch_size)
        return min(samples, settings.epoch_size) if settings.epoch_size else samples

    @contextmanager
    def _trials(self, epoch: int, epoch_samples: int) -> Iterator[Try]:
        """Give a function that makes trials, each from the state of now; say afterwards how long they took."""
        began, count = time.perf_counter(), 0
        loop, limit = self.loop, self._trial_samples(epoch)
        if said := loop.together(Pace(epoch, 0.0, 1, trial="trial")).begin(loop.store):
            loop.log.line(said)
        before, steps = loop.store.snapshot(), loop.steps

        def trial(rate: float, minibatch_size: int, name: str) -> float:
            nonlocal count
            count += 1
            spec = EpochSpec(epoch=epoch, epoch_size=loop.settings.epoch_size, minibatch_size=minibatch_size)
            pace = Pace(epoch, rate, minibatch_size, trial=name, limit=limit, may_fail=True)
            try:
                result = self._try(pace, spec, epoch_samples)
            finally:
                loop.store.restore(before)
                loop.steps = steps
            loop.log.trial_ends(epoch, result.criteria, rate, minibatch_size)
            return result.loss

        yield trial
        loop.log.trials_end(epoch, count, time.perf_counter() - began)

    def _try(self, pace: Pace, spec: EpochSpec, epoch_samples: int) -> EpochResult:
        """Learn the beginning of an epoch, with the other ranks if their gradients are summed."""
        loop = self.loop
        parts, together = loop.settings.parts(pace.minibatch_size), loop.together(pace)
        with together.trial(pace.epoch):
            loop.log.loop_begins(parts, loop.settings.max_samples_in_ram, together.describe(pace.epoch))
            return loop.run(self.reader.minibatches(together.spec(spec)), pace, epoch_samples)
