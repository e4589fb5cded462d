"""Gradients on a GPU: the kernels' source gives the bits of the other kernels, and the aggregation the same sums."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np
import pytest
from cntk_parallel_onebit import OneBit, OneBitOptions, portable
from cntk_parallel_onebit.device import OPTIONS, Device, kernel_name, source
from cntk_parallel_onebit.format import Matrix, word_type
from cntk_parallel_onebit.kernels import kernels
from test_quantize import BITS, cut_of, numbers, run

from cntk_core.api import Parameter, ParameterStore, Schedule, UnsupportedError
from cntk_testing import VirtualRanks
from cntk_testing_gpu.cuda_compile import compile_cuda, why_not_compile
from cntk_testing_gpu.cuda_shim import ORDERS, HostCuda, why_not_on_host
from cntk_testing_gpu.cupy_stand_in import RawModule, make_cupy

NAMES = [kernel_name(kernel, dtype, bits) for kernel in ("quantize", "unquantize") for dtype in "fd" for bits in BITS]

SHAPES = [(1, 3), (2, 2), (5, 4), (31, 2), (32, 2), (33, 1), (63, 2), (64, 2), (65, 2), (130, 1), (700, 2), (2050, 1)]
"""Rows and columns: columns shorter and longer than a warp, the lanes, and the words that threads share."""


@pytest.fixture(scope="module")
def program() -> HostCuda:
    if why_not_on_host():
        pytest.skip(why_not_on_host())
    return HostCuda(source(), NAMES)


@pytest.fixture
def cupy(program, monkeypatch):
    """The stand-in for CuPy, whose kernels run on the processor."""
    monkeypatch.setattr(RawModule, "prepared", {source(): program})
    found = make_cupy(devices=4)
    monkeypatch.setitem(sys.modules, "cupy", found)
    return found


class OnDevice:
    """The kernels of a device, for arrays of the processor."""

    def __init__(self, cupy: Any) -> None:
        self._home = Device(cupy, 0)

    def quantize(self, gradients, residual, words, scales, blocks, bits, by_sign) -> None:
        there = [self._home.put(one) for one in (gradients, residual, words)]
        self._home.kernels.quantize(*there, there[2].view(residual.dtype), blocks, bits, by_sign)
        residual[...], words[...] = self._home.get(there[1]), self._home.get(there[2])
        np.testing.assert_array_equal(self._home.get(there[0]), gradients)

    def unquantize(self, words, scales, gradients, blocks, bits, add) -> None:
        there = [self._home.put(one) for one in (words, gradients)]
        self._home.kernels.unquantize(there[0], there[0].view(gradients.dtype), there[1], blocks, bits, add)
        gradients[...] = self._home.get(there[1])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("bits", "by_sign"), [(1, False), *((bits, True) for bits in BITS)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.slow
def test_the_kernels_give_the_same_bits(cupy, monkeypatch, order, bits, by_sign, dtype) -> None:
    monkeypatch.setattr(RawModule, "order", order)
    rng = np.random.default_rng([bits, by_sign, ORDERS.index(order)])
    found, offset = [], 3
    for rows, columns in SHAPES:
        found.append(Matrix(offset, rows, columns))
        offset += rows * columns + 2
    gradients, residual = numbers(rng, offset, dtype), numbers(rng, offset, dtype)
    odd = np.array([np.nan, np.inf, -np.inf, 1e38, -0.0, 1e-40, 1e-44], dtype)
    gradients[rng.integers(offset, size=odd.size)] = odd
    results = [run(one, found, gradients, residual, bits, by_sign) for one in (kernels(), OnDevice(cupy))]
    for ours, theirs in zip(*results, strict=True):
        if ours.dtype.kind == "f":
            np.testing.assert_array_equal(ours, theirs)  # not a number is not a number, whatever its bits
            signs = [np.signbit(one[~np.isnan(one)]) for one in (ours, theirs)]
            np.testing.assert_array_equal(*signs)
        else:
            np.testing.assert_array_equal(ours, theirs)


def test_no_columns_are_nothing_to_do(cupy) -> None:
    words = np.zeros(1, np.uint32)
    OnDevice(cupy).unquantize(words, words.view(np.float32), np.zeros(1, np.float32), np.zeros((0, 5), int), 1, False)


def test_tables_go_with_their_blocks(cupy) -> None:
    run_on = OnDevice(cupy)
    blocks = cut_of([Matrix(0, 4, 3)], 4, "float32").blocks
    words, values = np.zeros(9, np.uint32), np.zeros(12, np.float32)
    run_on.unquantize(words, words.view(np.float32), values, blocks, 4, False)
    tables = run_on._home.kernels._tables
    assert list(tables) == [id(blocks)]
    del blocks
    assert not tables


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.sampled(2)
def test_the_kernels_compile_for_a_gpu(architecture) -> None:
    if why_not_compile():
        pytest.skip(why_not_compile())
    names = [kernel_name("quantize", "f", 1), kernel_name("quantize", "d", 4), kernel_name("unquantize", "f", 16)]
    assert compile_cuda(source(), architecture, OPTIONS, names).startswith(b"\x7fELF")


def on(cupy: Any, number: int) -> Any:
    """Put arrays on a GPU."""

    def put(array: Any) -> Any:
        with cupy.cuda.Device(number):
            return cupy.asarray(array)

    return put


def got(array: Any) -> Any:
    """An array of the processor, whatever is given."""
    if not hasattr(array, "get"):
        return array
    with sys.modules["cupy"].cuda.Device(array.device.id):
        return array.get()


class Through:
    """A communicator that takes arrays of a device, over one that does not."""

    takes_device_arrays = True

    def __init__(self, inner: Any, cupy: Any) -> None:
        self.rank, self.size, self._inner, self._cupy = inner.rank, inner.size, inner, cupy

    def _both(self, array: Any) -> tuple[Any, Any]:
        on_device = hasattr(array, "get")
        return (array.get(), self._cupy.asarray) if on_device else (array, lambda one: one)

    def allreduce(self, array: Any) -> None:
        values, put = self._both(array)
        self._inner.allreduce(values)
        array[...] = put(values)

    def alltoall(self, arrays: Any) -> Any:
        return [self._cupy.asarray(one) for one in self._inner.alltoall([one.get() for one in arrays])]

    def allgather(self, array: Any) -> Any:
        values, put = self._both(array)
        return [put(one) for one in self._inner.allgather(values)]


def steps_of(communicator: Any, put: Any, bits: int) -> list[Any]:
    """Sums of some steps, with headers, and the residuals after them; halfway the state is saved and taken back."""
    shapes = {"W": (7, 40), "b": (40,), "K": (4, 3, 3)}
    parameters = [Parameter.make(name, shape, value=np.zeros(shape)) for name, shape in shapes.items()]
    store = ParameterStore(parameters, "float32")
    settings = OneBitOptions(gradient_bits=Schedule.of([bits, 32]), reset_residual_per_epoch=False)
    aggregation, found = OneBit(settings), []
    aggregation.begin(store, communicator)
    aggregation.begin_epoch(0)
    for step in range(4):
        rng = np.random.default_rng([communicator.rank, step])
        gradients, header = rng.normal(size=store.gradients.size).astype(np.float32), rng.normal(size=3)
        if step == 2:
            state = {name: array.copy() for name, array in aggregation.state().items()}
            assert all(type(array) is np.ndarray for array in state.values())
            aggregation = OneBit(settings)
            aggregation.begin(store, communicator)
            aggregation.restore(state)
        aggregation.begin_epoch(int(step == 3))
        held = put(gradients)
        assert aggregation.works_on_device(communicator)
        aggregation.aggregate(held, header, communicator)
        found += [got(held), header]
    return [*found, *aggregation.state().values()]


@pytest.mark.parametrize("bits", [1, 4])
@pytest.mark.parametrize("through", [True, False])
def test_the_aggregation_on_a_device(cupy, bits, through) -> None:
    """With a communicator that takes arrays of devices, and with one that does not."""
    expected = VirtualRanks(3).run(lambda one: steps_of(one, lambda array: array, bits))
    found = VirtualRanks(3).run(
        lambda one: steps_of(Through(one, cupy) if through else one, on(cupy, one.rank + 1), bits)
    )
    for ours, theirs in zip(expected, found, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_residuals_are_adopted_on_a_device(cupy) -> None:
    def work(communicator: Any, put: Any) -> Any:
        store = ParameterStore([Parameter.make("W", (6, 8), value=np.zeros((6, 8)))], "float32")
        aggregation = OneBit(OneBitOptions())
        aggregation.begin(store, communicator)
        rng = np.random.default_rng(communicator.rank)
        aggregation.aggregate(put(rng.normal(size=48).astype(np.float32)), np.zeros(1), communicator)
        states = [{"local": rng.normal(size=48), "stripe": rng.normal(size=16)} for _ in range(3)]
        aggregation.adopt(states)
        return aggregation.state()

    expected = VirtualRanks(2).run(lambda one: work(one, lambda array: array))
    for ours, theirs in zip(expected, VirtualRanks(2).run(lambda one: work(one, on(cupy, 3))), strict=True):
        for name, array in ours.items():
            np.testing.assert_array_equal(array, theirs[name])


def test_without_cupy(monkeypatch) -> None:
    class There:
        __cuda_array_interface__: dict[str, Any] = {}

    real = builtins.__import__

    def importing(name: str, *given: Any, **named: Any) -> Any:
        if name == "cupy":
            raise ModuleNotFoundError("No module named 'cupy'")
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", importing)

    def work(communicator: Any) -> None:
        aggregation = OneBit(OneBitOptions())
        aggregation.begin(
            ParameterStore([Parameter.make("W", (2, 2), value=np.zeros((2, 2)))], "float32"), communicator
        )
        with pytest.raises(UnsupportedError) as caught:
            aggregation.aggregate(There(), np.zeros(1), communicator)
        assert str(caught.value) == (
            "gradients on a GPU cannot be quantized: No module named 'cupy'\n"
            '    pip install "cntk-parallel-onebit[cuda12]", or [cuda13]; or train in full precision.'
        )

    VirtualRanks(1).run(work)


@pytest.fixture
def gpu() -> Any:
    real = pytest.importorskip("cupy")
    if real.__name__ != "cupy":
        pytest.skip("a stand-in has the place of CuPy")
    try:
        count = real.cuda.runtime.getDeviceCount()
    except real.cuda.runtime.CUDARuntimeError:
        count = 0
    if not count:
        pytest.skip("there is no GPU")
    return real


@pytest.mark.gpu
def test_a_gpu_gives_the_same_bits(gpu) -> None:
    rng = np.random.default_rng(7)
    found = [Matrix(0, 300, 40), Matrix(12000, 17, 50), Matrix(12850, 2048, 3)]
    for dtype in ("float32", "float64"):
        gradients, residual = (rng.normal(size=12850 + 3 * 2048).astype(dtype) for _ in range(2))
        for bits in BITS:
            for by_sign in (True, False):
                results = [run(one, found, gradients, residual, bits, by_sign) for one in (portable, OnDevice(gpu))]
                for ours, theirs in zip(*results, strict=True):
                    np.testing.assert_array_equal(ours.view(word_type(dtype)), theirs.view(word_type(dtype)))
