"""Convolutions by cuDNN, on its stand-in: what they compute, what is refused, and where the numbers lie."""

from __future__ import annotations

import ctypes
import os
import sys
from types import ModuleType

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine, CudaOptions, fallback
from cntk_engine_cuda.convolution import pieces
from cntk_engine_cuda.correlation import Correlation, correlation_of
from cntk_engine_cuda.cudnn import RUNTIME, Missing, look_for_cudnn
from cntk_engine_cuda.runner import WARM
from cntk_engine_cuda.windows import Windows

from cntk_core.api import Available, TrainingError, Unavailable
from cntk_testing.engine_contract import MOMENTUM, EngineContract, start
from cntk_testing.inside import ConvolutionAttributes, DelayAttributes
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import sequences_for

CONTRACT = EngineContract()
NO, PLANE = (False,), (True, True, False)

FORMS = {
    "same": ((2, 4, 5), (3, 2, 3, 3), ConvolutionAttributes((3, 3, 2), 3, (1, 1, 2), (True,), PLANE)),
    "strided": ((2, 7, 9), (3, 2, 2, 3), ConvolutionAttributes((3, 2, 2), 3, (2, 3, 2), (True,), NO)),
    "own padding": (
        (1, 5, 5), (2, 1, 3, 3), ConvolutionAttributes((3, 3, 1), 2, (1, 2, 1), (True,), NO, (1, 0, 0), (0, 2, 0))
    ),
    "one axis": ((7,), (2, 4), ConvolutionAttributes((4,), 2, (3,), (True,), NO, (2,), (1,))),
    "three axes": (
        (2, 3, 4, 5), (2, 2, 3, 2, 3), ConvolutionAttributes((3, 2, 3, 2), 2, (1, 2, 1, 2), (True,), (True, *PLANE))
    ),
    "along channels": ((4, 5, 3), (2, 3, 3, 3), ConvolutionAttributes((3, 3, 3), 2, (1, 1, 1), (True,), (True,))),
    "whole": ((2, 3), (4, 2, 3), ConvolutionAttributes((3, 2), 4, (1, 1), (True,), NO)),
    "legacy": ((4, 5, 2), (18, 3), ConvolutionAttributes.image(3, 3, 3, 2, 1, zero_padding=True)),
    "transposed": (
        (2, 3, 4), (2, 3, 3, 3), ConvolutionAttributes((3, 3, 3), 2, (2, 2, 3), (True,), PLANE, transpose=True)
    ),
}  # fmt: skip
"""Samples, weights and attributes; both in the order of memory."""


def network(dtype, sample, weights, attributes):
    """Two convolutions of one value with the same weights, so that both gradients are added to others."""
    made = Sketch(dtype)
    x = made.input("x", *sample)
    h = made.op("ElementTimes", made.parameter("scale", *sample), x)
    w = made.parameter("w", *weights)
    first = made.op("Convolution", w, h, attributes=attributes, name="first")
    second = made.op("Convolution", w, h, attributes=attributes, name="second")
    out = made.op("ElementTimes", made.op("Tanh", first), second)
    return made.finish(made.op("SumElements", out, name="sum"), first, second)


def run(engine, dtype, form):
    return start(engine, network(dtype, *FORMS[form]), rule=MOMENTUM)


def assert_trains_as_the_reference(ours, reference, dtype, minibatches):
    before = ours.values()
    for step, data in enumerate(minibatches):
        for each in (ours, reference):
            each.program.train_step(data, each.scalars(MOMENTUM, step))
        CONTRACT.assert_same_changes(ours, reference, before, dtype)
    for each in (ours, reference):
        each.program.evaluate(minibatches[0])
    CONTRACT.assert_same_roots(ours, reference, dtype)


@pytest.mark.parametrize(("form", "dtype"), [*((form, "float32") for form in FORMS), ("three axes", "float64")])
@pytest.mark.sampled(5)
def test_training(cudnn, form, dtype):
    ours, reference = run(CudaEngine(), dtype, form), run(ReferenceEngine(), dtype, form)
    assert_trains_as_the_reference(ours, reference, dtype, [ours.sample.minibatch(5), ours.sample.minibatch(2, 1)])
    assert ours.program.remarks() == ()
    assert {"conv_fprop", "conv_dgrad", "conv_wgrad"} == set(cudnn.state.made)


