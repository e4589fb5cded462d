"""Compiled best paths and sums over the arcs of lattices, against NumPy's, all paths one by one, and differences."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs
import numpy as np
import pytest
from cntk_engine_cpu import lattices as compiled
from cntk_engine_cpu.engine import CpuEngine
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api.engines import run_forward, run_gradient
from cntk_testing.counted_lattices import BOOSTED, CLASSES, MBR, PLAIN, Batch, batch, criterion
from cntk_testing.engine_contract import start
from cntk_testing.examples import examples
from cntk_testing.inside import BY_NUMPY, SEQUENCE_WITH_SOFTMAX, SequenceTrainingAttributes, read_lattices
from cntk_testing.lattice_networks import against_lattices, utterances_for

KINDS = pytest.mark.parametrize("attributes", [PLAIN, BOOSTED, MBR], ids=["MMI", "boosted", "sMBR"])

BY_KERNELS = compiled.CompiledSums()
COMPILED = attrs.evolve(SEQUENCE_WITH_SOFTMAX, forward=partial(SEQUENCE_WITH_SOFTMAX.forward, by=BY_KERNELS))


def value(op: Any, made: Batch, attributes: SequenceTrainingAttributes, logs: Any = None) -> float:
    inputs = made.inputs if logs is None else [*made.inputs[:2], logs, made.inputs[3]]
    return float(run_forward(op, np, inputs, attributes, made.context())[0])


def gradient(op: Any, made: Batch, attributes: SequenceTrainingAttributes) -> Any:
    context = made.context()
    output = run_forward(op, np, made.inputs, attributes, context)
    needs = (False, True, False, False)
    return run_gradient(op, np, np.ones(1), output, made.inputs, attributes, context, needs)[1]


def read(made: Batch) -> Any:
    return read_lattices(made.inputs[3], made.rows, made.layout, "test")


@given(seed=st.integers(0, 10_000), reference=st.booleans(), impossible=st.booleans())
@examples(40)
def test_kernels_find_what_numpy_finds(seed, reference, impossible):
    made = batch(seed, seed + 1, seed + 2, seed + 3, reference=reference)
    logs = made.inputs[2].copy()
    if impossible:
        logs[seed % len(logs)] = -np.inf
    lattices = read(made)
    (scores, classes), (own_scores, own_classes) = (each.best_paths(lattices, logs) for each in (BY_NUMPY, BY_KERNELS))
    np.testing.assert_array_equal(own_scores, scores)
    alive = np.repeat(scores > -1e29, lattices.lengths)
    np.testing.assert_array_equal(own_classes[alive], classes[alive])
    rng = np.random.default_rng(seed)
    arcs = rng.normal(size=len(lattices.begins)) * 3
    arcs[rng.random(len(arcs)) < 0.1] = -1e30
    matches = rng.integers(0, 4, len(arcs)).astype(np.float64)
    for own, other in zip(
        BY_KERNELS.sweep(lattices, arcs, matches), BY_NUMPY.sweep(lattices, arcs, matches), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=1e-13, atol=1e-13)


@KINDS
@given(seed=st.integers(0, 10_000))
@examples(15)
def test_the_value_is_that_of_all_paths(attributes, seed):
    made = batch(seed, seed + 1, seed + 2)
    each = zip(made.lattices, made.by_utterance(made.inputs[2]), made.by_utterance(made.inputs[0]), strict=True)
    expected = sum(criterion(lattice, logs, labels.argmax(axis=1), attributes) for lattice, logs, labels in each)
    assert value(COMPILED, made, attributes) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@KINDS
def test_the_gradient_is_that_by_the_log_likelihoods(attributes):
    made = batch(14, 15)
    logs, step = made.inputs[2], 1e-6
    expected = np.zeros_like(logs)
    for place in np.ndindex(*logs.shape):
        either = []
        for sign in (1, -1):
            moved = logs.copy()
            moved[place] += sign * step
            either.append(value(COMPILED, made, attributes, moved))
        expected[place] = (either[0] - either[1]) / (2 * step)
    scale = 1.0 if attributes.seq_gammar_uses_mbr else attributes.seq_gammar_amf
    found = gradient(COMPILED, made, attributes)
    np.testing.assert_allclose(found, scale * expected, atol=1e-6)
    np.testing.assert_allclose(found, gradient(SEQUENCE_WITH_SOFTMAX, made, attributes), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
def test_the_engine_takes_them_where_it_compiles(kernels, monkeypatch):
    counted = []
    for name in ("best_paths", "sweep"):
        function = getattr(compiled.CompiledSums, name)
        monkeypatch.setattr(
            compiled.CompiledSums, name, lambda *given, f=function, n=name: (counted.append(n), f(*given))[1]
        )
    run = start(CpuEngine(CpuEngine.options(cpu_kernels=kernels)), against_lattices("float32"))
    run.program.compute_gradients(utterances_for(run.sample, [4, 2, 3], 0))
    assert counted == (["best_paths", "sweep"] if kernels == "compiled" else [])


def test_nothing_is_found_where_there_is_nothing():
    made = batch(3)
    lattices = read(made)
    empty = attrs.evolve(
        lattices,
        **{name: getattr(lattices, name)[:0] for name in ("frames", "lengths", "states", "enter", "inner", "leave")},
        skip=lattices.skip[:0],
    )
    scores, classes = BY_KERNELS.best_paths(empty, np.zeros((0, CLASSES)))
    assert scores.shape == classes.shape == (0,)
