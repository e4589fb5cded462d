"""The stand-in for CuPy refuses what CuPy and a GPU refuse, and shows what they would make wrong."""

from __future__ import annotations

import time
from weakref import WeakSet

import numpy as np
import pytest

from cntk_testing_gpu.cupy_stand_in import CudaError, check_guards, kernels, make_cupy, why_not_kernels

KERNEL = """
extern "C" __global__ void put_numbers(float* out, long long count, float value)
{
    for (long long i = threadIdx.x; i < count; i += blockDim.x)
        out[i] = value;
}
"""

SUMS = """
extern "C" __global__ void add_neighbours(float* out, int most)
{
    __shared__ float seen[64];
    if (threadIdx.x >= most) return;
    seen[threadIdx.x] = out[threadIdx.x + 64 * blockIdx.x];
    __syncthreads();
    out[threadIdx.x + 64 * blockIdx.x] += seen[63 - threadIdx.x];
}
"""


@pytest.fixture
def cupy():
    return make_cupy(devices=2)


class TestArrays:
    def test_they_do_not_mix_with_those_of_numpy(self, cupy):
        ours, theirs = cupy.zeros((3,)), np.zeros(3)
        for mixed in (lambda: ours + theirs, lambda: theirs + ours, lambda: np.asarray(ours)):
            with pytest.raises(TypeError):
                mixed()
        with pytest.raises(TypeError, match="Unsupported type"):
            cupy.concatenate([ours, theirs])
        assert (ours + 1.0).get().tolist() == [1.0] * 3

    def test_each_is_used_on_its_device(self, cupy):
        array = cupy.zeros((2,))
        with cupy.cuda.Device(1):
            assert cupy.zeros((2,)).device.id == 1
            with pytest.raises(CudaError, match="an array of device 0 is used on device 1"):
                array + 1
        with pytest.raises(CudaError, match="invalid device ordinal"):
            cupy.cuda.Device(2)

    def test_what_was_never_written_shows(self, cupy):
        assert np.isnan(cupy.empty((3,), np.float32).get()).all()
        assert (cupy.empty((3,), np.int64).get() > 1 << 60).all()

    def test_values_are_those_of_numpy(self, cupy):
        array = cupy.asarray(np.arange(6.0)).reshape(2, 3)
        assert cupy.sum(array, axis=0).get().tolist() == [3.0, 5.0, 7.0]
        array[:, 1:] = 2.0
        array += 1.0
        assert array.get().tolist() == [[1.0, 3.0, 3.0], [4.0, 3.0, 3.0]]
        assert array.copy().max().item() == 4.0
        with pytest.raises(AttributeError, match="no attribute 'fft'"):
            _ = cupy.fft


class TestStreams:
    def test_work_waits_until_somebody_waits_for_it(self, cupy):
        array = cupy.zeros((2,))
        with cupy.cuda.Stream(non_blocking=True) as stream:
            array.fill(5.0)
            done = stream.record()
        assert not done.done
        assert array.get().tolist() == [0.0, 0.0], "nobody has waited for the other stream"
        done.synchronize()
        assert array.get().tolist() == [5.0, 5.0]

    def test_streams_wait_for_each_other(self, cupy):
        array, first, second = cupy.zeros((1,)), cupy.cuda.Stream(), cupy.cuda.Stream()
        with first:
            array.fill(1.0)
        second.wait_event(first.record())
        with first:
            array.fill(7.0)
        with second:
            assert array.get().tolist() == [1.0]

    def test_threads_do_the_work_in_the_background(self):
        cupy = make_cupy(background=True)
        array = cupy.zeros((1,))
        with cupy.cuda.Stream() as stream:
            array.fill(3.0)
            done = stream.record()
        end = time.monotonic() + 20.0
        while not done.done and time.monotonic() < end:
            time.sleep(0.001)
        assert done.done
        assert array.get().tolist() == [3.0]

    def test_memory_that_is_freed_meanwhile_is_not_given_away(self, cupy):
        with cupy.cuda.Stream() as stream:
            given = cupy.zeros((1000,))
            result = cupy.zeros((1000,))
            address = given.data.ptr
            cupy.cuda.runtime.memcpyAsync(result.data.ptr, address, 8000, 3, stream.ptr)
            del given
            others = [cupy.full((1000,), 9.0) for _ in range(20)]
            assert address not in [other.data.ptr for other in others]
            assert not result.get().any()


