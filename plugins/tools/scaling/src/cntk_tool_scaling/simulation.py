"""One simulated training: a method, a number of ranks, a size of minibatches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import attrs

from cntk_core.api import Communicator
from cntk_core.api.parallel import NetworkModel, Simulation, SimulationPlan, Traffic, WireSize
from cntk_tool_scaling.cut import ALL_VALUES, ModelShape, check_known, wire_sizes
from cntk_tool_scaling.drive import (
    Pace,
    Period,
    RankResult,
    find_period,
    run_rank,
    steady_minibatches,
    team_size,
    with_blocks_of,
)
from cntk_tool_scaling.methods import Method
from cntk_tool_scaling.outcome import Failures, Outcome

_SHORT = 4
"""Minibatches, at least, of blocks that are simulated where the ranks of a worker exchange something in each, and half
of those of others: each minibatch more takes what these differ by."""

_MANY_RANKS = 64
"""More of them measure fewer minibatches: there are more of them to take the mean of."""


@attrs.frozen(eq=False)
class Cluster:
    """Where a training is simulated.

    Attributes:
        communicator: the class that simulates.
        network: between the ranks.
        model: what is trained.
        failures: how often ranks fail.
        dies: simulated seconds after which a rank fails for good, by rank.
        turns: exchanges that are measured; 0 chooses by the number of ranks.
        values: of the models of all ranks together, at most; beyond, they are cut.
    """

    communicator: type[Communicator]
    network: NetworkModel
    model: ModelShape
    failures: Failures = attrs.field(factory=Failures)
    dies: Mapping[int, float] = attrs.field(factory=dict)
    turns: int = 0
    values: int = ALL_VALUES


def simulate(method: Method, ranks: int, pace: Pace, cluster: Cluster) -> Outcome:
    """Run a training on simulated ranks and return what a minibatch takes.

    Raises:
        UsageError: a minibatch has fewer samples than there are ranks, or these do not make whole workers.
        CntkError: the strategy cannot be simulated, or a rank failed as it was told to.
    """
    each = team_size(method.make())
    pace.check(ranks, each)
    pace = attrs.evolve(pace, values=cluster.model.values)
    period = find_period(method.make, ranks, pace)
    shape = cluster.model.for_ranks(ranks, cluster.values)
    steady = steady_minibatches(method.make, ranks, pace) if each > 1 else 1
    short = -(-_SHORT // steady) * steady
    if each == 1 or period.minibatches <= 2 * short:
        block = 0 if each == 1 else period.minibatches
        return _outcome(_measure(method, ranks, pace, cluster, shape, block), method, pace, cluster, shape)
    results, longer = (_measure(method, ranks, pace, cluster, shape, block) for block in (short, 2 * short))
    factor = period.minibatches / short - 1
    results = [one.extended(other, factor) for one, other in zip(results, longer, strict=True)]
    return _outcome(results, method, pace, cluster, shape)


def _measure(
    method: Method, ranks: int, pace: Pace, cluster: Cluster, shape: ModelShape, block: int
) -> list[RankResult]:
    """Measure some periods: those of the method, or of blocks of so many minibatches."""
    turns = cluster.turns or _turns(ranks, pace.jitter)
    wire = {} if shape is cluster.model else _wire(method, ranks, shape, pace, cluster, turns, block)
    plan = SimulationPlan(ranks, cluster.network, wire, {r: at for r, at in cluster.dies.items() if r < ranks})
    results, simulation = _run(plan, *_shortened(method, ranks, pace, block), shape, pace, cluster, turns)
    check_known(simulation.traffic, wire)
    return results


def _shortened(method: Method, ranks: int, pace: Pace, block: int) -> tuple[Method, Period]:
    """Return the method with blocks of so many minibatches, or with its own ones if that is 0, and its period."""
    if not block:
        return method, find_period(method.make, ranks, pace)
    return attrs.evolve(method, make=partial(with_blocks_of, method.make, block, ranks, pace)), Period(block)


def _turns(ranks: int, jitter: float) -> int:
    if ranks > _MANY_RANKS:
        return 3 if jitter or ranks <= 4 * _MANY_RANKS else 1
    return 24 if jitter else 4


def _run(
    plan: SimulationPlan, method: Method, period: Period, shape: ModelShape, pace: Pace, cluster: Cluster, turns: int
) -> tuple[list[RankResult], Simulation]:
    simulation = cluster.communicator.simulation(plan)

    def work(communicator: Communicator) -> RankResult:
        communicator.watch.deadline = communicator.watch.report_after = float("inf")
        return run_rank(communicator, method.make, shape, pace, turns, period)  # type: ignore[arg-type]

    return simulation.run(work), simulation


def _wire(
    method: Method, ranks: int, shape: ModelShape, pace: Pace, cluster: Cluster, turns: int, block: int
) -> dict[Traffic, WireSize]:
    """Count the bytes of two workers with three models: in whole columns, the cut one, and one of twice its size."""
    sample = cluster.model.in_whole_columns()
    few = min(2 * team_size(method.make()), ranks)
    of_few = _shortened(method, few, pace, block)
    counted = []
    for one in (sample, shape, shape.doubled()):
        _, simulation = _run(SimulationPlan(few), *of_few, one, pace, cluster, turns)
        counted.append(simulation.traffic)
    return wire_sizes(counted[0], cluster.model.values / sample.values, counted[1], counted[2])


def _outcome(results: list[RankResult], method: Method, pace: Pace, cluster: Cluster, shape: ModelShape) -> Outcome:
    ranks = len(results)
    count = sum(one.minibatches for one in results)
    return Outcome(
        method.title,
        ranks,
        pace.minibatch,
        pace.compute.seconds(pace.minibatch),
        ranks / sum(one.minibatches / one.seconds for one in results),
        sum(one.spent.computing for one in results) / count,
        sum(one.spent.communicating for one in results) / count,
        sum(one.spent.waiting for one in results) / count,
        sum(one.sent for one in results) / count,
        cluster.failures.useful(ranks),
        min(1.0, shape.values / cluster.model.values),
    )
