"""One step of training: gradients of a minibatch, their sum over the ranks, the update of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from cntk_core.contract.engine import Program
from cntk_core.contract.events import Job, UpdateStep
from cntk_core.contract.parallel import Parallelizer, StepCounts
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Parameter
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.loop.criteria import CriterionSums
from cntk_core.training.loop.gradient_hooks import offer_gradients
from cntk_core.training.loop.learner_group import LearnerGroup, Rates, Scalars, StepPlace
from cntk_core.training.loop.minibatch_sizes import MinibatchSizes
from cntk_core.training.loop.subminibatch import split


@attrs.define(eq=False)
class Stepper:
    """Makes steps. Epochs of a recipe and programs that bring their own minibatches go through here alike.

    Attributes:
        program: computes gradients; where a learner has all parameters to itself, it is compiled with its rule.
        store: its parameters.
        learners: each with its parameters.
        sizes: counts samples and columns of minibatches.
        seed: of the injected noise.
        job: for those that are called.
        before_update: called with the gradients of each update; usually none.
        steps: updates done so far.
        idle: learned parameters that these learners leave alone and others may have left gradients of.
    """

    program: Program
    store: ParameterStore
    learners: tuple[LearnerGroup, ...]
    sizes: MinibatchSizes
    seed: int = 0
    job: Job = attrs.field(factory=lambda: Job("train", "train"))
    before_update: Sequence[Callable[..., object]] = ()
    steps: int = 0
    idle: tuple[Parameter, ...] = ()
    _is_apart: bool = attrs.field(init=False)

    @_is_apart.default
    def _look(self) -> bool:
        """Whether gradients are needed by themselves: for norms, for listeners or for several learners."""
        (first, *others) = self.learners
        alone = not others and first.program is self.program
        return not alone or first.settings.clips_norm or bool(self.before_update)

    def learn(
        self,
        minibatch: Minibatch | None,
        place: StepPlace,
        sums: CriterionSums,
        strategy: Parallelizer,
        *,
        merge: bool,
        flags: tuple[float, ...] = (),
    ) -> StepCounts:
        """Learn a minibatch, with other ranks if the strategy says so.

        Args:
            minibatch: this rank's share, with frames; None if it has none.
            place: of the step.
            sums: get the criteria of the step.
            strategy: of the ranks.
            merge: whether gradients are merged before the update (``Ranks.merge_gradients``).
            flags: numbers that are summed along with the gradients.

        Returns:
            The counts of all ranks whose gradients are merged. Without samples nothing was learned.
        """
        if merge:
            total = strategy.reduce(self.store, self._own_share(minibatch, place, sums, flags))
            if total.samples and place.learns:
                self.update(total.samples, total.counted, place)
            else:
                self.store.forget_gradients(self.program.plan.sparse)
            strategy.sync(self.store, total)
            sums.put(total.criteria, total.counted)
            return total
        if minibatch is None:
            return StepCounts(0, {})
        counts = self.learn_alone(minibatch, place)
        sums.add(counts.counted)
        strategy.sync(self.store, counts)
        return counts

    def learn_alone(self, minibatch: Minibatch, place: StepPlace) -> StepCounts:
        """Learn a minibatch with its own gradients, and count it."""
        counts = self._counts(minibatch, place)
        if not place.learns:
            # In training mode, so that dropout and batch normalisation are as with any other rate.
            self.program.compute_gradients(minibatch)
            self.store.forget_gradients(self.program.plan.sparse)
        elif self._is_apart or place.parts > 1:
            self.gradients(minibatch, place.parts)
            self.update(counts.samples, counts.counted, place)
        else:
            (group,) = self.learners
            scalars = self._scalars(group, place.rates[0], counts.samples, counts.counted, place)
            self.program.train_step(minibatch, scalars)
            self.steps += 1
        return counts

    def _scalars(self, group: LearnerGroup, rates: Rates, samples: int, counted: int, place: StepPlace) -> Scalars:
        return group.begin_steady(self.store, samples, counted or samples, place, rates, self.steps, self.seed)

    def _own_share(
        self, minibatch: Minibatch | None, place: StepPlace, sums: CriterionSums, flags: tuple[float, ...]
    ) -> StepCounts:
        """Compute the gradients of this rank's share into the store; zeros if it has none."""
        if minibatch is None:
            self.store.gradients[...] = 0.0
            none = dict.fromkeys(sums.names, 0.0)
            return StepCounts(0, none, flags=flags, learning_rate=place.rates[0].rate)
        self.gradients(minibatch, place.parts)
        for parameter in self.idle:
            self.store.gradient(parameter)[...] = 0.0
        return attrs.evolve(self._counts(minibatch, place), criteria=sums.take(), flags=flags)

    def _counts(self, minibatch: Minibatch, place: StepPlace) -> StepCounts:
        counted = self.sizes.samples(minibatch)
        columns = self.sizes.columns(minibatch) if self.sizes.padded else counted
        return StepCounts(columns, {}, counted, minibatch.samples, learning_rate=place.rates[0].rate)

    def gradients(self, minibatch: Minibatch, parts: int) -> None:
        """Compute the gradients of a minibatch into the store, part by part if it is divided."""
        divided = list(split(minibatch, parts))
        total = None
        for part in divided:
            self.program.compute_gradients(part)
            if len(divided) > 1:
                total = self.store.gradients.copy() if total is None else np.add(total, self.store.gradients, out=total)
        if total is not None:
            self.store.gradients[...] = total

    def update(self, samples: int, counted: int, place: StepPlace) -> None:
        """Update the parameters with the gradients in the store, limiting their norms if asked for.

        Args:
            samples: N of the minibatch, of all ranks.
            counted: samples that the criteria count in it, of all ranks.
            place: of the step.
        """
        if self.before_update:
            step = UpdateStep(place.epoch, place.index, samples, place.rates[0].rate, self.steps)
            offer_gradients(self.before_update, self.job, step, self.store, self.program.plan.trained)
        for group, rates in zip(self.learners, place.rates, strict=True):
            group.program.update(self._scalars(group, rates, samples, counted, place))
        self.steps += 1


def has_frames(minibatch: Minibatch) -> bool:
    """Whether there is anything in a minibatch; one of a network without inputs counts as well."""
    return not minibatch.streams or any(data.data.shape[0] for data in minibatch.streams.values())
