"""Denormals: flushed while a program computes in single precision, in its workers too, and never afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine, denormals
from cntk_engine_cpu.blas_workers import BlasWorkers, scipy_openblas
from cntk_engine_cpu.denormals import AsItIs, SetMode, computing, denormals_kept, float_control, mode_for, works
from cntk_engine_cpu.libraries import load_onednn
from cpu_networks import BACKENDS, SCALARS, Net, momentum_rule

from cntk_core.api import Minibatch, ParameterStore, StreamData
from cntk_core.api.engines import frame_layout

TINY = np.array([1 << 10], np.uint32).view(np.float32)
"""A denormal, about 1.4e-42."""

pytestmark = pytest.mark.skipif(float_control() is None, reason="denormals cannot be flushed here")


def tiny_is_zero() -> bool:
    return float((TINY * np.float32(2.0**60))[0]) == 0.0


def program(dtype=np.float32, *, denormal_weights=True, **options):
    """A product, with its store."""
    net = Net(dtype=dtype)
    weights = np.full((70, 64), 1e-40 if denormal_weights else 1e-3)
    product = net.node("Times", net.parameter(70, 64, value=weights), net.input("x", 70), name="product")
    plan = net.plan(net.node("SumElements", product, name="sum"), product)
    store = ParameterStore(plan.network.parameters, dtype)
    return CpuEngine(CpuEngine.options(**options)).compile(plan, store, momentum_rule()), store


def minibatch(value=1.0, dtype=np.float32):
    return Minibatch({"x": StreamData(np.full((3, 70), value, dtype), frame_layout(3))}, 3)


@pytest.mark.parametrize("backend", [pytest.param(each, id=name) for name, each in BACKENDS.items()])
@pytest.mark.parametrize(("mode", "zero"), [("flush", True), ("keep", False)])
def test_values_of_an_evaluation(backend, mode, zero):
    made, _ = program(cpu_denormals=mode, num_cpu_threads=1, **backend)
    made.evaluate(minibatch())
    assert np.array_equal(made.value("product"), np.zeros((3, 64))) == zero
    assert not tiny_is_zero()


@pytest.mark.parametrize("backend", [pytest.param(each, id=name) for name, each in BACKENDS.items()])
@pytest.mark.parametrize(("mode", "zero"), [("flush", True), ("keep", False)])
@pytest.mark.parametrize("whole", [True, False], ids=["step", "gradients"])
def test_slots_and_gradients(backend, mode, zero, whole):
    """A gradient of 1e-37, times a rate of 0.01, is denormal."""
    made, store = program(denormal_weights=False, cpu_denormals=mode, num_cpu_threads=1, **backend)
    if whole:
        made.train_step(minibatch(1e-37 / 3), [SCALARS])
    else:
        made.compute_gradients(minibatch(1e-37 / 3))
        made.update([SCALARS])
    assert (not np.any(store.slots["s"])) == zero
    assert not tiny_is_zero()


def test_double_precision_keeps_its_denormals():
    made, _ = program(np.float64, cpu_denormals="flush")
    assert isinstance(made.floats, AsItIs)
    made.evaluate(minibatch(dtype=np.float64))
    assert np.all(made.value("product") > 0)


def test_the_thread_gets_its_mode_back_after_an_error():
    class Fails:
        floats = mode_for(np.dtype(np.float32), 1, flush=True, openmp=False)

        @computing
        def compute(self, wanted: bool) -> None:
            """Documented."""
            assert tiny_is_zero() == wanted
            raise ZeroDivisionError

    assert Fails.compute.__doc__ == "Documented."
    with pytest.raises(ZeroDivisionError):
        Fails().compute(wanted=True)
    assert not tiny_is_zero()


def test_calls_may_be_nested():
    mode = mode_for(np.dtype(np.float32), 1, flush=True, openmp=False)
    outer = mode.enter()
    inner = mode.enter()
    mode.leave(inner)
    assert tiny_is_zero()
    with denormals_kept():
        assert not tiny_is_zero()
    assert tiny_is_zero()
    mode.leave(outer)
    assert not tiny_is_zero()


def test_a_callers_own_mode_stays():
    """Whoever has set the mode himself has it afterwards, whatever the recipe says."""
    control = float_control()
    before = control.enter(flush=True)
    try:
        for flush in (True, False):
            mode = mode_for(np.dtype(np.float32), 1, flush=flush, openmp=False)
            entered = mode.enter()
            assert tiny_is_zero()
            mode.leave(entered)
            assert tiny_is_zero()
    finally:
        control.leave(before)
    assert not tiny_is_zero()


def test_other_threads_are_left_alone():
    mode = mode_for(np.dtype(np.float32), 1, flush=True, openmp=False)
    ask, answered, found = threading.Event(), threading.Event(), []

    def reader() -> None:
        ask.wait(60)
        found.append(tiny_is_zero())
        answered.set()

    thread = threading.Thread(target=reader)
    thread.start()
    before = mode.enter()
    ask.set()
    answered.wait(60)
    mode.leave(before)
    thread.join()
    assert found == [False]


def products(library, threads: int) -> int:
    """How many columns of a product of denormals are not zero: each thread computes some of them."""
    a = np.full((8, 64), TINY[0], np.float32)
    b, c = np.full((64, 4096), 4.0, np.float32), np.ones((8, 4096), np.float32)
    library.set_threads(threads)
    library.sgemm(b"N", b"N", 8, 4096, 64, 1.0, a.ctypes.data, 64, b.ctypes.data, 4096, 0.0, c.ctypes.data, 4096)
    return int(np.count_nonzero(c.any(axis=0)))


BLAS = """
import numpy as np
from scipy.linalg import blas
from cntk_engine_cpu.denormals import mode_for

