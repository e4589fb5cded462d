"""What a step tells the strategy of the ranks, and when it learns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cntk_core.contract.parallel import StepCounts
from cntk_core.training.loop.step import Stepper


def step(total: StepCounts, *, learns: bool = True, minibatch: Any = None, merge: bool = True) -> list[Any]:
    """Return what happens in a step, in order, whose gradients are merged to these counts."""
    told: list[Any] = []
    strategy: Any = SimpleNamespace(
        reduce=lambda store, own: told.append(("reduce", own)) or total,
        sync=lambda store, counts: told.append(("sync", store, counts)),
    )
    sums: Any = SimpleNamespace(
        put=lambda criteria, counted: told.append(("put", criteria, counted)),
        add=lambda counted: told.append(("add", counted)),
    )
    stepper: Any = SimpleNamespace(
        store=SimpleNamespace(forget_gradients=lambda sparse: told.append(("forget", sparse))),
        program=SimpleNamespace(plan=SimpleNamespace(sparse="sparse")),
        update=lambda samples, counted, place: told.append(("update", samples, counted)),
        learn_alone=lambda minibatch, place: told.append(("alone", minibatch)) or total,
        _own_share=lambda *given: "own",
    )
    place: Any = SimpleNamespace(learns=learns)
    found = Stepper.learn(stepper, minibatch, place, sums, strategy, merge=merge)
    assert found == (total if told else StepCounts(0, {}))
    return [entry[0] if entry[0] == "sync" else entry for entry in told]


def test_gradients_are_merged_learned_and_synchronised():
    total = StepCounts(8, {"ce": 1.5}, counted=7)
    assert step(total) == [("reduce", "own"), ("update", 8, 7), "sync", ("put", {"ce": 1.5}, 7)]


@pytest.mark.parametrize(("samples", "learns"), [(0, True), (8, False)])
def test_what_is_not_learned_is_forgotten_and_synchronised_all_the_same(samples, learns):
    told = step(StepCounts(samples, {}), learns=learns)
    assert [entry if isinstance(entry, str) else entry[0] for entry in told] == ["reduce", "forget", "sync", "put"]


def test_a_rank_by_itself_synchronises_what_it_has_learned():
    told = step(StepCounts(8, {}), minibatch="minibatch", merge=False)
    assert [entry if isinstance(entry, str) else entry[0] for entry in told] == ["alone", "add", "sync"]
    assert step(StepCounts(0, {}), merge=False) == []
