"""The contract of communicators on NCCL's stand-in, and what happens when ranks or NCCL fail."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from cntk_parallel_nccl import NcclCommunicator
from cntk_parallel_nccl.heads import Head
from cntk_parallel_nccl.libraries import load_cupy, load_nccl
from cntk_parallel_nccl.link import Link, Place
from gpu_ranks import AllByNccl, OnDevice, Ranks, SumsByNccl, gpus
from nccl_stand_in import NcclError

from cntk_core.api import RankGone, RankMissing, TrainingError, UnsupportedError
from cntk_core.api.parallel import Watch
from cntk_testing import CommunicatorContract, PackagingContract
from cntk_testing_gpu.cupy_stand_in import OutOfMemoryError


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-nccl"
    kind = "communicator"


class _OnStandIn(CommunicatorContract):
    __test__ = False
    sizes = (1, 2, 4)
    kind = NcclCommunicator

    @pytest.fixture
    def run_ranks(self):
        with gpus() as links:
            run = Ranks(self.kind)
            yield run
            if not any(one._mesh.failure for one in run.communicators.values()):
                assert links.made == 0, "links of NCCL were left open"


class TestSmallArraysOverTcp(_OnStandIn):
    __test__ = True


class TestAllByNccl(_OnStandIn):
    __test__ = True
    kind = AllByNccl


class TestArraysOfGpus(_OnStandIn):
    __test__ = True
    kind = OnDevice


def numbers(rank, count, dtype="float32"):
    return (np.random.default_rng([rank, count]).normal(size=count) * 100).astype(dtype)


def summed(size, count, dtype="float32"):
    total = numbers(0, count, dtype).copy()
    for rank in range(1, size):
        total += numbers(rank, count, dtype)
    return total


@pytest.mark.parametrize("kind", [AllByNccl, OnDevice, NcclCommunicator])
@pytest.mark.parametrize("count", [0, 1, 3, 1001, 100_003])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.sampled(2)
def test_sums_of_all_sizes_are_in_the_order_of_ranks(kind, count, dtype):
    def work(communicator):
        array = numbers(communicator.rank, count, dtype)
        communicator.allreduce(array)
        return array

    with gpus():
        for found in Ranks(kind)(3, work):
            np.testing.assert_array_equal(found, summed(3, count, dtype))


def test_arrays_that_are_not_contiguous():
    def work(communicator):
        array = np.zeros((4, 50_000), np.float32)
        part = array[:, ::2]
        part[...] = numbers(communicator.rank, 100_000).reshape(4, 25_000)
        communicator.allreduce(part)
        np.testing.assert_array_equal(array[:, 1::2], 0)
        whole = part.copy()
        part[...] += communicator.rank
        communicator.broadcast(part, 1)
        np.testing.assert_array_equal(part, whole + 1)
        return whole.ravel()

    with gpus():
        for found in Ranks()(2, work):
            np.testing.assert_array_equal(found, summed(2, 100_000))


def test_large_and_small_arrays_at_once():
    """Some ranks have large arrays for some others, small ones and none for the rest."""

    def bring(source, to):
        count = [0, 5, 40_000, 70_000][(source + 3 * to) % 4]
        return np.full((count, 2), 10 * source + to, [np.float64, np.int32][to % 2])

    def work(communicator):
        rank, size = communicator.rank, communicator.size
        for _ in range(2):
            for source, array in enumerate(communicator.alltoall([bring(rank, to) for to in range(size)])):
                np.testing.assert_array_equal(array, bring(source, rank))
                assert array.dtype == bring(source, rank).dtype
                array[...] = 0  # it belongs to the receiver
            for source, array in enumerate(communicator.allgather(bring(rank, 1))):
                np.testing.assert_array_equal(array, bring(source, 1))

    with gpus():
        Ranks()(4, work)
        Ranks(OnDevice)(4, work)


def test_results_for_gpus_are_on_the_gpu():
    def work(communicator):
        cupy, rank = communicator._cupy, communicator.rank
        with cupy.cuda.Device(rank):
            mine = cupy.asarray(np.full(5 * rank, float(rank)))
            found = communicator.allgather(mine)
            assert all(isinstance(one, cupy.ndarray) for one in found)
            assert {one.device.id for one in found} == {rank}
            assert [one.get().tolist() for one in found] == [[float(one)] * 5 * one for one in range(communicator.size)]
            found[rank][...] = 7.0
            assert mine.get().tolist() == [float(rank)] * 5 * rank
            assert communicator.takes_device_arrays

    with gpus():
        Ranks()(3, work)
        Ranks()(1, work)


def test_sums_by_nccl():
    """They are another order's, where NCCL has the type; 16-bit integers are added in ours."""

    def work(communicator):
        found = []
        for dtype in ("float32", "int16"):
            array = numbers(communicator.rank, 5000, dtype)
            communicator.allreduce(array)
            found.append(array)
        return found

    with gpus():
        for found, whole in Ranks(SumsByNccl)(3, work):
            expected = numbers(2, 5000)
            expected += numbers(1, 5000)
            expected += numbers(0, 5000)
            np.testing.assert_array_equal(found, expected)
            assert (found != summed(3, 5000)).any()
            np.testing.assert_array_equal(whole, summed(3, 5000, "int16"))


