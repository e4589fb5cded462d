"""The minibatch loop of one epoch: gradients, update, and a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np

from cntk_core.contract.engine import Program
from cntk_core.contract.events import Job, UpdateStep
from cntk_core.contract.learner import Learner, UpdateContext
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.random import random_stream
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.files.position import Position
from cntk_core.training.loop.criteria import CriterionSums
from cntk_core.training.loop.epoch_progress import EpochResult, Pace, Running
from cntk_core.training.loop.epoch_ranks import learn_apart, learn_together, save_if_due, share_statistics
from cntk_core.training.loop.gradient_check import GradientCheck
from cntk_core.training.loop.gradient_hooks import offer_gradients
from cntk_core.training.loop.minibatch_sizes import MinibatchSizes
from cntk_core.training.loop.progress import RunLog
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.loop.stop_request import StopRequest
from cntk_core.training.loop.subminibatch import split
from cntk_core.training.loop.update import NOISE_SLOT, clip_factor, count_uses, scalars_for
from cntk_core.training.rates.schedules import effective_momentum
from cntk_core.training.settings import SGDSettings

NOISE_STREAM = (1 << 64) - 1
"""Random stream of injected noise, in the place of a node's number."""


Scalars = Sequence[Mapping[str, float]]


class Keeper(Protocol):
    """Saves training inside an epoch."""

    def is_due(self, read: int) -> bool:
        """Whether to save now, after so many samples of the epoch."""
        ...

    def keep(self, position: Position | None) -> bool:
        """Save, and say whether it was done; None says that the program cannot tell what it takes along."""
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
        before_update: called with the gradients of each update; usually none.
        check: compares gradients before each minibatch is learned; None if that is not asked for.
        steps: updates done so far.
        ranks: who trains together; None in a serial run.
        stop: asks training to end after a minibatch.
        sizes: counts samples and columns of minibatches.
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
    before_update: Sequence[Callable[..., object]] = ()
    check: GradientCheck | None = None
    steps: int = 0
    ranks: Ranks | None = None
    stop: StopRequest = attrs.field(factory=StopRequest)
    _uses: Mapping[Parameter, int] = attrs.field(init=False)
    sizes: MinibatchSizes = attrs.field(init=False)

    @sizes.default
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
            Stopped: the process was told to end.
            DataError: there was no data, or less than up to the position.
        """
        epoch, passes = pace.epoch, position.passes if position is not None else 0
        passes += self.first_stream(pace)
        self.program.begin_epoch(epoch, self.settings.program_settings(epoch), minibatches_done=passes)
        state = Running(CriterionSums(self.program, self.criteria), self, pace, epoch_samples)
        if position is not None:
            self.program.restore(position.program)
            state.go_on(position)
            minibatches = _after(minibatches, position)
        ranks = self.together(pace)
        if ranks is None:
            self._learn(minibatches, state, pace, keeper)
        elif ranks.strategy.reduces_gradients:
            learn_together(self, ranks, minibatches, state, pace, keeper)
        else:
            learn_apart(self, ranks, minibatches, state, pace, keeper)
        if ranks is not None:
            share_statistics(ranks, self)
        return state.finish()

    def together(self, pace: Pace) -> Ranks | None:
        """The ranks that learn with this pace together; None if each learns everything.

        They do so in trials whose strategy brings models together only after some time.
        """
        ranks = self.ranks
        if ranks is None or not ranks.train_epoch(pace.epoch):
            return None
        return None if pace.trial and not ranks.strategy.reduces_gradients else ranks

    def first_stream(self, pace: Pace) -> int:
        """Number of the first random stream in an epoch: ranks that learn together draw different numbers."""
        ranks = self.together(pace)
        return ranks.first_stream if ranks is not None else 0

    def _learn(self, minibatches: Iterable[Minibatch], state: Running, pace: Pace, keeper: Keeper | None) -> None:
        """Train an epoch without other ranks."""
        for minibatch in minibatches:
            if self.check is not None and not pace.trial:
                self.check.check(minibatch, pace.epoch, state.count)
            self.step(minibatch, pace, state.count)
            samples = self.sizes.samples(minibatch)
            state.sums.add(samples)
            state.own_read += minibatch.samples
            state.done(samples, minibatch.samples)
            if state.is_over:
                break
            self._save_if_due(state, keeper)

    def _save_if_due(self, state: Running, keeper: Keeper | None) -> None:
        """Save, and end if asked to; ranks that learn the same still have to agree on when."""
        asked, due = self.stop.asked, keeper is not None and keeper.is_due(state.read)
        if keeper is None:
            self.stop.obey(state.place)
        elif self.ranks is not None:
            save_if_due(self, self.ranks, self.ranks.add([due, asked]), state, keeper)
        elif due or asked:
            saved = keeper.keep(state.position())
            if asked:
                self.stop.obey(state.place, saved=saved)

    def step(self, minibatch: Minibatch, pace: Pace, index: int) -> None:
        """Learn a minibatch, the one with this index in its epoch."""
        if not self.learns(pace):
            # In training mode, so that dropout and batch normalisation are as with any other rate.
            self.program.compute_gradients(minibatch)
            self.store.forget_gradients(self.program.plan.sparse)
        elif not self.is_apart(pace):
            context = self._before_update(self.sizes.columns(minibatch), pace.epoch, index, pace.rate)
            self.program.train_step(minibatch, self._scalars(context))
            self.steps += 1
        else:
            self.gradients(minibatch, pace)
            self.update(self.sizes.columns(minibatch), pace, index)

    def is_apart(self, pace: Pace) -> bool:
        """Whether gradients are needed by themselves: in parts, for their norms, or for somebody who looks at them."""
        return self.settings.parts(pace.minibatch_size) > 1 or self.settings.clips_norm or bool(self.before_update)

    def learns(self, pace: Pace) -> bool:
        """Whether the rate is so large that parameters change."""
        return pace.rate > 0.01 * self.settings.min_learning_rate_per_sample

    def gradients(self, minibatch: Minibatch, pace: Pace) -> None:
        """Compute the gradients of a minibatch into the store, part by part if it is divided."""
        parts = list(split(minibatch, self.settings.parts(pace.minibatch_size)))
        total = None
        for part in parts:
            self.program.compute_gradients(part)
            if len(parts) > 1:
                total = self.store.gradients.copy() if total is None else np.add(total, self.store.gradients, out=total)
        if total is not None:
            self.store.gradients[...] = total

    def update(self, samples: int, pace: Pace, index: int) -> None:
        """Update the parameters with the gradients in the store, limiting their norms if asked for.

        Args:
            samples: N of the minibatch, of all ranks.
            pace: of the epoch.
            index: of the minibatch in the epoch.
        """
        if self.before_update:
            step = UpdateStep(pace.epoch, index, samples, pace.rate, self.steps)
            offer_gradients(self.before_update, self.job, step, self.store, self.program.plan.trained)
        context = self._before_update(samples, pace.epoch, index, pace.rate)
        if self.settings.clips_norm:
            self.program.update([self._clipped(parameter, context) for parameter in self.program.plan.trained])
        else:
            self.program.update(self._scalars(context))
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

    def _clipped(self, parameter: Parameter, context: UpdateContext) -> Mapping[str, float]:
        limit = self.settings.clipping_threshold_per_sample * context.samples
        factor = clip_factor(self.store, parameter, limit)
        uses = self._uses[parameter]
        return scalars_for(self.learner, self.settings, parameter, context, uses=uses, clip_factor=factor)


def _after(minibatches: Iterable[Minibatch], position: Position) -> Iterator[Minibatch]:
    """Yield the minibatches after a position. Every reader can do it; some leave out the streams of those before.

    Then minibatches may be among them that were not learned, since nothing of them could be read: their samples were
    counted in the next ones.
    """
    read = count = 0
    streams: object = None
    rest = iter(minibatches)
    while count < position.minibatches or (read < position.read and not streams):
        minibatch = next(rest, None)
        if minibatch is None:
            break
        read, count, streams = read + minibatch.samples, count + 1, minibatch.streams
    if read != position.read:
        raise DataError(
            f"the data are not those of the checkpoint: it had read {position.read} samples of the epoch in "
            f"{position.minibatches} minibatches, now these have {read}",
            hint="Give the data that training began with, or remove the checkpoints inside the epoch "
            "(MODEL.n.m.ckp) to begin the epoch again.",
        )
    yield from rest
