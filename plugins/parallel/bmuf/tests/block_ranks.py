"""Ranks that learn a known gradient: what the strategies do to their models can be computed by hand."""

from __future__ import annotations

import attrs
import numpy as np

from cntk_core.api import Parameter, ParameterStore, Slot
from cntk_core.api.parallel import StepCounts
from cntk_testing import VirtualRanks

SIZE = 24
"""Elements of the one parameter; a multiple of what the buffer is aligned to."""

SMOOTHED = "smoothed"


def store_of(values):
    """Make a store of one parameter, with a slot for momentum."""
    store = ParameterStore([Parameter.make("w", (SIZE,), value=np.array(values))], np.float64)
    store.add_slots([Slot(SMOOTHED)])
    return store


def first(seed=0):
    """First values."""
    return np.random.default_rng(seed).normal(size=SIZE)


@attrs.frozen
class Rank:
    """How a rank learns: descent to a target, with momentum.

    Attributes:
        target: of a parabola.
        samples: of each minibatch, epoch by epoch.
        rate, momentum: per minibatch.
    """

    target: np.ndarray
    samples: tuple[tuple[int, ...], ...]
    rate: float = 0.1
    momentum: float = 0.0

    def step(self, store, gradients=None):
        """Make an update."""
        smoothed = store.slots[SMOOTHED]
        smoothed *= self.momentum
        smoothed += store.values - self.target if gradients is None else gradients
        store.values -= self.rate * smoothed


def run(make, ranks, *, start=None, epochs=None, lines=None, states=None, group=False):
    """Train; return, by rank, the models after each epoch and the states of strategy and learner at the end.

    Args:
        make: makes a strategy.
        ranks: what each rank does.
        start: first values.
        epochs: which ones; all by default.
        lines: by rank, gets what the strategies say.
        states: by rank, what an earlier run returned.
        group: the ranks of a worker have their gradients summed.
    """
    epochs = range(len(ranks[0].samples)) if epochs is None else epochs

    def work(communicator):
        rank = ranks[communicator.rank]
        store = store_of(first() if start is None else start)
        strategy = make()
        if lines is not None:
            strategy.say = lines[communicator.rank].append
        if states is not None:
            store.values[...], store.slots[SMOOTHED][...], kept = states[communicator.rank]
        strategy.begin(store, communicator)
        if states is not None:
            strategy.restore(kept)
        models = []
        for epoch in epochs:
            strategy.begin_epoch(epoch)
            (_group if group else _alone)(rank, rank.samples[epoch], store, strategy)
            strategy.sync(store, StepCounts(0, {}), epoch_end=True)
            models.append(store.values.copy())
        state = {name: array.copy() for name, array in strategy.state().items()}
        strategy.finish()
        return models, (store.values.copy(), store.slots[SMOOTHED].copy(), state)

    return VirtualRanks(len(ranks)).run(work)


def _alone(rank, minibatches, store, strategy):
    for samples in minibatches:
        if samples:
            rank.step(store)
        strategy.sync(store, StepCounts(samples, {}))


def _group(rank, minibatches, store, strategy):
    rest = iter(minibatches)
    while True:
        samples = next(rest, 0)
        store.gradients[...] = samples * (store.values - rank.target)
        total = strategy.reduce(store, StepCounts(samples, {"ce": 1.0}))
        if total.samples:
            rank.step(store, store.gradients / total.samples)
        strategy.sync(store, total)
        if total.is_end:
            return


def models(found, epoch=-1):
    """The model after an epoch: the same on all ranks, to the last bit."""
    one, *others = (result[0][epoch] for result in found)
    for other in others:
        np.testing.assert_array_equal(other, one)
    return one


def targets(count, seed=1):
    """A target for each of some ranks."""
    return np.random.default_rng(seed).normal(size=(count, SIZE))
