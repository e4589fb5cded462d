"""Programs tell what they do while somebody measures, and are left as they are otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from small_plans import layers

from cntk_kit_engines import timing
from cntk_kit_engines.program import PlanProgram
from cntk_kit_engines.timing import Measurement, called_one_by_one, followed, measured


class Stepwise(PlanProgram):
    """Goes through a plan step by step; a whole step is made of its two parts."""

    def run_step(self, step: Any) -> None:
        self.done.append(step)

    def evaluate(self, minibatch: Any) -> str:
        for step in self.plan.steps:
            self.run_step(step)
        return "evaluated"

    def compute_gradients(self, minibatch: Any) -> None:
        for step in self.plan.gradients:
            self.run_gradient_step(step, fast=True)

    def run_gradient_step(self, step: Any, fast: bool) -> None:
        self.done.append((step, fast))

    def update(self, scalars: Any) -> None:
        self.done.append(scalars)

    def fails(self) -> None:
        raise AssertionError


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program on a clock that goes on by one each time that somebody looks."""
    clock = iter(range(1000))
    monkeypatch.setattr(timing, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(Stepwise, "__abstractmethods__", frozenset())
    made: Any = object.__new__(Stepwise)
    made.plan, made.done = layers(), []
    made.axes = type("Axes", (), {"frames": {"": 5}})
    return made


def test_steps_of_a_run(program: Any) -> None:
    found = Measurement()
    found.follow(program)
    assert program.evaluate("minibatch") == "evaluated"
    assert program.done == list(program.plan.steps)
    (run,) = found.runs
    assert (run.plan, run.call, run.begin, run.end, run.rows) == (program.plan, "evaluate", 0, 7, {"": 5})
    assert [(one.step, one.begin, one.end) for one in run.steps] == [
        (step, 1 + 2 * place, 2 + 2 * place) for place, step in enumerate(program.plan.steps)
    ]


def test_parts_of_a_step_count_in_it(program: Any) -> None:
    found = Measurement()
    found.follow(program)
    program.train_step("minibatch", "scalars")
    (run,) = found.runs
    assert run.call == "train_step"
    assert [one.step for one in run.steps] == [*program.plan.gradients, None]
    assert [one.end - one.begin for one in run.steps] == [1, 1, 1, 1]
    assert (run.begin, run.end, run.steps[0].begin, run.steps[-1].end) == (0, 10, 2, 9)
    assert program.done == [*((step, True) for step in program.plan.gradients), "scalars"]
    program.update("scalars")
    assert [(one.call, one.steps) for one in found.runs[1:]] == [("update", ())]


def test_a_run_that_fails_is_told_too(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stepwise, "run_step", lambda self, step: self.fails())
    found = Measurement()
    found.follow(program)
    for number in (1, 2):
        with pytest.raises(AssertionError):
            program.evaluate("minibatch")
        assert len(found.runs) == number
    assert [run.steps for run in found.runs] == [(), ()]


def test_what_is_told_between_runs_is_of_none(program: Any) -> None:
    found = Measurement()
    found.follow(program)
    program.told(program.plan.steps[0], 1, 2)
    program.run_step(program.plan.steps[0])
    assert found.runs == []
    program.evaluate("minibatch")
    assert len(found.runs[0].steps) == len(program.plan.steps)


def test_programs_are_followed_while_somebody_measures(program: Any) -> None:
    followed(program)
    program.evaluate("minibatch")
    with measured() as outer:
        with measured() as inner:
            pass
        followed(program)
        followed(object())  # type: ignore[arg-type]  # of an engine that cannot tell
    program.evaluate("minibatch")
    assert (len(outer.runs), len(inner.runs)) == (1, 0)
    other: Any = object.__new__(Stepwise)
    other.plan, other.done = program.plan, []
    followed(other)
    assert "told" not in vars(other)


def test_functions_one_by_one(program: Any) -> None:
    done: list[Any] = []
    parts = [(step, lambda step=step: done.append(step)) for step in (*program.plan.steps, None)]
    told: list[Any] = []
    called_one_by_one(parts, lambda *one: told.append(one))()
    assert done == [*program.plan.steps, None]
    assert told == [(step, 2 * place, 2 * place + 1) for place, step in enumerate(done)]
