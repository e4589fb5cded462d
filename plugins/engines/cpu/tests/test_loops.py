"""Recurrent networks on this engine, interpreted and compiled, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cpu import loop_kernels
from cpu_networks import compile_on, engine
from recurrent_checks import LENGTHS, assert_same
from recurrent_networks import NETWORKS, minibatches, recurrent_plan, sequences

from cntk_core.api.engines import Loop
from cntk_core.api.readers import slot_layout

QUICK = ("elman", "learned state", "diagonal")
INTERPRETED = ("softmax", "own gradient")


def compiles(plan):
    """Whether the loops of a plan are compiled."""
    _, program = compile_on(engine("compiled+onednn"), plan, None, np.float32)
    program.compute_gradients(minibatches([[2, 1]], np.float32)[0])
    return program._last.site.compiled_loops == {step for step in plan.steps if isinstance(step, Loop)}


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
def test_interpreted(name, dtype):
    assert_same(recurrent_plan(name, dtype), "numpy+blas", minibatches(LENGTHS, dtype), dtype)


@pytest.mark.parametrize("name", QUICK)
def test_compiled(name):
    pytest.importorskip("llvmlite")
    assert_same(recurrent_plan(name, np.float32), "compiled+onednn", minibatches(LENGTHS, np.float32), np.float32)


@pytest.mark.slow
@pytest.mark.thinned
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("backend", "dtype"), [("compiled+onednn", np.float32), ("compiled+blas", np.float64)])
@pytest.mark.parametrize("name", NETWORKS)
def test_all_compiled(name, backend, dtype):
    pytest.importorskip("llvmlite")
    assert_same(recurrent_plan(name, dtype), backend, minibatches(LENGTHS, dtype), dtype)


@pytest.mark.parametrize("name", NETWORKS)
def test_only_loops_with_other_ops_are_interpreted(name, monkeypatch):
    pytest.importorskip("llvmlite")
    texts = []
    whole = loop_kernels.compile_text

    def compiled(text, *arguments):
        texts.append(text)
        return whole(text, *arguments)

    monkeypatch.setattr(loop_kernels, "compile_text", compiled)
    assert compiles(recurrent_plan(name, np.float32)) == (name not in INTERPRETED)
    assert not (texts and name in INTERPRETED)


def truncated(dtype):
    """Three slots of which some go on in the next minibatch, others begin or end inside."""
    rng = np.random.default_rng(2)
    layouts = [
        slot_layout([[4], [1, 2], [3]], continues=[True, False, True]),
        slot_layout([[4], [2, 2], [1, 3]], continued=[True, False, True], continues=[True, True, False]),
        slot_layout([[1], [4], [2, 1, 1]], continued=[True, True, False]),
    ]
    return [sequences(rng, layout, len(layout.begins), dtype) for layout in layouts]


@pytest.mark.parametrize("backend", ["numpy+blas", pytest.param("compiled+onednn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["elman", "elman back", "elman 3 steps", "lstm", "learned state", "straight"])
def test_state_is_carried_over_minibatches(name, backend):
    if "compiled" in backend:
        pytest.importorskip("llvmlite")
    assert_same(recurrent_plan(name), backend, truncated(np.float64), np.float64)


def test_an_epoch_begins_without_state():
    plan = recurrent_plan("lstm")
    _, program = compile_on(engine("numpy+blas"), plan, None, np.float64)
    first, second, _ = truncated(np.float64)
    found = []
    for batch in (second, first, second):
        program.begin_epoch(0)
        program.evaluate(batch)
        found.append(program.value("z"))
        program.evaluate(first)  # leaves a state behind
    np.testing.assert_array_equal(found[0], found[2])
    program.evaluate(second)
    assert np.abs(program.value("z") - found[0]).max() > 1e-3


@pytest.mark.parametrize("name", ["elman", "stacked", "softmax", "straight", "gathered"])
def test_minibatches_without_frames(name):
    plan = recurrent_plan(name)
    batches = minibatches([[3, 2], [0, 0], [2, 3]])
    assert_same(plan, "numpy+blas", batches, np.float64)


@pytest.mark.parametrize("name", ["elman", "lstm", "gru"])
def test_padding_changes_nothing(name):
    """A sequence alone has the values that it has among others."""
    plan = recurrent_plan(name)
    _, program = compile_on(engine("numpy+blas"), plan, None, np.float64)
    rng = np.random.default_rng(0)
    together = slot_layout([[3], [2], [5]])
    batch = sequences(rng, together, 3)
    program.evaluate(batch)
    values = program.value("z")
    for slot in range(3):
        rows = together.start[: together.lengths[slot]] + slot
        alone = sequences(rng, slot_layout([[len(rows)]]), 1)
        alone.streams["x"].data[...] = batch.streams["x"].data[rows]
        program.evaluate(alone)
        np.testing.assert_allclose(program.value("z"), values[rows], rtol=1e-12)
