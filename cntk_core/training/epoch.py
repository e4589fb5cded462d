"""The minibatch loop of one epoch: gradients, update, and a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np

from cntk_core.errors import DataError, TrainingError
from cntk_core.interfaces.engine import Program
from cntk_core.interfaces.learner import Learner, UpdateContext
from cntk_core.interfaces.reader import Minibatch
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.random import random_stream
from cntk_core.plugins.events import Job, MinibatchResult
from cntk_core.training.columns import MinibatchSizes
from cntk_core.training.criteria import Criterion, CriterionSums, averages, is_nan, since
from cntk_core.training.gradient_check import GradientCheck
from cntk_core.training.position import Position
from cntk_core.training.progress import RunLog, share_of_epoch
from cntk_core.training.schedules import effective_momentum
from cntk_core.training.settings import SGDSettings
from cntk_core.training.store import ParameterStore
from cntk_core.training.subminibatch import split
from cntk_core.training.update import NOISE_SLOT, clip_factor, count_uses, scalars_for

NOISE_STREAM = (1 << 64) - 1
"""Random stream of injected noise, in the place of a node's number."""


class NotANumber(TrainingError):
    """The training criterion is not a number.

    Args:
        minibatches: of the epoch, learned until it was noticed.
        hint: when it happened, and what may help.
    """

    def __init__(self, minibatches: int, *, hint: str | None) -> None:
        super().__init__("The training criterion is not a number (NAN).", hint=hint)
        self.minibatches = minibatches


Scalars = Sequence[Mapping[str, float]]


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


class Keeper(Protocol):
    """Saves training inside an epoch."""

    def is_due(self, read: int) -> bool:
        """Whether to save now, after so many samples of the epoch."""
        ...

    def keep(self, position: Position | None) -> None:
        """Save; None says that the program cannot tell what it takes along."""
        ...


