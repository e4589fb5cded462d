"""What is the same in every minibatch runs as one CUDA graph."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine, CudaOptions, blas
from cntk_engine_cuda.gpu import Call
from cntk_engine_cuda.runner import WARM, Runner
from cuda_images import images

from cntk_core.api import Minibatch, StreamData
from cntk_core.api.readers import slot_layout
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.networks import SAMPLES, classifier, dropout
from cntk_testing.sequence_networks import (
    CLASSES,
    FEATURES,
    SEQUENCE_SAMPLES,
    bidirectional,
    learned_state,
    lstm,
    sequences_for,
)
from cntk_testing_gpu.cupy_stand_in import Cublas, launched

pytestmark = pytest.mark.usefixtures("standin")


def runners(program):
    return [runner for bound in program._binder.bound for runner in bound._steps.values()]


@pytest.mark.parametrize("name", ["classifier", "dropout"])
def test_a_whole_step_is_one_graph(name):
    made = {"classifier": classifier, "dropout": dropout}[name]
    run = start(CudaEngine(), made("float32"), rule=MOMENTUM)
    plain = start(CudaEngine(CudaOptions(cuda_graphs=False)), made("float32"), rule=MOMENTUM)
    for each in (run, plain):
        each.program.begin_epoch(0, {"dropoutRate": 0.5})
    for step in range(WARM + 4):
        for each in (run, plain):
            each.program.train_step(run.sample.minibatch(7, step), run.scalars(MOMENTUM, step))
    assert [runner.graphs for runner in runners(run.program)] == [1]
    assert [len(runner._parts) for runner in runners(run.program)] == [1]
    assert [runner.graphs for runner in runners(plain.program)] == [0]
    for one, other in zip(run.values(), plain.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert run.program.read_totals() == plain.program.read_totals()


@pytest.mark.parametrize("name", sorted(SEQUENCE_SAMPLES))
@pytest.mark.sampled(6)
def test_loops_run_as_graphs_when_an_arrangement_comes_again(name):
    run = start(CudaEngine(), SEQUENCE_SAMPLES[name]("float32"), rule=MOMENTUM)
    plain = start(CudaEngine(CudaOptions(cuda_graphs=False)), SEQUENCE_SAMPLES[name]("float32"), rule=MOMENTUM)
    for step, lengths in enumerate([[3, 1, 2], [2, 2]] * (WARM + 2)):
        for each in (run, plain):
            each.program.train_step(sequences_for(run.sample, lengths, step), run.scalars(MOMENTUM, step))
    for one, other in zip(run.values(), plain.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def slots(sample, layout, seed):
    """A minibatch for a network with inputs ``x`` and ``labels``."""
    rng = np.random.default_rng(seed)
    data = {"x": rng.normal(size=(layout.frames, FEATURES)), "labels": np.eye(CLASSES)[[1] * layout.frames]}
    streams = {name: StreamData(rows.astype("float32"), layout) for name, rows in data.items()}
    return Minibatch(streams, layout.frames)


LAYOUTS = [
    slot_layout([[4], [4]], continues=[True, True]),
    slot_layout([[2, 2], [4]], continued=[True, True], continues=[False, True]),
    slot_layout([[4], [1, 3]], continued=[False, True], continues=[True, True]),
]

STEPS = {
    "classifier": (classifier, lambda sample, step: sample.minibatch(7, step)),
    "dropout": (dropout, lambda sample, step: sample.minibatch(7, step)),
    "slices": (SAMPLES["slices"], lambda sample, step: sample.minibatch(7, step)),
    "images": (images, lambda sample, step: sample.minibatch(3, step)),
    "lstm": (lstm, lambda sample, step: slots(sample, LAYOUTS[step % 3], step)),
    "learned_state": (learned_state, lambda sample, step: slots(sample, LAYOUTS[step % 3], step)),
    "bidirectional": (bidirectional, lambda sample, step: sequences_for(sample, [5, 4, 4], step)),
    "normalized": (SEQUENCE_SAMPLES["normalized"], lambda sample, step: sequences_for(sample, [5, 4, 4], step)),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.sampled(4)
def test_nothing_is_launched_beside_the_graph(name):
    """Where sizes come again: forward, loops, gradients and update are one graph."""
    make, data = STEPS[name]
    run = start(CudaEngine(), make("float32"), rule=MOMENTUM)
    for step in range(WARM + 3):
        launched.clear()
        run.program.train_step(data(run.sample, step), run.scalars(MOMENTUM, step))
        if step < WARM:
            assert launched["graph"] == 0
    assert dict(launched) == {"graph": 1}


@pytest.mark.usefixtures("cudnn")
def test_convolutions_by_cudnn_are_part_of_the_graph():
    run = start(CudaEngine(), images("float32"), rule=MOMENTUM)
    for step in range(WARM + 2):
        launched.clear()
        run.program.train_step(run.sample.minibatch(3, step), run.scalars(MOMENTUM, step))
        assert launched["cudnn"] == (2 if step < WARM else 0)
    assert dict(launched) == {"graph": 1}


def test_sizes_that_come_seldom_get_no_graph():
    run = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
    for frames in (9, 8, 7, 8):
        run.program.train_step(run.sample.minibatch(frames), run.scalars(MOMENTUM))
    assert sum(runner.graphs for runner in runners(run.program)) == 0


def test_what_cannot_be_captured_is_told_and_runs_without():
    gpu = CudaEngine().gpu
    with gpu.current():
        array = gpu.cupy.zeros((1,), dtype=np.float32)
        looks = Call(lambda: float(array.get()[0]))  # nobody may look while a graph is captured
        runner = Runner(gpu, [*gpu.fill(array, 5.0) * 3, looks], graphs=True)
        for _ in range(WARM):
            runner()
        with pytest.warns(RuntimeWarning, match="no CUDA graph could be made, the step runs without: cudaErrorStream"):
            runner()
        array.fill(1.0)
        runner()
        assert array.get().tolist() == [5.0]
    assert runner.graphs == 0


def test_without_the_library_products_stand_between_graphs(monkeypatch):
    def missing(cupy):
        raise OSError("libcublas.so.13: cannot open shared object file")

    with monkeypatch.context() as patch:
        patch.setattr(blas, "load_library", missing)
        run = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
    plain = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
    assert isinstance(run.program.gpu.blas, blas.CupyBlas)
    assert isinstance(plain.program.gpu.blas, blas.DirectBlas)
    for step in range(WARM + 3):
        for each in (run, plain):
            each.program.train_step(run.sample.minibatch(7, step), run.scalars(MOMENTUM, step))
    for one, other in zip(run.values(), plain.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_library_that_computes_something_else_is_not_used(monkeypatch):
    class Wrong(Cublas):
        def _gemm(self, kind, handle, ta, tb, *rest):
            return super()._gemm(kind, handle, tb, ta, *rest)

    monkeypatch.setattr(blas, "load_library", lambda cupy: Wrong())
    assert isinstance(CudaEngine().gpu.blas, blas.CupyBlas)


def test_what_needs_the_host_runs_between_graphs():
    gpu = CudaEngine().gpu
    done = []
    with gpu.current():
        array = gpu.cupy.zeros((4,), dtype=np.float32)
        host = Call(lambda: done.append(float(array.get()[0])), captured=False)

        fill = [*gpu.fill(array, 5.0) * 3, host, *gpu.fill(array, 6.0) * 3]
        runner = Runner(gpu, fill, graphs=True)
        for _ in range(WARM + 2):
            runner()
        assert array.get().tolist() == [6.0] * 4
    assert runner.graphs == 2
    assert done == [5.0] * (WARM + 2)
