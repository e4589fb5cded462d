"""The reference engine's update of parameters with sparse gradients."""

from __future__ import annotations

import attrs
import numpy as np

from cntk_core.records.minibatch import Minibatch
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sparse_networks import product, sparse_stream


def test_a_sparse_gradient_changes_the_rows_that_occur_alone():
    """Momentum goes on only where an element occurs: CNTK's block-sparse update."""
    run = start(ReferenceEngine(), product("float64"), rule=MOMENTUM)
    weights = next(p for p in run.plan.trained if p.name == "W0")
    assert list(run.plan.sparse) == [weights]
    target = run.sample.minibatch(2).streams["target"]
    for step, columns in enumerate(([0, 4], [4, 7], [7, 7])):
        rows = np.zeros((2, 9))
        rows[[0, 1], columns] = 1.0
        before, slot = weights.value.copy(), run.store.slot("smoothed", weights).copy()
        run.program.train_step(Minibatch({"x": sparse_stream(rows), "target": target}, 2), run.scalars(MOMENTUM, step))
        changed = np.flatnonzero((weights.value != before).any(axis=1))
        assert changed.tolist() == sorted(set(columns))
        slots = np.flatnonzero((run.store.slot("smoothed", weights) != slot).any(axis=1))
        assert slots.tolist() == sorted(set(columns))
        numbers = run.scalars(MOMENTUM, step)[run.plan.trained.index(weights)]
        smoothed = numbers["momentum"] * slot + numbers["rate"] * run.store.gradient(weights)
        np.testing.assert_allclose(run.store.slot("smoothed", weights)[changed], smoothed[changed])


def test_a_rule_that_works_everywhere_changes_all_rows():
    rule = attrs.evolve(MOMENTUM, everywhere=True, key="everywhere")
    run = start(ReferenceEngine(), product("float64"), rule=rule)
    weights = next(p for p in run.plan.trained if p.name == "W0")
    target = run.sample.minibatch(1).streams["target"]
    for column in (2, 5):
        rows = np.zeros((1, 9))
        rows[0, column] = 1.0
        before = weights.value.copy()
        run.program.train_step(Minibatch({"x": sparse_stream(rows), "target": target}, 1), run.scalars(rule))
    assert np.flatnonzero((weights.value != before).any(axis=1)).tolist() == [2, 5]