@attrs.define(eq=False)
class EpochLoop:
    """Trains one epoch after the other.

    Attributes:
        program: compiled with the update rule.
        store: its parameters.
        learner, settings: what the rule was composed of.
        criteria: the training criterion, then the evaluation nodes.
        log: where lines go.
        job: for listeners.
        seed: of the injected noise.
        listeners: called after each minibatch with ``job`` and ``result``.
        check: compares gradients before each minibatch is learned; None if that is not asked for.
        steps: updates done so far.
    """

    program: Program
    store: ParameterStore
    learner: Learner
    settings: SGDSettings
    criteria: tuple[Node, ...]
    log: RunLog
    job: Job
    seed: int = 0
    listeners: Sequence[Callable[..., object]] = ()
    check: GradientCheck | None = None
    steps: int = 0
    _uses: Mapping[Parameter, int] = attrs.field(init=False)

    _sizes: MinibatchSizes = attrs.field(init=False)

    @_sizes.default
    def _make_sizes(self) -> MinibatchSizes:
        return MinibatchSizes(self.program.plan.network, self.log.line)

    @_uses.default
    def _count_uses(self) -> Mapping[Parameter, int]:
        return count_uses(self.program.plan)

    def run(
        self,
        minibatches: Iterable[Minibatch],
        pace: Pace,
        epoch_samples: int = 0,
        *,
        position: Position | None = None,
        keeper: Keeper | None = None,
    ) -> EpochResult:
        """Train an epoch, or the rest of one.

        Args:
            minibatches: the data of the whole epoch.
            pace: its index, rate and size of minibatches.
            epoch_samples: its size in samples, 0 if it is not known.
            position: where an earlier run left off; the minibatches before it are read and left out.
            keeper: saves training between minibatches.

        Raises:
            NotANumber: the criterion is not a number.
            DataError: there was no data, or less than up to the position.
        """
        epoch, passes = pace.epoch, position.passes if position is not None else 0
        self.program.begin_epoch(epoch, self.settings.program_settings(epoch), minibatches_done=passes)
        state = _Running(CriterionSums(self.program, self.criteria), self, pace, epoch_samples)
        if position is not None:
            self.program.restore(position.program)
            state.go_on(position)
            minibatches = _after(minibatches, position)
        for minibatch in minibatches:
            if self.check is not None and not pace.trial:
                self.check.check(minibatch, epoch, state.count)
            self.step(minibatch, pace, state.count)
            state.done(self._sizes.samples(minibatch), minibatch.samples)
            if state.is_over:
                break
            if keeper is not None and keeper.is_due(state.read):
                keeper.keep(state.position())
        return state.finish()

    def step(self, minibatch: Minibatch, pace: Pace, index: int) -> None:
        """Learn a minibatch, the one with this index in its epoch."""
        if pace.rate <= 0.01 * self.settings.min_learning_rate_per_sample:
            # In training mode, so that dropout and batch normalisation are as with any other rate.
            self.program.compute_gradients(minibatch)
            self.store.forget_gradients(self.program.plan.sparse)
            return
        parts = self.settings.parts(pace.minibatch_size)
        if parts == 1 and not self.settings.clips_norm:
            context = self._before_update(self._sizes.columns(minibatch), pace.epoch, index, pace.rate)
            self.program.train_step(minibatch, self._scalars(context))
        else:
            self._step_in_parts(list(split(minibatch, parts)), minibatch, pace, index)
        self.steps += 1

    def _before_update(self, samples: int, epoch: int, minibatch: int, rate: float) -> UpdateContext:
        """Draw the noise of a step, and let the learner's state, which the store keeps, go on to it."""
        if self.settings.gaussian_noise_inject_std[epoch] > 0:
            noise = self.store.slots[NOISE_SLOT]
            generator = random_stream(self.seed, NOISE_STREAM, (epoch << 32) + minibatch)
            noise[...] = generator.standard_normal(len(noise), dtype=np.float32)
        momentum = effective_momentum(self.settings.momentum(epoch), samples)
        known = {slot.name: self.store.state.get(slot.name, slot.initial) for slot in self.learner.state}
        context = UpdateContext(samples, rate, momentum, self.steps, epoch, known, self.store.dtype.name)
        self.store.state = dict(self.learner.advance(context))
        return attrs.evolve(context, state=self.store.state)

    def _scalars(self, context: UpdateContext) -> Scalars:
        """Numbers for each trained parameter; parameters with the same multipliers share them."""
        groups: dict[tuple[float, float, int], Mapping[str, float]] = {}
        result = []
        for parameter in self.program.plan.trained:
            uses = self._uses[parameter]
            key = (parameter.learning_rate_multiplier, parameter.regularization_multiplier, uses)
            numbers = groups.get(key)
            if numbers is None:
                numbers = groups[key] = scalars_for(self.learner, self.settings, parameter, context, uses=uses)
            result.append(numbers)
        return result

    def _step_in_parts(self, parts: Sequence[Minibatch], whole: Minibatch, pace: Pace, index: int) -> None:
        """Add up the gradients of the parts; limit their norms if asked for; update."""
        total = None
        for part in parts:
            self.program.compute_gradients(part)
            if len(parts) > 1:
                total = self.store.gradients.copy() if total is None else np.add(total, self.store.gradients, out=total)
        if total is not None:
            self.store.gradients[...] = total
        context = self._before_update(self._sizes.columns(whole), pace.epoch, index, pace.rate)
        if self.settings.clips_norm:
            self.program.update([self._clipped(parameter, context) for parameter in self.program.plan.trained])
        else:
            self.program.update(self._scalars(context))

    def _clipped(self, parameter: Parameter, context: UpdateContext) -> Mapping[str, float]:
        limit = self.settings.clipping_threshold_per_sample * context.samples
        factor = clip_factor(self.store, parameter, limit)
        uses = self._uses[parameter]
        return scalars_for(self.learner, self.settings, parameter, context, uses=uses, clip_factor=factor)


def _after(minibatches: Iterable[Minibatch], position: Position) -> Iterator[Minibatch]:
    """Yield the minibatches after a position. Reading is cheap beside learning, and every reader can do it."""
    read = 0
    rest = iter(minibatches)
    for _ in range(position.minibatches):
        minibatch = next(rest, None)
        read += minibatch.samples if minibatch is not None else 0
    if read != position.read:
        raise DataError(
            f"the data are not those of the checkpoint: it had read {position.read} samples of the epoch in "
            f"{position.minibatches} minibatches, now these have {read}",
            hint="Give the data that training began with, or remove the checkpoints inside the epoch "
            "(MODEL.n.m.ckp) to begin the epoch again.",
        )
    yield from rest


