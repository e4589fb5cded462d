"""CUDA kernels on the processor: what threads share, what is refused, and that races show."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_testing_gpu.cuda_compile import compile_cuda, why_not_compile
from cntk_testing_gpu.cuda_shim import ORDERS, CudaSourceError, HostCuda, why_not_on_host

KERNELS = r"""
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
    for (int by = 16; by > 0; by >>= 1) value += __shfl_down_sync(0xffffffffu, value, by);
    return value;
}

// The sum of each row: a block per row.
template <class T>
__global__ void __launch_bounds__(256) row_sums(const T* __restrict__ values, T* sums, int columns) {
    __shared__ T parts[32];
    T sum = 0;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) sum += values[blockIdx.x * columns + column];
    sum = warp_sum(sum);
    if (threadIdx.x % warpSize == 0) parts[threadIdx.x / warpSize] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : T(0));
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}

// Bits of the signs, a word per warp.
extern "C" __global__ void signs(const float* values, unsigned* words, int count) {
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned word = __ballot_sync(0xffffffffu, place < count && values[place] >= 0.0f);
    if (threadIdx.x % 32 == 0 && place < count) words[place / 32] = word;
}

extern "C" __global__ void turn_around(int* values) {
    extern __shared__ int kept[];
    kept[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void race(int* values) {
    __shared__ int kept[64];
    kept[threadIdx.x] = values[threadIdx.x];
    values[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void places(int* found) {
    int threads = blockDim.x * blockDim.y * blockDim.z;
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(&found[block * threads + thread], 1 + block * threads + thread);
}

extern "C" __global__ void lanes(int* found) {
    int lane = threadIdx.x;
    found[lane] = __shfl_sync(0xffffffffu, lane, 5, 8);
    found[32 + lane] = __shfl_up_sync(0xffffffffu, lane, 2, 16);
    found[64 + lane] = __shfl_xor_sync(0xffffffffu, lane, 3);
    found[96 + lane] = __syncthreads_count(lane < 7);
    if (lane < 20) found[128 + lane] = __any_sync(0xfffffu, lane == 19) + 2 * __all_sync(0xfffffu, lane < 19);
    __syncwarp();
}

extern "C" __global__ void divided(int* found) {
    if (threadIdx.x < 40) __syncthreads();
    else
        __syncthreads();
    found[threadIdx.x] = 1;
}

extern "C" __global__ void lost_lane(int* found) {
    if (threadIdx.x < 16) found[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
}

extern "C" __global__ void strange_lane(int* found) { found[threadIdx.x] = __ballot_sync(0x0000ffffu, 1); }

extern "C" __global__ void crosswise(int* found) {
    if (threadIdx.x < 32) __syncwarp();
    if (threadIdx.x < 16) found[0] = __ballot_sync(0xffffffffu, 1);
    if (threadIdx.x >= 16) __syncthreads();
}

extern "C" __global__ void beyond(int* found, int place) { found[place] = 1; }
"""

NAMES = [
    "row_sums<float>",
    "row_sums<double>",
    "signs",
    "turn_around",
    "race",
    "places",
    "lanes",
    "divided",
    "lost_lane",
    "strange_lane",
    "crosswise",
    "beyond",
]


@pytest.fixture(scope="module")
def program():
    if why_not_on_host():
        pytest.skip(why_not_on_host())
    return HostCuda(KERNELS, NAMES)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.slow
@pytest.mark.thinned
def test_rows_are_summed(program, order, dtype):
    values = np.random.default_rng(1).integers(-50, 50, (3, 1000)).astype(dtype)
    sums = np.zeros(3, dtype)
    name = "row_sums<float>" if dtype == "float32" else "row_sums<double>"
    program.launch(name, grid=3, block=256, arguments=(values, sums, np.int32(1000)), order=order)
    np.testing.assert_array_equal(sums, values.sum(axis=1))


def test_ballots(program):
    values = np.random.default_rng(2).normal(size=200).astype(np.float32)
    words = np.zeros(7, np.uint32)
    program.launch("signs", grid=4, block=64, arguments=(values, words, np.int32(200)))
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    np.testing.assert_array_equal(bits[:200], values >= 0)
    assert not bits[200:].any()


def test_shared_memory_of_the_launch(program):
    values = np.arange(100, dtype=np.int32)
    program.launch("turn_around", grid=1, block=100, arguments=(values,), shared_bytes=400, order="shuffled")
    np.testing.assert_array_equal(values, np.arange(100)[::-1])


def test_races_show_in_another_order(program):
    found = []
    for order in ORDERS:
        values = np.arange(64, dtype=np.int32)
        program.launch("race", grid=1, block=64, arguments=(values,), order=order)
        found.append(values.tolist())
    assert found[0] != found[1]


def test_threads_know_their_place(program):
    found = np.zeros(2 * 3 * 2 * 24, np.int32)
    program.launch("places", grid=(2, 3, 2), block=(4, 3, 2), arguments=(found,))
    np.testing.assert_array_equal(found, np.arange(found.size) + 1)


def test_lanes_exchange(program):
    found = np.zeros(160, np.int32)
    program.launch("lanes", grid=1, block=32, arguments=(found,), order="reverse")
    lane = np.arange(32)
    np.testing.assert_array_equal(found[:32], lane // 8 * 8 + 5)
    np.testing.assert_array_equal(found[32:64], np.where(lane % 16 < 2, lane, lane - 2))
    np.testing.assert_array_equal(found[64:96], lane ^ 3)
    np.testing.assert_array_equal(found[96:128], 7)
    np.testing.assert_array_equal(found[128:], np.where(lane < 20, 1, 0))


@pytest.mark.parametrize(
    ("kernel", "block", "said"),
    [
        ("divided", 64, r"thread 0 waits for its block in line \d+, thread 40 in line \d+$"),
        ("lost_lane", 32, r"thread 0 waits in line \d+ for lane 16 of its warp, which has ended or is not there$"),
        ("strange_lane", 32, r"thread 16 is not in the mask that it gives in line \d+$"),
        ("crosswise", 32, r"threads wait for each other in vain: thread 0 in line \d+, thread 1 in line \d+,"),
    ],
)
def test_what_no_gpu_allows_is_refused(program, kernel, block, said):
    with pytest.raises(CudaSourceError, match=rf"^{kernel}: block \(0, 0, 0\): {said}"):
        program.launch(kernel, grid=1, block=block, arguments=(np.zeros(64, np.int32),))
    values = np.arange(block, dtype=np.int32)
    program.launch("turn_around", grid=1, block=block, arguments=(values,), shared_bytes=4 * block)
    np.testing.assert_array_equal(values, np.arange(block)[::-1], err_msg="a thread goes on with what it did before")


@pytest.mark.parametrize(("place", "said"), [(4, "0 bytes behind its end"), (-2, "8 bytes before its begin")])
def test_writing_beside_an_array_is_found(program, place, said):
    with pytest.raises(CudaSourceError, match=f"^beyond: argument 0 was written {said}$"):
        program.launch("beyond", grid=1, block=1, arguments=(np.zeros(4, np.int32), np.int32(place)))


def test_what_the_compiler_says():
    if why_not_on_host():
        pytest.skip(why_not_on_host())
    with pytest.raises(CudaSourceError, match=r"kernels\.cu:1:.*'valeu' was not declared"):
        HostCuda("__global__ void one(int* value) { *valeu = 1; }", ["one"])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.sampled(2)
def test_compiling_for_a_gpu(architecture):
    if why_not_compile():
        pytest.skip(why_not_compile())
    assert compile_cuda(KERNELS, architecture, names=NAMES).startswith(b"\x7fELF")
    with pytest.raises(CudaSourceError, match=r'(?s)sm_\d+: .*identifier "valeu" is undefined'):
        compile_cuda("__global__ void one(int* value) { *valeu = 1; }", architecture)
