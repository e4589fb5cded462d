"""What the engine says of the machine, which device it takes, and what it says when memory runs out."""

from __future__ import annotations

import importlib.util
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine, engine
from cntk_engine_cuda.engine import CudaOptions

from cntk_core.api import Available, DataError, Minibatch, NetworkError, TrainingError, Unavailable
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.networks import classifier


@pytest.fixture
def runtime(standin, monkeypatch):
    """The runtime of the stand-in, to be changed."""
    made = SimpleNamespace(**vars(standin.cuda.runtime))
    monkeypatch.setattr(standin.cuda, "runtime", made)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name == "cupy" else None)
    return made


def test_without_cupy(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert CudaEngine.availability() == Unavailable(
        "CuPy is not installed.",
        'pip install "cntk-engine-cuda[cuda13]" (driver 580 or later) or "cntk-engine-cuda[cuda12]" (525 or later)',
    )
    assert CudaEngine.devices() == ()
    with pytest.raises(TrainingError) as caught:
        _ = CudaEngine().gpu
    assert str(caught.value) == (
        "the CUDA engine cannot run here: CuPy is not installed.\n"
        '    pip install "cntk-engine-cuda[cuda13]" (driver 580 or later) or "cntk-engine-cuda[cuda12]" (525 or later)'
    )


def test_a_broken_cupy(monkeypatch):
    def broken():
        raise ImportError("libnvrtc.so.13 is missing")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(engine, "import_cupy", broken)
    answer = CudaEngine.availability()
    assert isinstance(answer, Unavailable)
    assert answer.reason == "CuPy cannot be used: libnvrtc.so.13 is missing"


@pytest.mark.parametrize(
    ("driver", "library", "reason", "hint"),
    [
        (0, 13000, "there is no NVIDIA driver.", "Install the driver of the GPU; nvidia-smi shows it then."),
        (
            12080,
            13020,
            "the driver is too old: it knows CUDA 12.8, and CuPy 14.2.0 (stand-in) is made for CUDA 13.2.",
            'Install driver 580 or later, or pip install "cntk-engine-cuda[cuda12]".',
        ),
    ],
)
def test_drivers_that_do_not_do(runtime, driver, library, reason, hint):
    runtime.driverGetVersion = lambda: driver
    runtime.runtimeGetVersion = lambda: library
    assert CudaEngine.availability() == Unavailable(reason, hint)


def test_no_gpu(runtime):
    def none():
        raise runtime.CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    runtime.getDeviceCount = none
    assert CudaEngine.availability() == Unavailable(
        "CUDA finds no GPU: cudaErrorNoDevice: no CUDA-capable device is detected",
        "CUDA_VISIBLE_DEVICES may hide it.",
    )


def test_gpus_that_are_hidden(runtime):
    runtime.getDeviceCount = lambda: 0
    assert CudaEngine.availability() == Unavailable("CUDA finds no GPU.", "CUDA_VISIBLE_DEVICES may hide it.")
    with pytest.raises(TrainingError) as caught:
        _ = CudaEngine(CudaOptions(device_id="0")).gpu
    assert str(caught.value) == (
        "the CUDA engine cannot run here: CUDA finds no GPU.\n    CUDA_VISIBLE_DEVICES may hide it."
    )


def test_a_driver_without_a_known_successor(runtime):
    runtime.driverGetVersion = lambda: 13000
    runtime.runtimeGetVersion = lambda: 14010
    with pytest.raises(TrainingError) as caught:
        _ = CudaEngine().gpu
    assert str(caught.value) == (
        "the CUDA engine cannot run here: the driver is too old: it knows CUDA 13.0, and CuPy 14.2.0 (stand-in) is "
        'made for CUDA 14.1.\n    Install a newer driver, or pip install "cntk-engine-cuda[cuda13]".'
    )


def test_two_gpus(runtime):
    runtime.getDeviceCount = lambda: 2
    assert CudaEngine.devices() == (0, 1)
    assert CudaEngine.availability() == Available(
        "GPU 0: Stand-in, GPU 1: Stand-in; CUDA 13.0, driver for 13.0, CuPy 14.2.0 (stand-in); no cuDNN: its Python "
        "frontend is not installed"
    )
    assert CudaEngine(CudaOptions(device_id="1")).gpu.number == 1
    with pytest.raises(TrainingError) as caught:
        _ = CudaEngine(CudaOptions(device_id="2")).gpu
    assert str(caught.value) == "there is no GPU deviceId=2\n    There are: 0, 1."


@pytest.mark.usefixtures("runtime")
class TestMemory:
    def test_the_plan_s_bytes_are_told(self, standin, monkeypatch):
        run = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
        run.program.train_step(run.sample.minibatch(7), run.scalars(MOMENTUM))
        before = standin.empty

        def full(shape, *arguments, **settings):
            if np.prod(shape) > 100_000:
                raise standin.OutOfMemoryError("out of memory")
            return before(shape, *arguments, **settings)

        monkeypatch.setattr(standin, "empty", full)
        with pytest.raises(TrainingError) as caught:
            run.program.train_step(run.sample.minibatch(1_000_000), run.scalars(MOMENTUM))
        size = 4
        needed = sum((each.per_frame * 1_000_000 + each.fixed) * size for each in run.plan.buffers)
        parameters = 3 * run.store.size * size
        assert str(caught.value) == (
            f"the memory of GPU 0 does not suffice: the plan needs {needed / 2**20:.1f} MiB for minibatches of 1000000 "
            f"frames and {parameters / 2**10:.1f} KiB for parameters, gradients and the learner; 7.0 GiB of 8.0 GiB "
            "are free\n    Give a smaller minibatchSize, or maxSamplesInRAM or numSubminibatches to compute a "
            "minibatch in parts; cntk explain shows what the plan keeps."
        )
        monkeypatch.setattr(standin, "empty", before)
        assert run.program._binder.bound == (), "nothing holds what was given back"
        run.program.train_step(run.sample.minibatch(9), run.scalars(MOMENTUM))
        assert all(np.isfinite(value).all() for value in run.values())

    def test_parameters_that_do_not_fit(self, standin, monkeypatch):
        def full(*arguments, **settings):
            raise standin.OutOfMemoryError("out of memory")

        engine = CudaEngine()
        assert engine.gpu.number == 0
        monkeypatch.setattr(standin, "zeros", full)
        with pytest.raises(TrainingError) as caught:
            start(engine, classifier("float64"), rule=MOMENTUM)
        assert str(caught.value) == (
            "the memory of GPU 0 does not suffice: the plan needs 2.2 KiB for parameters, gradients and the learner; "
            "7.0 GiB of 8.0 GiB are free\n    Give a smaller minibatchSize, or maxSamplesInRAM or numSubminibatches to "
            "compute a minibatch in parts; cntk explain shows what the plan keeps."
        )

    def test_a_program_tells_its_bytes(self):
        run = start(CudaEngine(), classifier("float32"))
        run.program.compute_gradients(run.sample.minibatch(20))
        buffers = sum((each.per_frame * 20 + each.fixed) * 4 for each in run.plan.buffers)
        assert run.program.memory() >= buffers


@pytest.mark.usefixtures("runtime")
class TestNumbersStayOnTheDevice:
    def test_nothing_comes_back_before_somebody_asks(self, standin, monkeypatch):
        run = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
        fetched = []
        before = standin.ndarray.get
        monkeypatch.setattr(
            standin.ndarray, "get", lambda self, *a, **k: fetched.append(self.shape) or before(self, *a, **k)
        )
        for step in range(4):
            run.program.train_step(run.sample.minibatch(6, step), run.scalars(MOMENTUM, step))
        assert fetched == []
        totals = run.program.read_totals()
        assert len(fetched) == 1
        assert all(np.isfinite(total) for total in totals.values())
        values = run.store.values
        assert fetched[1:] == [(run.store.size,)]
        assert run.store.values is values
        assert len(fetched) == 2, "what is not newer there is not fetched again"

    def test_what_the_host_changes_counts(self):
        run = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
        other = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
        data = run.sample.minibatch(6)
        for each in (run, other):
            each.program.train_step(data, each.scalars(MOMENTUM))
        for parameter in run.plan.trained:
            run.store.value(parameter)[...] = 0.25
            run.store.slot("smoothed", parameter)[...] = 0.0
        run.program.compute_gradients(data)
        run.store.gradients[...] = 1.0
        numbers = [{"rate": 0.5, "momentum": 0.0} for _ in run.plan.trained]
        run.program.update(numbers)
        for parameter in run.plan.trained:
            np.testing.assert_array_equal(run.store.value(parameter), np.float32(-0.25))


@pytest.mark.usefixtures("standin")
def test_a_minibatch_that_is_refused_leaves_no_value():
    run = start(CudaEngine(), classifier("float32"))
    run.program.evaluate(run.sample.minibatch(3))
    assert run.program.value("ce") > 0.0
    with pytest.raises(DataError):
        run.program.evaluate(Minibatch({}, 0))
    with pytest.raises(NetworkError, match="the root 'ce' has not been computed yet"):
        run.program.value("ce")


@pytest.mark.usefixtures("standin")
def test_buffers_are_given_back_before_larger_ones_are_asked_for(monkeypatch):
    """Never are the old ones and the new ones there together."""
    run = start(CudaEngine(), classifier("float32"), rule=MOMENTUM)
    run.program.train_step(run.sample.minibatch(3), run.scalars(MOMENTUM))
    gpu, alive = run.program.gpu, []
    before = [weakref.ref(one.use().base) for one in run.program._storage._buffers]

    def empty(count, dtype):
        alive.append(sum(one() is not None for one in before))
        return made(count, dtype)

    made = gpu.empty
    monkeypatch.setattr(gpu, "empty", empty)
    run.program.train_step(run.sample.minibatch(9), run.scalars(MOMENTUM))
    framed = sum(bool(one.per_frame) for one in run.program.plan.buffers)
    assert set(alive) >= {len(before) - done for done in range(1, framed + 1)}