def test_what_the_engine_has_begun_is_waited_for():
    """A kernel that fills the array, on a stream of its own, is done before the array is sent."""

    def work(communicator):
        cupy = communicator._cupy
        with cupy.cuda.Device(communicator.rank):
            values, stream = cupy.zeros(1000), cupy.cuda.Stream(non_blocking=True)
            with stream:
                stream.submit(lambda: (time.sleep(0.2), values._array.fill(1.0)))
                communicator.allreduce(values)
            return values._array.tolist()

    with gpus():
        assert Ranks()(2, work) == [[2.0] * 1000] * 2


@pytest.mark.parametrize("ranks", [2, 3])
def test_sums_by_nccl_are_counted_as_a_ring_sends_them(ranks):
    """2 (n - 1) / n of the bytes leave each of n ranks (P. Patarasuk, X. Yuan, J. Parallel Distrib. Comput. 2009)."""

    def work(communicator):
        sent = []
        for length in (1, 300, 600):  # with the first the ranks find each other, and each says what it is about to sum
            before = communicator.bytes_sent
            communicator.allreduce(np.ones(length, np.float32))
            sent.append(communicator.bytes_sent - before)
        return sent[2] - sent[1]

    with gpus():
        assert Ranks(SumsByNccl)(ranks, work) == [2 * 1200 * (ranks - 1) // ranks] * ranks


def test_background_overlaps():
    def work(communicator):
        def add(own):
            array = np.ones(50_000)
            own.allreduce(array)
            return float(array[0])

        communicator.background(lambda own: None).wait()
        pending = communicator.background(add)
        here = np.full(50_000, 2.0)
        communicator.allreduce(here)
        return pending.wait(), float(here[-1]), communicator.bytes_sent > 2 * here.nbytes

    with gpus():
        assert Ranks()(3, work) == [(3.0, 6.0, True)] * 3


# -- failures -----------------------------------------------------------------------------------------------


def test_ranks_in_different_operations():
    def work(communicator):
        array = np.ones(100_000 + communicator.rank)
        communicator.allreduce(array)

    text = "^rank [01] does a sum of 10000[01] float64 where rank [01] does a sum of 10000[01] float64$"
    with gpus(), pytest.raises(TrainingError, match=text):
        Ranks()(2, work)


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named():
    gone = threading.Event()

    def work(communicator):
        communicator.watch.deadline = 0.3
        if communicator.rank == 1:
            gone.wait(50.0)
            return
        try:
            communicator.allreduce(np.ones(100_000))
        finally:
            gone.set()

    text = r"^rank [02] has waited \d+ s in a sum of 100000 numbers for rank 1\n    A rank that is only slow"
    with gpus(), pytest.raises(RankMissing, match=text):
        Ranks()(3, work)


def test_an_operation_that_is_never_done():
    """All ranks have come, but the GPUs do not end: the guard ends them, and the stall is told before."""
    said = []

    def work(communicator):
        communicator.watch.deadline, communicator.watch.report_after = 0.8, 0.2
        communicator.watch.doing, communicator.watch.say = "minibatch 7", said.append
        communicator.allreduce(np.ones(100_000))

    text = (
        r"^rank [01] has waited [01] s in a sum of 100000 numbers \(minibatch 7\) for NCCL; all ranks have come to it\n"
        "    GPUs that are only slow need a longer communicationTimeout in parallelTrain; NCCL_DEBUG=INFO"
    )
    with gpus(stuck=True) as links:
        with pytest.raises(RankMissing, match=text):
            Ranks()(2, work)
        assert links.made == 0, "aborted"
    assert any(line.startswith("Warning: rank 0 has waited 0 s in a sum of 100000 numbers (minib") for line in said)


@pytest.mark.parametrize("blocks", [True, False])
def test_a_rank_that_fails_while_others_are_in_nccl(blocks):
    """Others wait inside a call of NCCL, or for the GPU; they end at once, long before the deadline."""

    def work(communicator):
        communicator.allreduce(np.ones(100_000))
        if communicator.rank == 1:
            communicator._agree = lambda what, operation: fail(communicator, what, operation)
        communicator.allreduce(np.ones(100_000))

    def fail(communicator, what, operation):
        NcclCommunicator._agree(communicator, what, operation)
        time.sleep(0.3)
        raise ArithmeticError("no luck")

    with gpus(blocks=blocks) as links:
        run, errors = Ranks(deadline=50.0), []
        work_of_all = lambda one: noting(lambda: work(one), errors)  # noqa: E731
        with pytest.raises(ArithmeticError, match="no luck"):
            run(3, work_of_all)
        assert links.made == 0
    others = [error for error in errors if not isinstance(error, ArithmeticError)]
    assert [type(error) for error in others] == [RankGone, RankGone]
    assert {error.message for error in others} == {"rank 1 has failed: ArithmeticError: no luck"}


def noting(work, errors):
    try:
        return work()
    except Exception as error:
        errors.append(error)
        raise


def test_gpus_that_do_not_find_each_other():
    """NCCL's connecting cannot be aborted; it is left behind."""

    def work(communicator):
        communicator.barrier()
        communicator.watch.deadline = 0.8
        communicator.allreduce(np.ones(100_000))

    text = r"^rank [01] has waited \d+ s in connecting the GPUs for NCCL; all ranks have come to it\n    GPUs that are"
    with gpus(alone=True), pytest.raises(RankMissing, match=text):
        Ranks()(2, work)


def test_a_rank_that_fails_while_others_connect():
    def work(communicator):
        if communicator.rank == 1:
            communicator._nccl = SimpleNamespace(NcclCommunicator=fail, NcclError=NcclError)
        communicator.allreduce(np.ones(100_000))

    def fail(size, identity, rank):
        raise ArithmeticError("no luck")

    with gpus():
        run, errors = Ranks(deadline=50.0), []
        with pytest.raises(ArithmeticError, match="no luck"):
            run(2, lambda one: noting(lambda: work(one), errors))
    assert {error.message for error in errors if isinstance(error, RankGone)} == {
        "rank 1 has failed: ArithmeticError: no luck"
    }


def test_no_memory_left():
    def work(communicator):
        if communicator.rank == 1:
            communicator._cupy = SimpleNamespace(cuda=communicator._cupy.cuda, empty=fail)
        communicator.allreduce(np.ones(100_000))

    def fail(size, dtype):
        raise OutOfMemoryError("Out of memory allocating 800,000 bytes")

    with gpus(), pytest.raises(TrainingError) as caught:
        Ranks()(2, work)
    assert str(caught.value) == (
        "rank 1: GPU 1 has no memory left for what ranks exchange: Out of memory allocating 800,000 bytes\n"
        "    A smaller minibatchSize leaves more; or another communicator, such as communicator=mpi."
    )


def test_nccl_fails():
    def work(communicator):
        communicator.allreduce(np.ones(100_000))
        communicator._link._comm._destroyed = True
        communicator.allreduce(np.ones(100_000))

    with gpus(), pytest.raises(TrainingError) as caught:
        Ranks()(2, work)
    assert str(caught.value).startswith(("rank 0: NCCL", "rank 1: NCCL")), caught.value
    assert str(caught.value)[7:] == (
        " NCCL has failed in a sum of 100000 numbers: NCCL_ERROR_INVALID_ARGUMENT: invalid argument\n"
        "    NCCL_DEBUG=INFO in the environment makes it say why."
    )


def test_a_connection_is_lost():
    def work(communicator):
        communicator.watch.deadline = 15.0
        array = np.ones(100_000)
        communicator.allreduce(array)
        communicator._link._comm.stuck = communicator._link._comm._world.lost = True
        communicator.allreduce(array)

    with gpus(), pytest.raises(TrainingError, match="NCCL_ERROR_REMOTE_ERROR: a connection is lost"):
        Ranks()(2, work)


def test_it_cannot_go_on_without_a_rank():
    def work(communicator):
        with pytest.raises(UnsupportedError) as caught:
            communicator.tolerate_losses()
        return str(caught.value)

    with gpus():
        assert Ranks()(1, work) == [
            "ranks on NCCL cannot go on without a rank\n    Leave --elastic (elastic=true) away, or communicator=nccl."
        ]


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(3, np.int8), np.zeros((0, 4), np.float32)])
@pytest.mark.parametrize("comes_along", [True, False])
def test_heads(array, comes_along):
    found = Head.unpack(Head.of(array, comes_along=comes_along, some_large=not comes_along).packed())
    assert (found.dtype, found.shape, found.size) == (array.dtype, array.shape, array.nbytes)
    assert found.some_large is not comes_along
    if comes_along:
        np.testing.assert_array_equal(found.array(), array)