@pytest.mark.parametrize("refused", ["conv_fprop", "conv_dgrad", "conv_wgrad"])
@pytest.mark.parametrize("form", ["same", "transposed"])
def test_what_cudnn_refuses_is_done_without(cudnn, form, refused):
    cudnn.state.wanted = lambda operation: operation == refused
    ours, reference = run(CudaEngine(), "float64", form), run(ReferenceEngine(), "float64", form)
    assert_trains_as_the_reference(ours, reference, "float64", [ours.sample.minibatch(3)])
    data, value = "the gradient of its input", "its value"
    names = {"conv_fprop": value, "conv_dgrad": data, "conv_wgrad": "the gradient of its weights"}
    if form == "transposed":
        names |= {"conv_fprop": data, "conv_dgrad": value}
    assert sorted(ours.program.remarks()) == [
        f"'{node}' Convolution: {names[refused]} is computed without cuDNN: cuDNN refuses it: [cudnn_frontend] Error: "
        "No execution plans support the graph."
        for node in ("first", "second")
    ]
    assert refused not in cudnn.state.made


def test_only_plans_of_full_precision_that_repeat_their_bits(cudnn):
    notes = cudnn.numerical_note
    always = {
        notes.NONDETERMINISTIC, notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION,
        notes.WINOGRAD_TILE_6x6, notes.WINOGRAD_TILE_13x13,
    }  # fmt: skip
    for options, barred in ((CudaOptions(), always | {notes.TENSOR_CORE}), (CudaOptions(allow_tf32=True), always)):
        made = run(CudaEngine(options), "float32", "same")
        made.program.compute_gradients(made.sample.minibatch(2))
        assert cudnn.state.notes == barred


def test_a_plan_is_made_once_for_each_size(cudnn):
    made = run(CudaEngine(), "float32", "same")
    for frames in (3, 2, 3, 2):
        made.program.compute_gradients(made.sample.minibatch(frames))
    assert sorted(cudnn.state.made) == sorted(["conv_fprop", "conv_dgrad", "conv_wgrad"] * 2)
    made.program.compute_gradients(made.sample.minibatch(0))
    assert len(cudnn.state.made) == 6


def test_any_number_of_samples_is_made_up_of_few(cudnn):
    sizes = {part.stop - part.start for frames in range(1, 4097) for part in pieces(frames)}
    assert len(sizes) == 31 + 7 * 16 + 1
    assert [(part.start, part.stop) for part in pieces(100)] == [(0, 100)]
    assert [(part.start, part.stop) for part in pieces(1001)] == [(0, 992), (992, 1001)]
    ours, reference = run(CudaEngine(), "float32", "own padding"), run(ReferenceEngine(), "float32", "own padding")
    assert_trains_as_the_reference(ours, reference, "float32", [ours.sample.minibatch(71)])  # 68 and 3
    assert cudnn.state.made.count("conv_wgrad") == 2


