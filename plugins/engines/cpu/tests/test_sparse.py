"""Sparse inputs on this engine: no dense arrays, the elements that the data name, mistakes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from cpu_networks import BACKENDS, compile_on, engine
from scipy.sparse import csr_array

from cntk_core.api import DataError, Input, Minibatch, StreamData
from cntk_core.api.engines import frame_layout, make_plan
from cntk_testing import ReferenceEngine
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.networks import Sketch, classifier
from cntk_testing.sparse_networks import product, sparse_stream

DIM, FRAMES, OUT = 100_000, 64, 4


def large():
    made = Sketch(np.float32)
    x = made.network.add(Input.make("x", (DIM,), sparse=True))
    weights = made.given("E", np.ones((DIM, OUT)))
    z = made.op("Times", weights, x)
    return made.finish(made.op("SquareError", made.input("target", OUT), z, name="se"))


def words(seed):
    rng = np.random.default_rng(seed)
    columns = rng.integers(DIM, size=FRAMES)
    rows = csr_array((np.ones(FRAMES, np.float32), columns, np.arange(FRAMES + 1)), shape=(FRAMES, DIM))
    target = np.zeros((FRAMES, OUT), np.float32)
    layout = frame_layout(FRAMES)
    return Minibatch({"x": StreamData(rows, layout), "target": StreamData(target, layout)}, FRAMES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_makes_nothing_as_large_as_the_input_or_its_weights(backend):
    run = start(engine(backend), large(), rule=MOMENTUM)
    run.program.train_step(words(0), run.scalars(MOMENTUM))
    batches = [words(seed) for seed in range(1, 4)]
    tracemalloc.start()
    try:
        for data in batches:
            run.program.train_step(data, run.scalars(MOMENTUM))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < DIM * OUT * 4 / 4
    assert run.program.memory() < 100 * FRAMES * OUT * 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_zeros_that_the_data_name_occur(backend):
    """An element with the value 0 has no gradient, but its momentum goes on."""
    runs = [start(each, product(np.float64), rule=MOMENTUM) for each in (engine(backend), ReferenceEngine())]
    target = runs[0].sample.minibatch(1).streams["target"]
    for value in (1.0, 0.0):
        rows = csr_array((np.array([value]), np.array([3]), np.array([0, 1])), shape=(1, 9))
        before = [run.sample.network["W0"].value.copy() for run in runs]
        for run in runs:
            data = Minibatch({"x": StreamData(rows, frame_layout(1)), "target": target}, 1)
            run.program.train_step(data, run.scalars(MOMENTUM))
    changes = [run.sample.network["W0"].value - old for run, old in zip(runs, before, strict=True)]
    assert changes[0].any(axis=1).nonzero()[0].tolist() == [3]
    np.testing.assert_allclose(*changes)


def test_a_minibatch_without_frames_changes_no_row():
    run = start(engine("numpy+blas"), product(np.float32), rule=MOMENTUM)
    run.program.train_step(run.sample.minibatch(4), run.scalars(MOMENTUM))
    before = run.sample.network["W0"].value.copy()
    run.program.train_step(run.sample.minibatch(0), run.scalars(MOMENTUM))
    np.testing.assert_array_equal(run.sample.network["W0"].value, before)


def test_a_stream_of_another_size_is_named():
    run = start(engine("numpy+blas"), product(np.float32), training=False)
    data = run.sample.minibatch(2)
    data.streams["x"] = StreamData(csr_array(np.eye(2, 7)), frame_layout(2))
    with pytest.raises(DataError) as caught:
        run.program.evaluate(data)
    assert caught.value.message == "the input 'x' is [9], but its stream gives samples of [7]"


@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_that_come_sparse_now_and_then(backend):
    """The criteria of a network are the same for a sparse stream, and nothing of its size is made for it."""
    runs = [start(each, classifier(np.float64), rule=MOMENTUM) for each in (engine(backend), ReferenceEngine())]
    for step, kind in enumerate(("dense", "sparse", "sparse", "dense")):
        data = runs[0].sample.minibatch(5, step)
        for run, sparse in zip(runs, (kind == "sparse", False), strict=True):
            labels = data.streams["labels"].data
            streams = data.streams | {"labels": sparse_stream(labels)} if sparse else data.streams
            run.program.train_step(Minibatch(streams, 5), run.scalars(MOMENTUM))
        for name in ("ce", "err"):
            np.testing.assert_allclose(*(run.program.value(name) for run in runs), rtol=1e-10)
        for ours, theirs in zip(*(run.values() for run in runs), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_that_are_an_input_are_those_of_the_minibatch(backend):
    """The kernels of sparse labels read the reader's array, which is another one each time."""
    made = Sketch(np.float32)
    labels, scores = made.network.add(Input.make("labels", (5,), sparse=True)), made.input("scores", 5)
    criteria = [
        made.op(op, labels, scores, name=name)
        for op, name in (("CrossEntropyWithSoftmax", "ce"), ("ClassificationError", "err"))
    ]
    sample = made.finish(None, *criteria)
    programs = [
        compile_on(each, make_plan(sample.network, criteria))[1] for each in (engine(backend), ReferenceEngine())
    ]
    for step in range(3):
        rng = np.random.default_rng(step)
        rows = csr_array(np.eye(5)[rng.integers(5, size=4)])
        layout = frame_layout(4)
        streams = {
            "labels": StreamData(rows, layout),
            "scores": StreamData(rng.normal(size=(4, 5)).astype(np.float32), layout),
        }
        for program in programs:
            program.evaluate(Minibatch(streams, 4))
        for name in ("ce", "err"):
            np.testing.assert_allclose(*(program.value(name) for program in programs), rtol=1e-6)


