"""One step, by what it asks of the program, of the learners and of the other ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cntk_core.contract.parallel import StepCounts
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Parameter
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_core.training.loop.learner_group import Rates, StepPlace
from cntk_core.training.loop.step import Stepper, has_frames

RATE = Rates(0.5, 0.9)


def minibatch(frames: int) -> Minibatch:
    return Minibatch({"x": StreamData(np.ones((frames, 1)), SequenceLayout.of_frames(frames))}, 10 * frames)


class Made:
    """A stepper with everything around it; ``told`` has what was asked in which order."""

    def __init__(self, learners: int = 1, **settings: Any) -> None:
        self.told: list[Any] = []
        first, second = (Parameter.make(name, (1,), value=np.zeros(1)) for name in ("a", "b"))
        self.store = ParameterStore([first, second], np.float64)
        sparse = SimpleNamespace(sparse=(second,), trained=(first, second))
        self.program = SimpleNamespace(
            plan=sparse,
            compute_gradients=self.gradients,
            train_step=lambda given, scalars: self.told.append(("train", given.samples, scalars)),
            update=lambda scalars: self.told.append(("update", scalars)),
        )
        idle = settings.pop("idle", False)
        groups = tuple(self.group(number, **settings) for number in range(learners))
        sizes = SimpleNamespace(padded=True, samples=lambda given: given.samples // 10, columns=lambda given: 7)
        self.stepper = Stepper(self.program, self.store, groups, sizes, idle=(first,) if idle else ())

    def group(self, number: int, clips: bool = False) -> Any:
        def scalars(store, samples, counted, place, rates, steps, seed):
            return number, samples, counted, rates.rate, steps

        settings = SimpleNamespace(clips_norm=clips)
        return SimpleNamespace(program=self.program, settings=settings, begin_steady=scalars)

    def gradients(self, given: Minibatch) -> None:
        self.told.append(("gradients", given.streams["x"].layout.frames))
        self.store.gradients[...] = given.streams["x"].layout.frames


def place(*rates: Rates, **more: Any) -> StepPlace:
    return StepPlace(epoch=0, index=0, rates=rates or (RATE,), **more)


class Sums:
    """Criteria that count."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.names = ("ce",)

    def add(self, samples: int) -> None:
        self.told.append(samples)

    def take(self) -> dict[str, float]:
        return {"ce": 1.5}

    def put(self, criteria: Any, samples: int) -> None:
        self.told.append((dict(criteria), samples))


class Strategy:
    """Doubles what is counted."""

    def __init__(self, samples: int | None = None) -> None:
        self.told: list[Any] = []
        self.samples = samples

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        self.told.append((counts, store.gradients.copy()))
        samples = 2 * counts.samples if self.samples is None else self.samples
        return StepCounts(samples, counts.criteria, 2 * counts.counted)

    def sync(self, store: ParameterStore, counts: StepCounts) -> None:
        self.told.append(("sync", counts.samples))


def test_a_learner_alone_makes_a_whole_step():
    made, sums, strategy = Made(), Sums(), Strategy()
    for step in range(2):
        counts = made.stepper.learn(minibatch(4), place(), sums, strategy, merge=False)
        assert made.told[step:] == [("train", 40, (0, 7, 4, 0.5, step))]
    assert counts == StepCounts(7, {}, counted=4, read=40, learning_rate=0.5)
    assert made.stepper.steps == 2
    assert sums.told == [4, 4]
    assert strategy.told == [("sync", 7)] * 2


@pytest.mark.parametrize("settings", [{"learners": 2}, {"clips": True}])
def test_gradients_come_by_themselves_where_they_are_looked_at(settings):
    made = Made(**settings)
    rates = (RATE, Rates(0.25, 0.9))[: settings.get("learners", 1)]
    for step in range(2):
        made.told.clear()
        made.stepper.learn(minibatch(4), place(*rates), Sums(), Strategy(), merge=False)
        assert made.told == [
            ("gradients", 4),
            *(("update", (number, 7, 4, one.rate, step)) for number, one in enumerate(rates)),
        ]
    assert made.stepper.steps == 2


def test_parts_of_a_minibatch_are_summed():
    made = Made()
    made.stepper.learn(minibatch(5), place(parts=2), Sums(), Strategy(), merge=False)
    assert sorted(made.told[:2]) == [("gradients", 2), ("gradients", 3)]
    assert made.told[2:] == [("update", (0, 7, 5, 0.5, 0))]
    assert set(made.store.gradients.tolist()) == {5.0}


def test_what_learns_nothing_still_computes():
    made, sums = Made(), Sums()
    made.store.gradients[...] = 1
    made.stepper.learn(minibatch(4), place(learns=False), sums, Strategy(), merge=False)
    assert made.told == [("gradients", 4)]
    assert (made.stepper.steps, sums.told) == (0, [4])
    assert made.store.gradient(made.program.plan.sparse[0]).tolist() == [0]
    assert made.store.gradient(made.program.plan.trained[0]).tolist() == [4]


def test_nothing_is_learned_of_nothing():
    made, sums, strategy = Made(), Sums(), Strategy()
    assert made.stepper.learn(None, place(), sums, strategy, merge=False) == StepCounts(0, {})
    assert (made.told, sums.told, strategy.told) == ([], [], [])


def test_merged_counts_go_into_the_update():
    made, sums, strategy = Made(idle=True), Sums(), Strategy()
    made.stepper.learn(minibatch(4), place(), sums, strategy, merge=True, flags=(1.0,))
    (counts, gradients), synced = strategy.told
    assert counts == StepCounts(7, {"ce": 1.5}, counted=4, read=40, flags=(1.0,), learning_rate=0.5)
    assert [gradients[0], gradients[8]] == [0.0, 4.0]
    assert made.told == [("gradients", 4), ("update", (0, 14, 8, 0.5, 0))]
    assert (sums.told, synced, made.stepper.steps) == ([({"ce": 1.5}, 8)], ("sync", 14), 1)


def test_a_rank_without_data_sends_zeros():
    made, sums, strategy = Made(), Sums(), Strategy(samples=3)
    made.store.gradients[...] = 9
    made.stepper.learn(None, place(), sums, strategy, merge=True, flags=(0.0,))
    (counts, gradients), _ = strategy.told
    assert counts == StepCounts(0, {"ce": 0.0}, flags=(0.0,), learning_rate=0.5)
    assert not gradients.any()
    assert made.told == [("update", (0, 3, 3, 0.5, 0))]


@pytest.mark.parametrize(("samples", "learns"), [(0, True), (None, False)])
def test_merged_gradients_that_nobody_takes_are_forgotten(samples, learns):
    made, strategy = Made(), Strategy(samples)
    made.stepper.learn(minibatch(4), place(learns=learns), Sums(), strategy, merge=True)
    assert made.told == [("gradients", 4)]
    assert made.stepper.steps == 0
    assert made.store.gradient(made.program.plan.sparse[0]).tolist() == [0]


def test_minibatches_with_frames():
    assert has_frames(minibatch(1))
    assert not has_frames(minibatch(0))
    assert has_frames(Minibatch({}, 0))
    both = {**minibatch(0).streams, "y": minibatch(2).streams["x"]}
    assert has_frames(Minibatch(both, 2))
