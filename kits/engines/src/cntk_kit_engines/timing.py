"""What the steps of a plan take: programs that are compiled while somebody measures tell it.

Nobody else pays for it: a program that is not followed has no clock in its code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter_ns
from typing import Any

import attrs

from cntk_core.contract.engine import Program
from cntk_core.plan.plan import AnyStep, Plan
from cntk_kit_engines.program import PlanProgram, Told

WHOLE = ("evaluate", "compute_gradients", "train_step", "forward", "backward", "update")
"""What is called from outside, and measured as a whole."""

SINGLE = ("run_step", "run_gradient_step")
"""What programs that go through a plan step by step call for each of them."""


@attrs.frozen(eq=False)
class StepTime:
    """A step of a plan in one run.

    Attributes:
        step: the step; None is the update of parameters that is in no gradient step.
        begin, end: nanoseconds of :func:`time.perf_counter_ns`.
    """

    step: AnyStep | None
    begin: int
    end: int


@attrs.frozen(eq=False)
class RunTime:
    """One call of a program.

    Attributes:
        plan: what the program computes.
        call: the method of :class:`~cntk_core.contract.engine.Program`, such as ``train_step``.
        begin, end: nanoseconds of :func:`time.perf_counter_ns`.
        steps: in the order in which they were done; none where the engine cannot tell.
        rows: frames of the minibatch, by dynamic axis.
    """

    plan: Plan
    call: str
    begin: int
    end: int
    steps: tuple[StepTime, ...]
    rows: Mapping[str, int]


@attrs.define(eq=False)
class Measurement:
    """Gathers what programs tell.

    Attributes:
        runs: in the order of their ends.
    """

    runs: list[RunTime] = attrs.field(factory=list)

    def follow(self, program: Program) -> None:
        """Have a program tell what it does from now on; it must not have computed yet."""
        if isinstance(program, PlanProgram):
            _Follower(program, self.runs)


class _Follower:
    """Stands between a program and whoever calls it."""

    def __init__(self, program: PlanProgram, runs: list[RunTime]) -> None:
        self._program = program
        self._runs = runs
        self._steps: list[StepTime] | None = None
        program.told = self._tell
        for name in WHOLE:
            setattr(program, name, self._whole(name, getattr(program, name)))
        for name in SINGLE:
            if hasattr(program, name):
                setattr(program, name, self._single(getattr(program, name)))

    def _tell(self, step: AnyStep | None, begin: int, end: int) -> None:
        if self._steps is not None:
            self._steps.append(StepTime(step, begin, end))

    def _whole(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*arguments: Any, **named: Any) -> Any:
            begin = perf_counter_ns()
            if self._steps is not None:  # a part of a step, in a program that does both by itself
                result = call(*arguments, **named)
                if name == "update":
                    self._tell(None, begin, perf_counter_ns())
                return result
            self._steps = []
            try:
                return call(*arguments, **named)
            finally:
                end = perf_counter_ns()
                steps, self._steps = tuple(self._steps), None
                program = self._program
                self._runs.append(RunTime(program.plan, name, begin, end, steps, dict(program.axes.frames)))

        return timed

    def _single(self, call: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(call)
        def timed(step: AnyStep, **named: Any) -> None:
            begin = perf_counter_ns()
            call(step, **named)
            self._tell(step, begin, perf_counter_ns())

        return timed


_PRESENT: ContextVar[Measurement | None] = ContextVar("measurement", default=None)


@contextmanager
def measured() -> Iterator[Measurement]:
    """Measure the programs that this thread compiles meanwhile, for as long as they live.

    Engines that compute a plan as one function compute it step by step then, so that the sum may be more than what it
    takes otherwise.
    """
    found = Measurement()
    before = _PRESENT.set(found)
    try:
        yield found
    finally:
        _PRESENT.reset(before)


def followed(program: Program) -> None:
    """Have a new program tell whoever measures at present."""
    measurement = _PRESENT.get()
    if measurement is not None:
        measurement.follow(program)


def called_one_by_one(parts: list[tuple[AnyStep | None, Callable[[], object]]], told: Told) -> Callable[[], None]:
    """Return a function that does some steps one after the other, and tells what each took."""

    def run() -> None:
        for step, do in parts:
            begin = perf_counter_ns()
            do()
            told(step, begin, perf_counter_ns())

    return run
