"""Measures steps of a recipe's training: each by itself, and whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from time import perf_counter_ns

import attrs

from cntk_core.api import Config, DataError, EpochSpec, Minibatch
from cntk_core.api.engines import AnyStep, Loop, RunTime, Step, measured
from cntk_core.api.recipes import Pace, PreparedTraining, RecipeContext, prepare_training
from cntk_tool_inspect.timing.work import moved, operations

WARM_UP = 3
"""Steps that do not count: what is compiled or allocated once is done in them."""

READER, FORWARD, GRADIENTS, UPDATE, WHOLE, BETWEEN = (
    "reader",
    "forward",
    "gradients",
    "update",
    "whole step",
    "between",
)
"""Parts of a step. ``whole step`` stands for forward and gradients where an engine cannot tell them apart."""


@attrs.frozen(eq=False)
class Share:
    """What one thing takes in a step, on average.

    Attributes:
        part: one of the parts above.
        step: of the plan; None for what is no step of it.
        seconds: in a step of training.
        operations: additions and multiplications in a step, None where that is not known.
        moved: bytes that are read and written in a step, None where that is not known.
    """

    part: str
    step: AnyStep | None
    seconds: float
    operations: float | None = None
    moved: float | None = None


@attrs.frozen(eq=False)
class Profile:
    """Where the time of a training goes.

    Attributes:
        section: whose training it is.
        engine: the name of the engine.
        steps: how many were measured.
        rows: samples of a minibatch, on average.
        shares: in the order of the plan.
        seconds: a whole step, the reader included.
        unwatched: the same without a clock at each step.
        runs: what was measured, for a trace.
        reads: when the reader was waited for: beginnings and ends in nanoseconds.
    """

    section: str
    engine: str
    steps: int
    rows: float
    shares: tuple[Share, ...]
    seconds: float
    unwatched: float
    runs: tuple[RunTime, ...]
    reads: tuple[tuple[int, int], ...]

    def part(self, name: str) -> float:
        """Return the seconds of a part in a step."""
        return sum(share.seconds for share in self.shares if share.part == name)


@attrs.frozen(eq=False)
class _Measured:
    """Some steps: seconds of all of them together, their samples, and when the reader was waited for."""

    seconds: float
    samples: int
    reads: tuple[tuple[int, int], ...]
    since: int


def profile(context: RecipeContext, section: Config, steps: int) -> Profile:
    """Measure the training of a section on its own data; nothing is written.

    Args:
        context: of the recipe.
        section: with network, reader and SGD block.
        steps: how many steps are measured.

    Raises:
        CntkError: something is wrong with the recipe or the data.
    """
    plain = prepare_training(context, section)
    try:
        unwatched = _learn(plain, steps)
    finally:
        plain.reader.close()
    context.log.quiet = True  # what is said before a training has been said
    with measured() as found:
        watched = prepare_training(context, section)
        try:
            told = _learn(watched, steps)
        finally:
            watched.reader.close()
    runs = tuple(run for run in found.runs if run.begin >= told.since)
    shares = _shares(runs, told, steps, int(watched.loop.program.plan.network.dtype.itemsize))
    name = context.engine_name(section)
    return Profile(
        section.name,
        name,
        steps,
        told.samples / steps,
        tuple(shares),
        told.seconds / steps,
        unwatched.seconds / steps,
        runs,
        told.reads,
    )


def _learn(training: PreparedTraining, steps: int) -> _Measured:
    """Learn some minibatches, those that warm up first."""
    pace = Pace(0, training.rate, training.minibatch_size)
    minibatches, samples, since = _minibatches(training), 0, 0
    reads: list[tuple[int, int]] = []
    for index in range(WARM_UP + steps):
        if index == WARM_UP:
            training.loop.program.read_totals()  # an engine may still be at work
            since, samples = perf_counter_ns(), 0
            reads.clear()
        begin = perf_counter_ns()
        minibatch = next(minibatches)
        reads.append((begin, perf_counter_ns()))
        training.loop.step(minibatch, pace, index)
        samples += minibatch.samples
    training.loop.program.read_totals()
    return _Measured((perf_counter_ns() - since) / 1e9, samples, tuple(reads), since)


def _minibatches(training: PreparedTraining) -> Iterator[Minibatch]:
    """Give minibatches of one epoch after the other.

    Raises:
        DataError: there are none.
    """
    epoch = 0
    while True:
        spec = EpochSpec(epoch=epoch, minibatch_size=training.minibatch_size)
        none = True
        for minibatch in training.reader.minibatches(spec):
            none = False
            yield minibatch
        if none:
            raise DataError("there are no data to measure with", hint="The reader of the recipe gives no minibatch.")
        epoch += 1


def _shares(runs: Sequence[RunTime], told: _Measured, steps: int, itemsize: int) -> Iterator[Share]:
    reading = sum(end - begin for begin, end in told.reads) / 1e9
    yield Share(READER, None, reading / steps)
    times: dict[AnyStep | None, int] = {}
    work: dict[AnyStep, list[int | None]] = defaultdict(list)
    bytes_moved: dict[AnyStep, list[int | None]] = defaultdict(list)
    whole = 0
    for run in runs:
        if not run.steps:
            whole += run.end - run.begin if run.call != UPDATE else 0
            times[None] = times.get(None, 0) + (run.end - run.begin if run.call == UPDATE else 0)
        for each in run.steps:
            times[each.step] = times.get(each.step, 0) + each.end - each.begin
            if each.step is not None:
                work[each.step].append(operations(each.step, run.rows))
                bytes_moved[each.step].append(moved(each.step, run.rows, itemsize))
    for step, nanoseconds in times.items():
        if step is not None:
            yield Share(
                _part(step), step, nanoseconds / 1e9 / steps, _mean(work[step], steps), _mean(bytes_moved[step], steps)
            )
    if whole:
        yield Share(WHOLE, None, whole / 1e9 / steps)
    updating = times.get(None, 0)
    yield Share(UPDATE, None, updating / 1e9 / steps)
    known = reading + (whole + sum(times.values())) / 1e9
    yield Share(BETWEEN, None, max(0.0, told.seconds - known) / steps)


def _part(step: AnyStep) -> str:
    return FORWARD if isinstance(step, Step | Loop) else GRADIENTS


def _mean(numbers: Sequence[int | None], steps: int) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / steps if len(known) == len(numbers) else None
