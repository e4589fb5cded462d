"""Measuring how long the network of a recipe takes for minibatches of different sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice

import attrs

from cntk_core.api import Config, DataError, DataReader, EpochSpec, Job, Minibatch, Network, ParameterStore
from cntk_core.api.engines import make_plan
from cntk_core.api.recipes import (
    EpochLoop,
    Pace,
    RecipeContext,
    choose_criteria,
    compile_plan,
    compose_update,
    for_factors,
    inputs_of,
    precompute,
    settings_of,
)
from cntk_tool_scaling.bench_file import ComputeTimes

REPEATS = 5
"""Times that each size is measured at least."""

_DIFFERENT = 8
"""Minibatches of a size that take turns."""


@attrs.frozen(eq=False)
class Training:
    """A network that is ready to learn minibatches.

    Attributes:
        loop: learns them.
        reader: gives them.
        minibatch_size: that of the recipe's first epoch.
        rate: of its first epoch.
    """

    loop: EpochLoop
    reader: DataReader
    minibatch_size: int
    rate: float


def prepare(context: RecipeContext, section: Config) -> Training:
    """Build and compile what a section trains, without writing anything.

    Raises:
        CntkError: something is wrong with the recipe or the data.
    """
    network: Network = context.build_network(section)
    settings, learner = settings_of(context, section.section("SGD"))
    criterion, evaluations = choose_criteria(network, settings)
    nodes = (criterion, *evaluations)
    needed = [*nodes, *(node for node in network if node.op.role == "precompute")]
    reader = context.make_reader(section, inputs_of(network, needed))
    try:
        settings = for_factors(settings, reader.minibatch_factor)
        store, engine = ParameterStore(network.parameters, network.dtype), context.make_engine(section)
        run_log = context.run_log(section)
        spec = EpochSpec(epoch_size=settings.epoch_size, minibatch_size=settings.minibatch_size[0])
        precompute(network, engine, store, reader, spec, run_log)
        rule = compose_update(learner, settings)
        store.add_slots(rule.slots)
        program = compile_plan(engine, make_plan(network, nodes, criterion), store, rule)
        program.begin_epoch(0, settings.program_settings(0))
        loop = EpochLoop(program, store, learner, settings, nodes, run_log, Job(section.name, "train"))
    except BaseException:
        reader.close()
        raise
    rate = settings.rate(0) if settings.has_rate(0) and settings.given_rates else 1e-6
    return Training(loop, reader, settings.minibatch_size[0], rate)


def compute_times(training: Training, sizes: Sequence[int], *, seconds: float = 1.0) -> ComputeTimes:
    """Measure how long a step of training takes with minibatches of some sizes.

    Args:
        training: what learns.
        sizes: samples; a size of which there are no data is left out.
        seconds: to spend on each size, about; the best step counts, so that what else the machine does matters little.

    Raises:
        DataError: there are no data at all.
    """
    points: dict[float, float] = {}
    for size in sizes:
        minibatches = _minibatches(training, size)
        if not minibatches:
            continue
        samples = sum(one.samples for one in minibatches) / len(minibatches)
        points[samples] = _seconds(training, minibatches, size, seconds)
    if not points:
        raise DataError("there are no data to measure with", hint="The reader of the recipe gives no minibatch.")
    return ComputeTimes(tuple(sorted(points.items())))


def _minibatches(training: Training, size: int) -> list[Minibatch]:
    """Return some minibatches of a size; those at the end of the data, which are smaller, do not count."""
    spec = EpochSpec(minibatch_size=size)
    found = list(islice(training.reader.minibatches(spec), _DIFFERENT))
    largest = max((one.samples for one in found), default=0)
    return [one for one in found if one.samples >= max(1, 0.8 * max(largest, size))]


def _seconds(training: Training, minibatches: Sequence[Minibatch], size: int, seconds: float) -> float:
    pace = Pace(0, training.rate, size)
    times: list[float] = []
    training.loop.step(minibatches[0], pace, 0)  # what is compiled or allocated once does not count
    end = time.perf_counter() + seconds
    while len(times) < REPEATS or time.perf_counter() < end:
        minibatch = minibatches[len(times) % len(minibatches)]
        began = time.perf_counter()
        training.loop.step(minibatch, pace, len(times))
        times.append(time.perf_counter() - began)
    return min(times)


def sizes_up_to(most: int) -> list[int]:
    """Return sizes of minibatches to measure: powers of 4, and the largest one itself."""
    sizes = [1]
    while 4 * sizes[-1] < most:
        sizes.append(4 * sizes[-1])
    return sorted({*sizes, most})