class TestGraphs:
    def test_a_graph_does_it_again(self, cupy):
        array = cupy.zeros((1,))
        with cupy.cuda.Stream() as stream:
            stream.begin_capture()
            array += 2.0
            graph = stream.end_capture()
            assert array.get().tolist() == [0.0]
            for _ in range(3):
                graph.launch(stream=stream)
            assert array.get().tolist() == [6.0]

    def test_what_waits_cannot_be_captured(self, cupy):
        array = cupy.zeros((1,))
        with cupy.cuda.Stream() as stream:
            stream.begin_capture()
            with pytest.raises(CudaError, match="operation not permitted when stream is capturing"):
                array.get()
            with pytest.raises(NotImplementedError, match="cuBLAS API during stream capture"):
                cupy.cublas.gemm("N", "N", array, array, array)
            stream.end_capture()
        with pytest.raises(CudaError, match="the default stream cannot be captured"):
            cupy.cuda.Stream(null=True).begin_capture()


@pytest.mark.skipif(bool(why_not_kernels()), reason=why_not_kernels() or "there is a compiler")
class TestKernels:
    @pytest.fixture
    def write(self, cupy):
        return cupy.RawModule(code=KERNEL).get_function("put_numbers")

    def test_they_run(self, cupy, write):
        array = cupy.zeros((5,), np.float32)
        write((1,), (32,), (array, np.int64(4), np.float32(2.0)))
        assert array.get().tolist() == [2.0] * 4 + [0.0]

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (lambda array: (array, np.int64(4), 2), "int64 for an argument of type float"),
            (lambda array: (array[::2], np.int64(2), np.float32(2)), "an array that is not in one piece"),
            (lambda array: (array, np.int64(4)), "put_numbers takes 3 arguments, not 2"),
            (lambda array: (array.get(), np.int64(4), np.float32(2)), "an array was expected"),
        ],
    )
    def test_arguments_must_be_what_the_kernel_says(self, cupy, write, arguments, problem):
        with pytest.raises((AssertionError, TypeError), match=problem):
            write((1,), (32,), arguments(cupy.zeros((5,), np.float32)))

    def test_writing_beside_an_array_is_told(self, cupy, write):
        array = cupy.zeros((5,), np.float32)
        write((1,), (32,), (array, np.int64(6), np.float32(2.0)))
        del array
        with pytest.raises(AssertionError, match="an array of 20 bytes was written beside"):
            check_guards()
        check_guards()

    def test_threads_that_never_come_to_a_barrier_are_told(self, cupy):
        """The blocks after that are whole again: no thread goes on with what it did before."""
        add = cupy.RawModule(code=SUMS).get_function("add_neighbours")
        array = cupy.asarray(np.arange(128, dtype=np.float32))
        with pytest.raises(AssertionError, match="add_neighbours: some threads of a block never came to a barrier"):
            add((2,), (64,), (array, np.int32(40)))
        array = cupy.asarray(np.arange(128, dtype=np.float32))
        for _ in range(2):
            add((2,), (64,), (array, np.int32(64)))
        assert array.get().tolist() == [126.0] * 64 + [382.0] * 64

    @pytest.fixture
    def compiled(self, tmp_path, monkeypatch):
        """How many libraries each run of the compiler has made; there are none before."""
        monkeypatch.setenv("CUDA_STANDIN_CACHE", str(tmp_path))
        sizes = []
        real = kernels._compile

        def count(text, command, libraries):
            sizes.append(len(libraries))
            real(text, command, libraries)

        kernels._runtime()
        monkeypatch.setattr(kernels, "_compile", count)
        monkeypatch.setattr(kernels, "_waiting", WeakSet())
        return sizes

    def test_what_waits_is_compiled_together(self, cupy, compiled):
        """Sources have the same names, and what one defines the next does not know."""
        factors = [f"#define FACTOR {number}\n" for number in (2, 3)] + ["#ifndef FACTOR\n#define FACTOR 5\n#endif\n"]
        modules = [cupy.RawModule(code=text + KERNEL.replace("value;", "FACTOR * value;")) for text in factors]
        for module, expected in zip(modules, (4.0, 6.0, 10.0), strict=True):
            array = cupy.zeros((4,), np.float32)
            module.get_function("put_numbers")((1,), (32,), (array, np.int64(4), np.float32(2.0)))
            assert array.get().tolist() == [expected] * 4
        assert compiled == [3]

    def test_a_wrong_source_stops_no_other(self, cupy, compiled):
        wrong = cupy.RawModule(code=KERNEL.replace("value;", "worth;"))
        right = cupy.RawModule(code=KERNEL)
        right.compile()
        with pytest.raises(kernels.CompileException, match="worth"):
            wrong.compile()
        assert compiled == [2, 1, 1]

    def test_kernels_have_names(self, cupy):
        with pytest.raises(AttributeError, match="CUDA_ERROR_NOT_FOUND: named symbol not found: put"):
            cupy.RawModule(code=KERNEL).get_function("put")
