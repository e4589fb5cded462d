"""Options of the engine, what it says of this machine, and its choice of the fast parts."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine, libraries
from cntk_engine_cpu.engine import COMPILED_PARAMETERS
from cntk_engine_cpu.libraries import thread_count
from cpu_networks import Net
from recurrent_networks import recurrent_plan

from cntk_core.api import Available, ParameterStore
from cntk_core.api.builders import parse_text


def program(size, **options):
    net = Net()
    root = net.node("Sigmoid", net.node("Times", net.parameter(size, size), net.input("x", size)))
    plan = net.plan(None, root)
    return CpuEngine(CpuEngine.options(**options)).compile(plan, ParameterStore(plan.network.parameters, np.float32))


def test_options_come_from_the_recipe():
    block = parse_text("numCPUThreads=2\ncpuKernels=numpy\ncpuProducts=blas")
    settings = CpuEngine.settings_from(block, "the CPU engine")
    assert (settings.num_cpu_threads, settings.cpu_kernels, settings.cpu_products) == (2, "numpy", "blas")


def test_small_networks_are_not_compiled():
    pytest.importorskip("llvmlite")
    assert not program(8)._kernels.compiled
    assert program(80)._kernels.compiled
    assert program(8, cpu_kernels="compiled")._kernels.compiled
    assert not program(80, cpu_kernels="numpy")._kernels.compiled


@pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")
@pytest.mark.parametrize("kernels", ["auto", "numpy"])
def test_loops_are_compiled_however_small_they_are(kernels):
    plan = recurrent_plan("lstm", np.float32)
    store = ParameterStore(plan.network.parameters, np.float32)
    assert store.values.size < COMPILED_PARAMETERS
    made = CpuEngine(CpuEngine.options(cpu_kernels=kernels)).compile(plan, store)
    assert made._kernels.compiled == (kernels == "auto")


@pytest.mark.parametrize(
    ("found", "onednn", "said"),
    [
        (("llvmlite", "cffi"), "libdnnl.so", "kernels by LLVM, products by oneDNN"),
        (("llvmlite", "cffi"), None, "kernels by LLVM, products by SciPy's BLAS (oneDNN is not installed)"),
        (("llvmlite",), "libdnnl.so", "kernels by LLVM, products by SciPy's BLAS (oneDNN is not installed)"),
        (("cffi",), "libdnnl.so", "kernels by NumPy (llvmlite is not installed), products by oneDNN"),
    ],
)
def test_what_is_here(monkeypatch, found, onednn, said):
    """The products of oneDNN take its library and cffi, which calls it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name in found else None)
    monkeypatch.setattr("cntk_engine_cpu.engine.onednn_path", lambda: onednn)
    monkeypatch.setattr("cntk_engine_cpu.engine.float_control", object)
    monkeypatch.setattr("cntk_engine_cpu.engine.has_openmp", lambda: True)
    answer = CpuEngine.availability()
    assert isinstance(answer, Available)
    assert answer.detail.partition(", ")[2] == f"{said}, denormals flushed"


def test_onednn_needs_openmp(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("cntk_engine_cpu.engine.onednn_path", lambda: "libdnnl.so")
    monkeypatch.setattr("cntk_engine_cpu.libraries.ctypes.CDLL", missing)
    said = (
        "products by SciPy's BLAS (oneDNN needs libgomp.so.1, which this system has not: install its package libgomp1)"
    )
    answer = CpuEngine.availability()
    assert isinstance(answer, Available)
    assert said in answer.detail


def test_the_environment_asks_for_the_portable_path(monkeypatch):
    monkeypatch.setenv("CNTK_CPU", "numpy")
    found = program(80, cpu_kernels="compiled")
    assert not found._kernels.compiled
    assert found._gemm.onednn is None


def test_without_onednn_blas_is_used(monkeypatch):
    monkeypatch.setattr("cntk_engine_cpu.engine.load_onednn", lambda: None)
    assert program(8)._gemm.onednn is None


@pytest.mark.parametrize(("asked", "expected"), [(0, 8), (3, 3), (-2, 6), (-9, 1)])
def test_threads(monkeypatch, asked, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(libraries, "processors", lambda: 8)
    assert thread_count(asked) == expected


@pytest.mark.parametrize(("text", "expected"), [("5", 5), ("0", 8), ("many", 8), ("", 8)])
def test_threads_of_the_environment(monkeypatch, text, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    monkeypatch.setattr(libraries, "processors", lambda: 8)
    assert thread_count(0) == expected
    assert thread_count(2) == 2


def test_availability_names_what_it_found(monkeypatch):
    monkeypatch.setattr("cntk_engine_cpu.engine.thread_count", lambda asked: 4)
    monkeypatch.setattr("cntk_engine_cpu.engine.onednn_path", lambda: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("cntk_engine_cpu.engine.float_control", object)
    assert CpuEngine.availability() == Available(
        "4 threads, kernels by NumPy (llvmlite is not installed), products by SciPy's BLAS (oneDNN is not installed), "
        "denormals flushed"
    )


def test_availability_imports_nothing_heavy():
    program = (
        "import sys; from cntk_engine_cpu import CpuEngine; print(CpuEngine.availability().detail);"
        "print([name for name in ('numba', 'llvmlite', 'scipy', 'cffi') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


TRAINED = """
import sys
import numpy as np
from cpu_networks import Net, compile_on, engine, minibatch, momentum_rule, train

net = Net()
product = net.node("Times", net.parameter(4, 6), net.input("x", 4))
hidden = net.node("Sigmoid", net.node("Plus", product, net.parameter(6)))
scores = net.node("Times", net.parameter(6, 3), hidden)
criterion = net.node("CrossEntropyWithSoftmax", net.input("l", 3), scores)
_, program = compile_on(engine("compiled+onednn"), net.plan(criterion), momentum_rule(), np.float32)
train(program, [minibatch(net.rng, 6, {"x": (4,), "l": (3,)})], folded=True)
print([name for name in ("llvmlite", "numba") if name in sys.modules])
"""


def test_no_network_needs_numba():
    pytest.importorskip("llvmlite")
    done = subprocess.run(
        [sys.executable, "-c", TRAINED], text=True, capture_output=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout.splitlines()[-1] == "['llvmlite']"


def test_processors_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(libraries.os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    monkeypatch.setattr(libraries.os, "cpu_count", lambda: 64)
    assert libraries.processors() == 3
    monkeypatch.delattr(libraries.os, "sched_getaffinity")
    assert libraries.processors() == 64
    monkeypatch.setattr(libraries.os, "cpu_count", lambda: None)
    assert libraries.processors() == 1
