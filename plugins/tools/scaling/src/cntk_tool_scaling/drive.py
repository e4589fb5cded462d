"""Running a real strategy on simulated ranks: computing is time that passes, all else is what training does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator, GradientAggregation, Parallelizer, ParameterStore, UsageError
from cntk_core.api.parallel import Message, Pending, SimulatedRank, StepCounts, TimeSpent
from cntk_tool_scaling.bench_file import ComputeTimes
from cntk_tool_scaling.cut import ModelShape

Array = NDArray[Any]

FULL = "full"
"""The aggregation that only adds up; how long that takes is a property of the network's ends."""

_PARTS = 4
"""Pieces in which the minibatches between two exchanges are computed if nobody looks at messages in between."""

_LONGEST = 10_000_000
"""Minibatches without an exchange after which there will be none."""


@attrs.frozen
class Pace:
    """How ranks compute.

    Attributes:
        minibatch: samples of a minibatch, of all ranks together.
        compute: how long a rank takes for its share.
        jitter: standard deviation of the logarithm of a minibatch's duration; the mean stays what it is.
        slowness: what the durations of the ranks are multiplied with; the last one is for all others, too.
        seed: of the random durations.
        value_seconds: by aggregation: what each value of a gradient takes.
        values: learned values of the whole model.
        epoch: for schedules, from 0.
    """

    minibatch: int
    compute: ComputeTimes
    jitter: float = 0.0
    slowness: tuple[float, ...] = (1.0,)
    seed: int = 1
    value_seconds: Mapping[str, float] = attrs.field(factory=dict)
    values: int = 0
    epoch: int = 0

    def share(self, rank: int, ranks: int) -> int:
        """Return the samples of a rank in each minibatch."""
        return self.minibatch // ranks + (rank < self.minibatch % ranks)

    def check(self, ranks: int, each: int = 1) -> None:
        """Raise if a rank has nothing to do, or there are no whole workers of ``each`` ranks."""
        if ranks % each:
            raise UsageError(
                f"{ranks} ranks cannot be divided into workers of {each} (ranksPerWorker)",
                hint=f"Give multiples of {each}, such as -n {each},{2 * each},{4 * each}",
            )
        if self.minibatch < ranks:
            raise UsageError(
                f"a minibatch of {self.minibatch} samples cannot be divided among {ranks} ranks",
                hint="Give a larger --minibatch-size, or one that grows with the ranks: --minibatch-size 8x",
            )


@attrs.frozen
class RankResult:
    """What a rank measured over some minibatches.

    Attributes:
        minibatches: how many.
        seconds: simulated ones.
        spent: of these.
        sent: bytes.
    """

    minibatches: int
    seconds: float
    spent: TimeSpent
    sent: int

    def extended(self, longer: RankResult, factor: float) -> RankResult:
        """Return what periods would measure that are still longer.

        Args:
            longer: what as many longer periods measured.
            factor: by how much longer than these are than those of this result, the wanted ones are.
        """

        def far(near: float, further: float) -> float:
            return near + (further - near) * factor

        names = [field.name for field in attrs.fields(TimeSpent)]
        return RankResult(
            round(far(self.minibatches, longer.minibatches)),
            far(self.seconds, longer.seconds),
            TimeSpent(**{name: far(getattr(self.spent, name), getattr(longer.spent, name)) for name in names}),
            round(far(self.sent, longer.sent)),
        )