VOCABULARY = 500_000
"""Words of a network whose labels, as arrays, would be as large as the scores."""


def language_model():
    """Words looked up in a table, a hidden layer, and the next word out of half a million as the label."""
    made = Sketch(np.float32)
    word, label = (made.network.add(Input.make(name, (VOCABULARY,), sparse=True)) for name in ("word", "label"))
    hidden = made.op("Tanh", made.op("LookupTable", made.given("E", np.ones((VOCABULARY, 2))), word))
    z = made.op("Times", made.given("W", np.full((2, VOCABULARY), 0.1)), hidden, name="z")
    error = made.op("ClassificationError", label, z, name="err")
    return made.finish(made.op("CrossEntropyWithSoftmax", label, z, name="ce"), error)


def next_words(seed, frames):
    rng = np.random.default_rng(seed)
    layout = frame_layout(frames)
    streams = {}
    for name in ("word", "label"):
        columns = rng.integers(VOCABULARY, size=frames)
        rows = csr_array((np.ones(frames, np.float32), columns, np.arange(frames + 1)), shape=(frames, VOCABULARY))
        streams[name] = StreamData(rows, layout)
    return Minibatch(streams, frames)


@pytest.mark.slow
def test_half_a_million_labels_stay_sparse():
    frames = 12
    run = start(engine("compiled+onednn"), language_model(), rule=MOMENTUM)
    one = frames * VOCABULARY * 4
    batches = [next_words(seed, frames) for seed in range(3)]
    tracemalloc.start()
    try:
        run.program.train_step(batches[0], run.scalars(MOMENTUM))
        _, first = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        for data in batches[1:]:
            run.program.train_step(data, run.scalars(MOMENTUM))
        _, later = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The scores, their softmax and their gradient; no fourth for the labels.
    assert first < 3.5 * one
    assert later - before < one / 10
    found = run.program.value("ce").item()
    # With equal weights all words have nearly the same chance.
    assert found == pytest.approx(frames * np.log(VOCABULARY), rel=0.01)
    assert run.program.value("err").item() == pytest.approx(frames, abs=1)