def test_a_step_is_one_graph(cudnn):
    ours, plain = (
        run(CudaEngine(), "float32", "same"),
        run(CudaEngine(CudaOptions(cuda_graphs=False)), "float32", "same"),
    )
    for step in range(WARM + 3):
        for each in (ours, plain):
            each.program.train_step(ours.sample.minibatch(4, step), ours.scalars(MOMENTUM, step))
    (bound,) = ours.program._binder.bound
    assert [runner.graphs for runner in bound._steps.values()] == [1]
    assert [len(runner._parts) for runner in bound._steps.values()] == [1]
    for one, other in zip(ours.values(), plain.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_in_a_loop_operands_lie_anywhere(cudnn):
    """The rows of a time step begin where they begin; cuDNN wants multiples of 16 bytes."""

    def made(dtype):
        sketch = Sketch(dtype)
        x = sketch.input("x", 3, 5)
        past = sketch.op("PastValue", attributes=DelayAttributes((5, 3), 1, 0.1))
        same = ConvolutionAttributes((3, 3), 1, auto_padding=(True,))
        moved = sketch.op("Convolution", sketch.parameter("w", 1, 3, 3), past, attributes=same)
        h = sketch.op("Tanh", sketch.op("Plus", x, moved))
        past.inputs = [h]
        return sketch.finish(sketch.op("SumElements", h, name="sum"), h)

    ours, reference = (start(engine, made("float32"), rule=MOMENTUM) for engine in (CudaEngine(), ReferenceEngine()))
    data = [sequences_for(ours.sample, lengths) for lengths in ([3, 2, 4], [1, 3])]
    assert_trains_as_the_reference(ours, reference, "float32", data)
    assert ours.program.remarks() == ()


def elsewhere(bind):
    """What runs an op by its own description, but no convolution."""

    def checked(site, step):
        assert all(node.op.name != "Convolution" or not node.inputs[1].framed for node in step.nodes)
        return bind(site, step)

    return checked


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.thorough)])
def test_the_examples_of_the_contract(cudnn, dtype, monkeypatch):
    monkeypatch.setattr(fallback, "bind_forward", elsewhere(fallback.bind_forward))
    CONTRACT.test_op(CudaEngine(), "Convolution", dtype)
    assert {"conv_fprop", "conv_dgrad", "conv_wgrad"} == set(cudnn.state.made)


