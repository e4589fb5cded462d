"""Measuring how long the network of a recipe takes for minibatches of different sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice

from cntk_core.api import DataError, EpochSpec, Minibatch
from cntk_core.api.recipes import Pace, PreparedTraining
from cntk_tool_scaling.bench_file import ComputeTimes

REPEATS = 5
"""Times that each size is measured at least."""

_DIFFERENT = 8
"""Minibatches of a size that take turns."""


def compute_times(training: PreparedTraining, sizes: Sequence[int], *, seconds: float = 1.0) -> ComputeTimes:
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


def _minibatches(training: PreparedTraining, size: int) -> list[Minibatch]:
    """Return some minibatches of a size; those at the end of the data, which are smaller, do not count."""
    spec = EpochSpec(minibatch_size=size)
    found = list(islice(training.reader.minibatches(spec), _DIFFERENT))
    largest = max((one.samples for one in found), default=0)
    return [one for one in found if one.samples >= max(1, 0.8 * max(largest, size))]


def _seconds(training: PreparedTraining, minibatches: Sequence[Minibatch], size: int, seconds: float) -> float:
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