a = np.full((512, 512), 1e-42, np.float32, order="F")
b = np.full((512, 512), 1.0, np.float32, order="F")
found = []
for dtype, flush in ((np.float32, True), (np.float32, False), (np.float32, True), (np.float64, True)):
    mode = mode_for(np.dtype(dtype), 2, flush=flush, openmp=False)
    before = mode.enter()
    product = blas.sgemm(1.0, a, b)
    mode.leave(before)
    found.append(float(np.count_nonzero(product) / product.size))
print(found)
"""


@pytest.mark.slow
def test_threads_of_blas_follow():
    """In a process of its own: the tests' may have other threads."""
    if scipy_openblas() is None:
        pytest.skip("SciPy has another library for products")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", BLAS], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[0.0, 1.0, 0.0, 1.0]\n"


def test_threads_of_blas_are_left_alone_while_others_may_compute(monkeypatch):
    called = []
    library = types.SimpleNamespace(
        blas_thread_shutdown_=lambda: called.append("end"), blas_thread_init=lambda: called.append("begin")
    )
    workers = BlasWorkers(library)
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    workers.follow(flush=True)
    assert called == []
    end.set()
    other.join()
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    for flush in (False, True, True, False):
        workers.follow(flush=flush)
    assert called == ["end", "begin"] * 2
    BlasWorkers(None).follow(flush=True)


def test_workers_follow():
    """They keep the mode in which they were made, or which they were told last."""
    library = load_onednn()
    if library is None:
        pytest.skip("oneDNN is not installed")
    modes = {flush: mode_for(np.dtype(np.float32), 3, flush=flush, openmp=True) for flush in (True, False)}
    found = []
    for flush in (False, True, True, False, True, False):
        before = modes[flush].enter()
        found.append(products(library, 3))
        modes[flush].leave(before)
    assert found == [4096, 0, 0, 4096, 0, 4096]


def test_workers_are_told_once(monkeypatch):
    told = []
    openmp = types.SimpleNamespace(GOMP_parallel=lambda function, data, threads, flags: told.append(threads))
    control = float_control()
    workers = denormals.Workers(control, openmp)
    for threads, flush in ((2, False), (1, True), (2, True), (2, True), (4, True), (2, True), (2, False), (2, False)):
        mode = SetMode(control, workers, threads, flush=flush)
        mode.leave(mode.enter())
    assert told == [2, 4, 4]


def test_a_machine_without_a_known_way(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "vax")
    assert float_control.__wrapped__() is None


def test_a_control_that_does_nothing_is_not_believed():
    control = float_control()
    assert works(control)
    assert not works(denormals.FloatControl(control.get, control.set, control.word, bits=0))


def test_without_a_control_the_mode_stays(monkeypatch):
    monkeypatch.setattr(denormals, "float_control", lambda: None)
    assert isinstance(mode_for(np.dtype(np.float32), 2, flush=True, openmp=True), AsItIs)
    assert denormals.openmp_workers.__wrapped__() is None
    with denormals_kept():
        assert not tiny_is_zero()


@pytest.mark.parametrize(
    ("here", "said"), [(object(), "flushed"), (None, "kept (this machine has no known way to flush them)")]
)
def test_what_the_engine_says(monkeypatch, here, said):
    monkeypatch.setattr("cntk_engine_cpu.engine.float_control", lambda: here)
    assert CpuEngine.availability().detail.endswith(f", denormals {said}")