class TimedAggregation(GradientAggregation):
    """An aggregation for which a rank's processor is busy for a while.

    Args:
        inner: the real one.
        seconds: for each call.
    """

    requires_api = "1.0"

    def __init__(self, inner: GradientAggregation, seconds: float) -> None:
        super().__init__(inner.settings)
        self._inner, self._seconds = inner, seconds

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Begin the real one."""
        self._inner.begin(store, communicator)

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch of the real one."""
        self._inner.begin_epoch(epoch)

    def aggregate(self, gradients: Array, header: Array, communicator: Communicator) -> None:
        """Let time pass, then do what the real one does."""
        if communicator.size > 1 and isinstance(communicator, SimulatedRank):
            communicator.advance(self._seconds)
        self._inner.aggregate(gradients, header, communicator)

    def state(self) -> Mapping[str, Array]:
        """That of the real one."""
        return self._inner.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Give it back to the real one."""
        self._inner.restore(state)


def run_rank(
    communicator: SimulatedRank,
    make: Callable[[], Parallelizer],
    shape: ModelShape,
    pace: Pace,
    turns: int,
    period: Period,
) -> RankResult:
    """Train on one simulated rank: one period for a start, then those that are measured.

    Args:
        communicator: of the rank.
        make: makes the strategy.
        shape: of the model.
        pace: how it computes.
        turns: periods that are measured.
        period: minibatches between two exchanges.
    """
    strategy, store, sent_by = make(), shape.store(), _Sent(communicator)
    strategy.aggregations = {
        name: TimedAggregation(one, pace.value_seconds.get(name, 0.0) * pace.values) if name != FULL else one
        for name, one in strategy.aggregations.items()
    }
    strategy.begin(store, communicator)
    strategy.begin_epoch(pace.epoch)
    learner = _Learner(communicator, strategy, store, pace)
    learner.learn(period)
    began, before, sent = communicator.now(), attrs.evolve(communicator.spent), sent_by.bytes
    for _ in range(turns):
        learner.learn(period)
    result = RankResult(
        turns * period.minibatches,
        communicator.now() - began,
        communicator.spent.since(before),
        sent_by.bytes - sent,
    )
    strategy.sync(store, StepCounts(0, {}), epoch_end=True)
    strategy.finish()
    return result


class _Sent:
    """The bytes that a rank sends, also to those with whom it forms a part of all ranks.

    Args:
        communicator: of the rank, which has not been divided yet.
    """

    def __init__(self, communicator: SimulatedRank) -> None:
        self._all: list[Communicator] = [communicator]
        split = communicator.split

        def noting(color: int) -> Communicator:
            self._all.append(split(color))
            return self._all[-1]

        communicator.split = noting  # type: ignore[method-assign]

    @property
    def bytes(self) -> int:
        """Bytes so far."""
        return sum(one.bytes_sent for one in self._all)


@attrs.frozen
class Period:
    """Minibatches from one exchange to the next.

    Attributes:
        minibatches: how many.
        looks: whether the strategy looks for messages after each of them.
    """

    minibatches: int = 1
    looks: bool = True

    @property
    def pieces(self) -> Sequence[int]:
        """How many minibatches are computed in one go, one after the other."""
        count = self.minibatches if self.looks else min(_PARTS, self.minibatches)
        return [self.minibatches * (one + 1) // count - self.minibatches * one // count for one in range(count)]


class _Learner:
    """A rank that computes and exchanges."""

    def __init__(self, communicator: SimulatedRank, strategy: Parallelizer, store: ParameterStore, pace: Pace) -> None:
        self._communicator, self._strategy, self._store = communicator, strategy, store
        rank, ranks = communicator.rank, communicator.size
        self._share = pace.share(rank, ranks)
        self._seconds = pace.compute.seconds(self._share) * pace.slowness[min(rank, len(pace.slowness) - 1)]
        self._jitter = pace.jitter
        self._random = np.random.default_rng([pace.seed, rank])

    def learn(self, period: Period) -> None:
        """Make the steps of a period."""
        for count in period.pieces:
            self._communicator.advance(self._duration(count))
            counts = _counts(self._share * count)
            if self._strategy.reduces_gradients or self._strategy.group is not None:
                counts = self._strategy.reduce(self._store, counts)
            self._strategy.sync(self._store, counts)

    def _duration(self, count: int) -> float:
        if not self._jitter:
            return self._seconds * count
        factors = np.exp(self._jitter * self._random.standard_normal(count) - self._jitter**2 / 2)
        return self._seconds * float(factors.sum())


def _counts(samples: int) -> StepCounts:
    """Counts of a step with two criteria, as a training has them."""
    return StepCounts(samples, {"ce": 0.0, "errs": 0.0}, samples, samples, (0.0, 0.0), learning_rate=1e-6)


# -- how often ranks talk ----------------------------------------------------------------------------------


class _Reached(BaseException):
    """A strategy wants to talk to other ranks."""


class _Listening(Communicator):
    """One of many ranks, of which only the first word to the others is of interest."""

    requires_api = "1.0"

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.size = ranks
        self.looks = False

    def allreduce(self, array: Array) -> NoReturn:
        raise _Reached

    def allgather(self, array: Array) -> NoReturn:
        raise _Reached

    def alltoall(self, arrays: Sequence[Array]) -> NoReturn:
        raise _Reached

    def broadcast(self, array: Array, root: int = 0) -> NoReturn:
        raise _Reached

    def barrier(self) -> NoReturn:
        raise _Reached

    def split(self, color: int) -> NoReturn:
        raise _Reached

    def background(self, work: Callable[[Communicator], Any]) -> Pending[Any]:
        raise _Reached

    def send(self, array: Array, to: int, tag: int = 0) -> NoReturn:
        raise _Reached

    def receive(self, source: int | None = None, tag: int | None = None) -> NoReturn:
        raise _Reached

    def poll(self, source: int | None = None, tag: int | None = None) -> Message | None:
        """Nothing has come; but somebody looks."""
        self.looks = True
        return None

    def now(self) -> float:
        return 0.0

    def abort(self, reason: str) -> NoReturn:
        raise _Reached


def team_size(strategy: Parallelizer) -> int:
    """Return the ranks of a worker, which exchange something in each step or nearly, besides what workers exchange."""
    return int(getattr(strategy.settings, "ranks_per_worker", 1))


def with_blocks_of(make: Callable[[], Parallelizer], minibatches: int, ranks: int, pace: Pace) -> Parallelizer:
    """Make a strategy whose workers of several ranks meet after so many minibatches."""
    strategy = make()
    samples = minibatches * pace.share(0, ranks) * team_size(strategy)
    strategy.settings = attrs.evolve(strategy.settings, block_size=None, block_size_per_worker=samples)
    return strategy


def find_period(make: Callable[[], Parallelizer], ranks: int, pace: Pace) -> Period:
    """Return after how many minibatches a strategy talks to other ranks: found by trying.

    Raises:
        UsageError: it never does.
    """
    strategy = make()
    if strategy.reduces_gradients or ranks == 1:
        return Period()
    if (each := team_size(strategy)) > 1:
        samples, share = strategy.settings.samples_per_worker(ranks // each), pace.share(0, ranks)
        return Period(max(1, -(-samples // (share * each))))
    return _tried(strategy, ranks, pace, pace.share(0, ranks))


def steady_minibatches(make: Callable[[], Parallelizer], ranks: int, pace: Pace) -> int:
    """Return after how many minibatches the ranks of a worker have done all that they do again and again in a block."""
    local = getattr(make(), "local", None)
    if local is None:
        return 1
    return _tried(local, team_size(make()), pace, pace.share(0, ranks)).minibatches


def _tried(strategy: Parallelizer, ranks: int, pace: Pace, share: int) -> Period:
    """Return after how many minibatches of a ``share`` of samples a model scheme of some ranks talks to the others.

    Raises:
        UsageError: it never does.
    """
    listening, store, counts = _Listening(ranks), ModelShape(((2, 2),)).store(), _counts(share)
    minibatches = 0
    try:
        strategy.begin(store, listening)
        strategy.begin_epoch(pace.epoch)
        while minibatches < _LONGEST:
            minibatches += 1
            strategy.sync(store, counts)
    except _Reached:
        if minibatches:
            return Period(minibatches, listening.looks)
    raise UsageError("the strategy cannot be simulated: it is not known how often it brings ranks together")