class _Running:
    """Counts the minibatches of an epoch and shows them when it is time to."""

    def __init__(self, sums: CriterionSums, loop: EpochLoop, pace: Pace, epoch_samples: int) -> None:
        self.sums = sums
        self.loop = loop
        self.pace = pace
        self.epoch_samples = epoch_samples
        self.count = 0
        self.is_over = False
        self.read = 0
        self._shown: Mapping[str, Criterion] = {}
        self._shown_at = 0
        self._began = self._mark = time.perf_counter()

    def go_on(self, position: Position) -> None:
        """Take back what an earlier run had counted."""
        self.count, self.read = position.minibatches, position.read
        self.sums.restore(position.sums, position.samples)
        self._shown = {name: Criterion(total, samples) for name, (total, samples) in position.shown.items()}
        self._shown_at = position.shown_at
        self._began -= position.seconds

    def position(self) -> Position | None:
        """Return the place after the last minibatch; None if the program cannot tell what it takes along."""
        program = self.loop.program.state()
        if program is None:
            return None
        return Position(
            minibatches=self.count,
            passes=self.loop.program.step - (self.pace.epoch << 32),
            samples=self.sums.samples,
            read=self.read,
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
        """Note that a minibatch was learned.

        Args:
            samples: that count in the criteria.
            read: that the reader counts.
        """
        self.count += 1
        self.sums.add(samples)
        self.read += read
        settings = self.loop.settings
        bar = None if self.pace.trial else self.loop.log.bar
        every = settings.num_mbs_to_show_result
        fresh: Mapping[str, Criterion] = {}
        if self.count <= settings.first_mbs_to_show_result or (every and self.count % every == 0):
            fresh = self._show()
        if 0 < self.pace.limit < self.read:
            self.is_over = True
        if bar is not None:
            bar.advance(self.sums.samples, next(iter(fresh.values())).average if fresh else None)
        if self.loop.listeners and not self.pace.trial:
            self._tell(samples, fresh)

    def _show(self) -> Mapping[str, Criterion]:
        now = self.sums.read()
        fresh = since(now, self._shown)
        seconds = time.perf_counter() - self._mark
        size, epoch = self.pace.minibatch_size, self.pace.epoch
        share = share_of_epoch(self.sums.samples, self.epoch_samples, size, self.count - self._shown_at)
        first, last = self._shown_at + 1, self.count
        log, epochs = self.loop.log, self.loop.settings.max_epochs
        log.minibatches(epoch, epochs, first, last, share, fresh, seconds, trial=self.pace.trial)
        self._check(now)
        self._shown, self._shown_at, self._mark = now, self.count, time.perf_counter()
        return fresh

    def _check(self, criteria: Mapping[str, Criterion]) -> None:
        if not is_nan(next(iter(criteria.values()))):
            return
        self.is_over = True
        if not self.pace.may_fail:
            raise NotANumber(
                self.count,
                hint=f"It happened in epoch {self.pace.epoch + 1}, minibatches {self._shown_at + 1} to {self.count}.\n"
                "A lower learning rate or clippingThresholdPerSample may help.",
            )

    def _tell(self, samples: int, fresh: Mapping[str, Criterion]) -> None:
        seconds = time.perf_counter() - self._began
        result = MinibatchResult(self.pace.epoch, self.count - 1, samples, self.sums.samples, averages(fresh), seconds)
        for listener in self.loop.listeners:
            listener(job=self.loop.job, result=result)

    def finish(self) -> EpochResult:
        """Return what the epoch gave."""
        # A small epoch may lie inside one long sequence that the epoch before has read to its end.
        if not self.count and (self.pace.epoch == 0 or not self.loop.settings.epoch_size):
            raise DataError(
                f"there is no data to train on: the reader gave no minibatch in epoch {self.pace.epoch + 1}"
            )
        criteria = self.sums.read()
        self._check(criteria)
        return EpochResult(criteria, self.sums.samples, self.count, time.perf_counter() - self._began)