@pytest.mark.gpu
@pytest.mark.parametrize("allow_tf32", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_on_a_gpu(form, dtype, allow_tf32):
    """The real cuDNN against the reference; tensor cores round factors to 10 bits."""
    answer, found = CudaEngine.availability(), look_for_cudnn()
    if isinstance(answer, Unavailable) or isinstance(found, Missing):
        pytest.skip(answer.reason if isinstance(answer, Unavailable) else found.reason)
    ours = run(CudaEngine(CudaOptions(allow_tf32=allow_tf32)), dtype, form)
    reference = run(ReferenceEngine(), dtype, form)
    assert ours.program.gpu.cudnn is not None
    contract = EngineContract()
    if allow_tf32:
        contract.tolerance = {**contract.tolerance, "float32": 5e-3}
    before = ours.values()
    for step, frames in enumerate((5, 2, *([5] * (WARM + 2)))):  # the last as a CUDA graph
        data = ours.sample.minibatch(frames, step)
        for each in (ours, reference):
            each.program.train_step(data, each.scalars(MOMENTUM, step))
        contract.assert_same_changes(ours, reference, before, dtype)
    for each in (ours, reference):
        each.program.evaluate(data)
    contract.assert_same_roots(ours, reference, dtype)
    assert ours.program.remarks() == ()


class TestWhatCudnnHasNot:
    @pytest.mark.parametrize(
        ("windows", "reason"),
        [
            (Windows((1, 1, 1, 9), (1, 1, 1, 3), (1, 1, 1, 1), (0, 0, 0, -1), (1, 1, 1, 7)), "leave out elements"),
            (Windows((1, 1, 1, 9), (1, 1, 1, 3), (1, 1, 1, 2), (0, 0, 0, 0), (1, 1, 1, 2)), "leave out elements"),
            (Windows((5, 5, 5, 5), (3, 3, 3, 3), (1, 1, 1, 1), (1, 1, 1, 1), (5, 5, 5, 5)), "move along 4 axes"),
        ],
    )
    def test_is_said(self, windows, reason):
        found = correlation_of(windows, 2, 3, np.dtype("f4"))
        assert isinstance(found, str)
        assert reason in found

    def test_the_last_elements_that_no_window_reaches(self):
        windows = Windows((1, 1, 1, 9), (1, 1, 1, 2), (1, 1, 1, 4), (0, 0, 0, 0), (1, 1, 1, 2))
        found = correlation_of(windows, 2, 3, np.dtype("f4"))
        assert found == Correlation((3, 1, 1, 9), (2, 1, 1, 2), (3, 2, 1, 2), (1, 4), (0, 0), (0, 0), np.dtype("f4"))

    def test_axes_that_one_window_covers_are_channels(self):
        windows = Windows((3, 1, 8, 9), (3, 1, 3, 3), (3, 1, 2, 1), (0, 0, 1, 1), (1, 1, 4, 9))
        found = correlation_of(windows, 5, 7, np.dtype("f8"))
        assert found == Correlation((7, 3, 8, 9), (5, 3, 3, 3), (7, 5, 4, 9), (2, 1), (1, 1), (0, 1), np.dtype("f8"))


class TestWhatIsFound:
    def test_its_version(self, cudnn):
        assert look_for_cudnn() == "9.28.0 (frontend 1.32.0)"
        answer = CudaEngine.availability()
        assert isinstance(answer, Available)
        assert answer.detail.endswith("CuPy 14.2.0 (stand-in); cuDNN 9.28.0 (frontend 1.32.0)")

    @pytest.mark.usefixtures("standin")
    def test_none(self):
        assert look_for_cudnn() == Missing("its Python frontend is not installed")
        answer = CudaEngine.availability()
        assert isinstance(answer, Available)
        assert answer.detail.endswith("CuPy 14.2.0 (stand-in); no cuDNN: its Python frontend is not installed")
        assert CudaEngine().gpu.cudnn is None

    def test_it_is_not_wanted(self, cudnn):
        assert CudaEngine(CudaOptions(use_cudnn=False)).gpu.cudnn is None

    def test_too_old(self, cudnn, monkeypatch):
        monkeypatch.setattr(cudnn, "backend_version", lambda: 90501)
        assert look_for_cudnn() == Missing("it is 9.5.1, and 9.11 is the oldest that does")

    def test_the_oldest(self, cudnn, monkeypatch):
        monkeypatch.setattr(cudnn, "backend_version", lambda: 91100)
        assert look_for_cudnn() == "9.11.0 (frontend 1.32.0)"

    def test_without_its_library(self, cudnn, monkeypatch):
        def missing():
            raise RuntimeError("libcudnn.so.9 is missing")

        monkeypatch.setattr(cudnn, "backend_version", missing)
        assert look_for_cudnn() == Missing("it cannot be used: libcudnn.so.9 is missing")

    def test_another_module_of_that_name(self, standin, monkeypatch):
        other = ModuleType("cudnn")
        other.__spec__ = sys.__spec__
        other.backend_version = lambda: 92800
        monkeypatch.setitem(sys.modules, "cudnn", other)
        assert look_for_cudnn() == Missing("the module cudnn is not NVIDIA's frontend")

    def test_the_runtime_library_is_that_of_cupy(self, cudnn, monkeypatch):
        loaded = []
        finder = ModuleType("cuda.pathfinder")
        finder.load_nvidia_dynamic_lib = loaded.append
        monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)
        monkeypatch.setattr(ctypes, "CDLL", loaded.append)
        monkeypatch.delenv(RUNTIME)
        assert CudaEngine().gpu.cudnn is not None
        assert loaded == ["cudart", "libcudart.so.13"]
        assert os.environ[RUNTIME] == "libcudart.so.13"
        monkeypatch.setenv(RUNTIME, "mine")
        assert CudaEngine().gpu.cudnn is not None
        assert os.environ[RUNTIME] == "mine"

    def test_it_does_not_start(self, cudnn, monkeypatch):
        def broken():
            raise RuntimeError("CUDNN_STATUS_NOT_INITIALIZED")

        monkeypatch.setattr(cudnn, "create_handle", broken)
        engine = CudaEngine()
        with pytest.warns(RuntimeWarning, match="convolutions are computed without cuDNN: CUDNN_STATUS_NOT_INIT"):
            gpu = engine.gpu
        assert gpu.cudnn is None

    def test_it_fails_while_it_computes(self, cudnn, monkeypatch):
        def broken(*arguments, **settings):
            raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")

        monkeypatch.setattr(cudnn.pygraph, "execute", broken)
        made = run(CudaEngine(), "float32", "same")
        with pytest.raises(TrainingError) as caught:
            made.program.evaluate(made.sample.minibatch(3))
        assert str(caught.value) == (
            "cuDNN could not compute a convolution: CUDNN_STATUS_EXECUTION_FAILED\n"
            "    useCuDNN = false computes it without cuDNN."
        )
