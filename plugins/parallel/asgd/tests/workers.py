"""Workers that learn a known gradient, and the same computed one event after the other, without the strategy."""

from __future__ import annotations

import heapq

import attrs
import numpy as np
from cntk_parallel_asgd import AsynchronousOptions, AsynchronousSGD

from cntk_core.api import Parameter, ParameterStore, Schedule
from cntk_core.api.parallel import StepCounts
from cntk_testing import VirtualRanks

SIZE = 48
"""Parameters; a multiple of what the store aligns to."""

RATE = 0.01
"""Per sample."""


def first(seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=SIZE).astype(dtype)


def gradient(values, rank, step, samples):
    """Sum over the samples of a minibatch: curved, and different for each rank and step."""
    target = np.random.default_rng([rank, step]).normal(size=SIZE).astype(values.dtype)
    return values.dtype.type(samples) * (np.tanh(values) - target)


def shares(count, epochs=1, seed=3, most=7):
    """Minibatch sizes of each rank in each epoch; ranks have different numbers of them, one perhaps none."""
    rng = np.random.default_rng([seed, count])
    return [[rng.integers(1, 6, size=rng.integers(0, most + 1)).tolist() for _ in range(epochs)] for _ in range(count)]


def options(period=1, **given):
    return AsynchronousOptions(sync_period_per_worker=Schedule.constant(period), **given)


@attrs.frozen(eq=False)
class Result:
    """Of one rank: models after each epoch, state at the end, lines said, momentum, strategy, meetings with models."""

    models: list
    state: dict
    lines: list
    smoothed: np.ndarray
    strategy: AsynchronousSGD
    met: list


class Unordered:
    """A communicator on which messages of different ranks overtake each other, as on a network."""

    def __init__(self, communicator, seed):
        self._inner, self._here = communicator, []
        self._random = np.random.default_rng([seed, communicator.rank])

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def poll(self, source=None, tag=None):
        """Give the first message of any rank that has sent one."""
        for _ in range(int(self._random.integers(1, 6))):  # A rank that looks often lets others get ahead.
            while (message := self._inner.poll(tag=tag)) is not None:
                self._here.append(message)
        if not self._here:
            return None
        chosen = self._random.choice(sorted({message.source for message in self._here}))
        index = next(index for index, message in enumerate(self._here) if message.source == chosen)
        return self._here.pop(index)

    def receive(self, source=None, tag=None):
        """The same, and wait for one."""
        message = self.poll(tag=tag)
        return self._inner.receive(tag=tag) if message is None else message


def run(
    given,
    minibatches,
    *,
    dtype=np.float64,
    momentum=0.0,
    epochs=None,
    after=None,
    disturb=None,
    pauses=8,
    show_every=0,
    meet_every=0,
    flat=False,
    number=lambda rank, epoch, step: 100 * epoch + step,
):
    """Train on virtual ranks.

    Args:
        given: the options.
        minibatches: sizes, by rank and epoch.
        epochs: which ones; all by default.
        after: results of the epochs before.
        meet_every: samples of a worker after which all meet inside an epoch.
        flat: gradients do not depend on the model.
        number: of a rank's minibatch, which its gradient depends on.
        pauses: how many there are at most before a step, if there is a seed for them.
        disturb: seed of pauses that change which rank is faster, and of messages that overtake each other.
    """
    epochs = range(len(minibatches[0])) if epochs is None else epochs

    def work(communicator):
        rank, lines = communicator.rank, []
        store = ParameterStore([Parameter.make("w", (SIZE,), value=first(dtype=dtype))], dtype)
        strategy, smoothed, models, met = AsynchronousSGD(given), np.zeros(SIZE, dtype), [], []
        strategy.say, strategy.show_every, strategy.meet_every = lines.append, show_every, meet_every
        random = np.random.default_rng([disturb or 0, rank])
        if after is not None:
            store.values[...], smoothed[...] = after[rank].models[-1], after[rank].smoothed
        strategy.begin(store, communicator if disturb is None else Unordered(communicator, disturb))
        if after is not None:
            strategy.restore(after[rank].state)
        for epoch in epochs:
            strategy.begin_epoch(epoch)
            for step, samples in enumerate(minibatches[rank][epoch]):
                for _ in range(0 if disturb is None else int(random.integers(0, pauses + 1))):
                    communicator.poll(tag=9)
                smoothed *= dtype(momentum)
                smoothed += gradient(store.values * (not flat), rank, number(rank, epoch, step), samples)
                store.values -= dtype(RATE) * smoothed
                strategy.sync(store, StepCounts(samples, {}, learning_rate=RATE))
                if strategy.has_met:
                    met.append((step + 1, store.values.copy()))
            strategy.sync(store, StepCounts(0, {}), epoch_end=True)
            models.append(store.values.copy())
        state = {name: array.copy() for name, array in strategy.state().items()}
        return Result(models, state, lines, smoothed, strategy, met)

    return VirtualRanks(len(minibatches)).run(work)


