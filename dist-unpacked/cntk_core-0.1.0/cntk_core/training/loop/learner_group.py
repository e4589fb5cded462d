"""A learner and the parameters that it updates: the numbers of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from cntk_core.contract.engine import Program
from cntk_core.contract.learner import Learner, UpdateContext
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Parameter
from cntk_core.ops.language.random import random_stream
from cntk_core.training.loop.update import NOISE_SLOT, clip_factor, scalars_for
from cntk_core.training.rates.schedules import effective_momentum
from cntk_core.training.settings import SGDSettings

NOISE_STREAM = (1 << 64) - 1
"""Random stream of injected noise, in the place of a node's number."""

Scalars = Sequence[Mapping[str, float]]


@attrs.frozen
class Rates:
    """What a learner goes by in a step.

    Attributes:
        rate: learning rate per sample.
        momentum: of a sample, so that its effect on a minibatch depends on the minibatch's size; or of a minibatch.
        of_minibatch: which of the two it is.
    """

    rate: float
    momentum: float = 0.0
    of_minibatch: bool = False

    def effective_momentum(self, samples: int) -> float:
        """Momentum of a minibatch of so many samples."""
        return self.momentum if self.of_minibatch else effective_momentum(self.momentum, samples)


@attrs.frozen
class StepPlace:
    """Where in a training a step is, and what it goes by.

    Attributes:
        epoch, index: the minibatch with this index in its epoch, both from 0.
        rates: of each learner.
        parts: parts that the minibatch is computed in.
        learns: false: gradients are computed, and parameters stay as they are.
    """

    epoch: int
    index: int
    rates: tuple[Rates, ...]
    parts: int = 1
    learns: bool = True


@attrs.define(eq=False)
class LearnerGroup:
    """A learner with parameters of its own; most trainings have one, with all parameters.

    Attributes:
        learner, settings: what its rule was composed of.
        program: whose ``update`` applies the rule.
        trained: the parameters, in the order of that program's plan.
        uses: how often each parameter counts (:func:`~cntk_core.training.loop.update.count_uses`); once by default.
        mean: the rule sees the mean of the gradient over the samples, not the sum.
        prefix: in front of the names of its numbers in the store, where there are other learners.
    """

    learner: Learner
    settings: SGDSettings
    program: Program
    trained: tuple[Parameter, ...]
    uses: Mapping[Parameter, int] = attrs.field(factory=dict)
    mean: bool = False
    prefix: str = ""
    _steady: tuple[object, Scalars] = attrs.field(default=(None, ()), init=False)

    def scalars(self, store: ParameterStore, context: UpdateContext, counted: int) -> Scalars:
        """Numbers for each parameter; parameters with the same multipliers share them.

        Args:
            store: has the gradients, whose norms may be limited.
            context: of the step.
            counted: samples that a mean is of.
        """
        if self.settings.clips_norm:
            return [self._clipped(store, parameter, context, counted) for parameter in self.trained]
        groups: dict[tuple[float, float, int], Mapping[str, float]] = {}
        result = []
        for parameter in self.trained:
            uses = self.uses.get(parameter, 1)
            key = (parameter.learning_rate_multiplier, parameter.regularization_multiplier, uses)
            numbers = groups.get(key)
            if numbers is None:
                numbers = groups[key] = self._numbers(parameter, context, counted)
            result.append(numbers)
        return result

    def begin_steady(
        self, store: ParameterStore, samples: int, counted: int, place: StepPlace, rates: Rates, step: int, seed: int
    ) -> Scalars:
        """As :meth:`begin_step` and :meth:`scalars`; numbers that stay as they are are not computed again."""
        key = (samples, counted, rates, place.epoch)
        if self._steady[0] != key:
            context = self.begin_step(store, samples, place, rates, step, seed)
            scalars = self.scalars(store, context, counted)
            noisy = self.settings.gaussian_noise_inject_std[place.epoch] > 0
            if not self.learner.steady or self.learner.state or noisy or self.settings.clips_norm:
                return scalars
            self._steady = key, scalars
        return self._steady[1]

    def _clipped(
        self, store: ParameterStore, parameter: Parameter, context: UpdateContext, counted: int
    ) -> Mapping[str, float]:
        limit = self.settings.clipping_threshold_per_sample * (counted if self.mean else context.samples)
        return self._numbers(parameter, context, counted, clip_factor(store, parameter, limit))

    def _numbers(
        self, parameter: Parameter, context: UpdateContext, counted: int, clip_factor: float = 1.0
    ) -> Mapping[str, float]:
        uses, mean_of = self.uses.get(parameter, 1), counted if self.mean else 0
        return scalars_for(
            self.learner, self.settings, parameter, context, uses=uses, clip_factor=clip_factor, mean_of=mean_of
        )

    def begin_step(
        self, store: ParameterStore, samples: int, place: StepPlace, rates: Rates, step: int, seed: int
    ) -> UpdateContext:
        """Draw the noise of a step, and let the learner's state, which the store keeps, go on to it.

        Args:
            store: of the parameters.
            samples: N of the minibatch.
            place, rates: of the step.
            step: updates before it.
            seed: of the noise.
        """
        if self.settings.gaussian_noise_inject_std[place.epoch] > 0:
            noise = store.slots[NOISE_SLOT]
            generator = random_stream(seed, NOISE_STREAM, (place.epoch << 32) + place.index)
            noise[...] = generator.standard_normal(len(noise), dtype=np.float32)
        momentum = rates.effective_momentum(samples)
        known = {slot.name: store.state.get(self.prefix + slot.name, slot.initial) for slot in self.learner.state}
        context = UpdateContext(samples, rates.rate, momentum, step, place.epoch, known, store.dtype.name)
        state = dict(self.learner.advance(context))
        if self.prefix:
            store.state.update({self.prefix + name: number for name, number in state.items()})
        else:
            store.state = state
        return attrs.evolve(context, state=state)