def test_no_threads_are_left():
    with gpus():
        Ranks()(2, lambda one: one.allreduce(np.ones(100_000)))
        end = time.monotonic() + 60.0
        while any(one.name in ("guard", "messages") for one in threading.enumerate()) and time.monotonic() < end:
            time.sleep(0.05)
        assert not [one.name for one in threading.enumerate() if one.name in ("guard", "messages")]


# -- on GPUs ------------------------------------------------------------------------------------------------


@pytest.fixture
def real_gpus():
    cupy = pytest.importorskip("cupy")
    if cupy.__name__ != "cupy":
        pytest.skip("a stand-in has the place of CuPy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if not count or not load_nccl().available:
        pytest.skip("there is no GPU, or no NCCL")
    return count


@pytest.mark.gpu
def test_on_gpus(real_gpus):
    """As many ranks as there are GPUs, at most four, as threads of this process."""
    size = min(real_gpus, 4)

    def work(communicator):
        cupy, found = communicator._cupy, []
        for count in (1000, 100_003):
            array = numbers(communicator.rank, count)
            communicator.allreduce(array)
            found.append(array)
            with cupy.cuda.Device(communicator._number):
                there = cupy.asarray(numbers(communicator.rank, count))
                communicator.allreduce(there)
                found += [there.get(), *(one.get() for one in communicator.allgather(there))]
        return found

    for found in Ranks(deadline=60.0)(size, work):
        half = len(found) // 2
        for part, count in ((found[:half], 1000), (found[half:], 100_003)):
            for array in part:
                np.testing.assert_array_equal(array, summed(size, count))


@pytest.mark.gpu
def test_one_gpu_alone(real_gpus):
    """NCCL itself, with one rank: it connects, sums and ends."""
    cupy, nccl = load_cupy(), load_nccl()
    with cupy.cuda.Device(0):
        link = Link(cupy, nccl, nccl.get_unique_id(), 0, 1, lambda: "", Watch())
        values = cupy.arange(1000, dtype=cupy.float32)
        place = Place(values.data.ptr, values.nbytes)
        cupy.cuda.get_current_stream().synchronize()
        link.do(lambda: (link.sum(place, values.dtype), link.broadcast(place, 0)), Watch(), "a test")
        np.testing.assert_array_equal(values.get(), np.arange(1000, dtype=np.float32))
        link.close()