def model(results, epoch=-1):
    """The model after an epoch, the same on all ranks to the last bit."""
    one, *others = (result.models[epoch] for result in results)
    for other in others:
        np.testing.assert_array_equal(other, one)
    return one


def durations(settings, rank, samples):
    """Simulated seconds of a rank's minibatches."""
    for step, count in enumerate(samples):
        draw = np.random.default_rng([settings.seed, rank, step]).standard_normal()
        slowness = settings.slowness[min(rank, len(settings.slowness) - 1)]
        yield count * settings.seconds_per_sample * slowness * float(np.exp(settings.jitter * draw))


class Simulation:
    """A server and its workers in one loop over events, from the formulas of the paper. One epoch, no pipeline.

    Args:
        minibatches: sizes, by rank.
        settings: simulated times.
        period: samples between two exchanges.
        bound: exchanges that a worker may be ahead of the slowest.
        warm_up: from the number of a worker's exchange, the part of its update that counts.
        correct: from gradient, drift and a dictionary to keep things in, what is added to the gradient.

    Attributes:
        now: the server's model.
        gaps: how far workers were ahead of the slowest when they went on.
    """

    def __init__(
        self,
        minibatches,
        settings,
        *,
        period=1,
        bound=None,
        warm_up=lambda exchange: 1.0,
        correct=lambda g, drift, memory: 0.0,
    ):
        self.now, self.gaps, self._correct, self._warm_up, self._memory = first(), [], correct, warm_up, {}
        self._times = [list(durations(settings, rank, sizes)) for rank, sizes in enumerate(minibatches)]
        self._minibatches, self._period, self._latency = minibatches, period, settings.latency
        self._next = [0] * len(minibatches)
        self._run(bound)

    def _run(self, bound):
        count = len(self._minibatches)
        pushes, active, waiting, events = [0] * count, set(range(count)), set(), []
        for rank in range(count):
            self._learn(events, rank, 0.0)
        while events:
            time, rank, read, update, rate, ends = heapq.heappop(events)
            if rate:
                slope = update / rate
                slope = slope + self._correct(slope, self.now - read, self._memory)
                self.now = self.now - self._warm_up(pushes[rank] + 1) * rate * slope
            pushes[rank] += 1
            waiting.add(rank)
            if ends:
                active.discard(rank)
                waiting.discard(rank)
            slowest = min((pushes[one] for one in active), default=0)
            for one in sorted(waiting):
                if bound is None or pushes[one] - slowest <= bound:
                    waiting.discard(one)
                    self.gaps.append(pushes[one] - slowest)
                    self._learn(events, one, time + self._latency)

    def _learn(self, events, rank, time):
        """Learn a period from the model of now, and send it."""
        values, read, samples, sizes = self.now.copy(), self.now.copy(), 0, self._minibatches[rank]
        while self._next[rank] < len(sizes) and samples < self._period:
            step = self._next[rank]
            values = values - RATE * gradient(values, rank, step, sizes[step])
            samples += sizes[step]
            time += self._times[rank][step]
            self._next[rank] += 1
        ends = samples < self._period
        heapq.heappush(events, (time + self._latency, rank, read, read - values, RATE * samples, ends))
