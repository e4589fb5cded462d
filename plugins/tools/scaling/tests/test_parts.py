"""The parts of ``cntk bench`` and ``cntk simulate``: networks, models that are cut, failures, periods, files."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import attrs
import numpy as np
import pytest
from cntk_tool_scaling import measure, measure_parallel
from cntk_tool_scaling.bench_file import ComputeTimes, Measurements, read_measurements, write_measurements
from cntk_tool_scaling.cut import ModelShape, check_known, wire_sizes
from cntk_tool_scaling.drive import Pace, Period, find_period
from cntk_tool_scaling.measure import sizes_up_to
from cntk_tool_scaling.methods import find_method, split_methods
from cntk_tool_scaling.networks import LOCAL, NETWORKS, network_of, rate, seconds
from cntk_tool_scaling.outcome import Failures, amount
from cntk_tool_scaling.recipes import training_section
from cntk_tool_scaling.simulation import _turns

from cntk_core.api import DataError, TrainingError, UsageError
from cntk_core.api.parallel import NetworkModel, WireSize
from cntk_testing import VirtualRanks

# -- networks ----------------------------------------------------------------------------------------------


def test_ranks_of_a_host_are_near():
    assert (LOCAL.local_bandwidth, LOCAL.local_latency) == (10e9, 1e-6)
    assert attrs.evolve(LOCAL, local_bandwidth=None, local_latency=None) == attrs.evolve(
        NetworkModel(), local_bandwidth=None, local_latency=None
    )


def test_networks_by_name_and_by_number():
    ten = network_of("10gbe")
    assert (ten.bandwidth, ten.latency) == (NETWORKS["10GbE"].bandwidth, 20e-6)
    assert 1.1e9 < ten.bandwidth < 1.25e9
    changed = network_of("10GbE, latency=5us", ranks_per_host=4)
    assert changed.latency == pytest.approx(5e-6)
    assert changed == attrs.evolve(ten, latency=changed.latency, ranks_per_host=4, title="10GbE, latency=5us")
    own = network_of("bandwidth=6GB/s,overhead=2us", local="bandwidth=80Gbit/s")
    assert (own.bandwidth, own.latency, own.overhead, own.local_bandwidth) == pytest.approx((6e9, 0.0, 2e-6, 10e9))


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [("1.25GB/s", 1.25e9), ("10Gbit/s", 1.25e9), ("100Mbits/s", 1.25e7), ("1e6", 1e6), ("3kB", 3e3)],
)
def test_rates(text, bytes_per_second):
    assert rate(text) == pytest.approx(bytes_per_second)


@pytest.mark.parametrize(
    ("text", "time"), [("20us", 2e-5), ("1.5ms", 1.5e-3), ("2s", 2.0), ("1e-6", 1e-6), ("3ns", 3e-9), ("7µs", 7e-6)]
)
def test_times(text, time):
    assert seconds(text) == pytest.approx(time)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10GbF", "there is no network '10GbF'; did you mean '10GbE'?"),
        ("bandwidth=fast", "'fast' is not a bandwidth such as 1.25GB/s or 10Gbit/s"),
        ("bandwidth=0", "a bandwidth must be more than 0, not '0'"),
        ("latency=-1us", "a time must not be negative: '-1us'"),
        ("latency=soon", "'soon' is not a time such as 20us"),
    ],
)
def test_networks_that_are_none(text, message):
    with pytest.raises(UsageError) as caught:
        network_of(text)
    assert str(caught.value).partition("\n")[0] == message


def test_amounts():
    assert [amount(size) for size in (12, 1234, 20.25e6, 3e12)] == ["12 B", "1.234 kB", "20.25 MB", "3000 GB"]


# -- models that are cut -----------------------------------------------------------------------------------


def test_a_small_model_is_not_cut():
    model = ModelShape(((10, 20), (20,)))
    assert model.for_ranks(100, 100 * 220) is model


def test_columns_become_shorter_before_they_become_fewer():
    model = ModelShape(((64, 4096), (4096,)))
    assert model.for_ranks(10, 266_240).shapes == ((64, 410), (410,))
    assert model.for_ranks(100, 6400).shapes == ((64, 1), (1,))
    many = ModelShape(((50_000, 100),)).for_ranks(4, 1000)
    assert many.shapes == ((250, 1),)
    assert ModelShape(((50_000, 100),)).for_ranks(200, 1000).shapes == ((400, 1),)


def test_whole_columns_stay_whole():
    model = ModelShape(((1000, 4096), (30, 50, 4096), (4096,)))
    shapes = model.in_whole_columns(409_600).shapes
    assert all(shape[-1] == 4096 for shape in shapes)
    assert ModelShape(shapes).values < 2 * 409_600


def test_what_arrays_stand_for():
    kind, header = ("/sum", 0), ("/sum", 1)
    whole, small = {kind: (2 * 4064, 2), header: (128, 2)}, {kind: (2 * 164, 2), header: (128, 2)}
    doubled = {kind: (2 * 264, 2), header: (128, 2)}
    found = wire_sizes(whole, 10.0, small, doubled)
    assert found == {kind: WireSize(64.0, 400.0), header: WireSize(64.0, 1.0)}
    assert (found[kind].of(164), found[kind].of(64), found[header].of(64)) == (40_064.0, 64.0, 64.0)
    with pytest.raises(TrainingError, match="sends other messages for models of other sizes"):
        wire_sizes({kind: (1, 1)}, 1.0, small, doubled)


# -- how often ranks talk ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "ranks", "period"),
    [
        ("full", 4, Period(1, True)),
        ("BlockMomentumSGD=[ blockSize=4096 ]", 4, Period(64, False)),
        ("BlockMomentumSGD=[ blockSizePerWorker=100 ]", 2, Period(4, False)),
        ("ModelAveragingSGD=[ blockSizePerWorker=33 ]", 2, Period(2, False)),
        ("DataParallelASGD=[ syncPeriodPerWorker=160 ]", 2, Period(5, True)),
        ("DataParallelASGD=[ syncPeriodPerWorker=160 ]", 1, Period(1, True)),
    ],
)
def test_periods(method, ranks, period):
    context, section = training_section(("configFile=r.cntk",), None, ())
    make = find_method(method, context, section.section("SGD")).make
    assert find_period(make, ranks, Pace(64, ComputeTimes.proportional(1.0))) == period


def test_pieces_of_a_period():
    assert Period(3, True).pieces == [1, 1, 1]
    assert Period(3, False).pieces == [1, 1, 1]
    assert Period(4098, False).pieces == [1024, 1025, 1024, 1025]


def test_lists_of_methods():
    assert split_methods("full, A=[ b=1:2, c=[d=3,e=4] ],1bit") == ["full", "A=[ b=1:2, c=[d=3,e=4] ]", "1bit"]


# -- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 16, 200])
def test_failures_against_dice(ranks):
    """The formula against failures that are drawn."""
    given = Failures(mtbf=20_000.0, every=300.0, writing=20.0, restart=60.0)
    random, done, now = np.random.default_rng(ranks), 0, 0.0
    failure = random.exponential(given.mtbf / ranks)
    while done < 4000:
        end = now + given.every + given.writing
        if failure >= end:
            now, done = end, done + 1
        else:
            # No rank can fail while nothing runs.
            now = failure + given.restart
            failure = now + random.exponential(given.mtbf / ranks)
    assert given.useful(ranks) == pytest.approx(done * given.every / now, rel=0.08)


@pytest.mark.parametrize(
    ("ranks", "jitter", "turns"),
    [
        *((ranks, jitter, 24 if jitter else 4) for ranks in (1, 64) for jitter in (0.0, 0.1)),
        *((ranks, jitter, 3) for ranks in (65, 256) for jitter in (0.0, 0.1)),
        (257, 0.0, 1),
        (257, 0.1, 3),
    ],
)
def test_exchanges_that_are_measured_by_default(ranks, jitter, turns):
    """Chance needs more of them; of many ranks each takes long, and there are many to take the mean of."""
    assert _turns(ranks, jitter) == turns


def test_without_failures_only_checkpoints_take_time():
    assert Failures().useful(1000) == 1.0
    assert Failures(every=90.0, writing=10.0).useful(8) == pytest.approx(0.9)
    assert Failures(mtbf=1.0).useful(100_000) == pytest.approx(0.0)


# -- what was measured -------------------------------------------------------------------------------------


def test_times_between_points():
    times = ComputeTimes(((2.0, 1.0), (4.0, 1.5), (8.0, 3.0)))
    assert [times.seconds(samples) for samples in (1, 2, 3, 4, 8, 16)] == [0.5, 1.0, 1.25, 1.5, 3.0, 6.0]


def test_a_size_is_measured_for_the_seconds_that_it_may_take(monkeypatch):
    """Each step takes more than a second of a clock that nothing else moves; the first one does not count."""
    clock, steps = [50.0], []

    class Loop:
        def step(self, minibatch, pace, count):
            steps.append(minibatch)
            clock[0] += 1.0 + minibatch / 10

    class Training:
        rate, loop = 0.1, Loop()

    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])
    assert measure._seconds(Training(), [2, 5], 8, 20.0) == pytest.approx(1.2)
    assert len(steps) == 1 + 15
    assert steps[:4] == [2, 2, 5, 2]


def test_the_seconds_of_an_aggregation_are_those_of_one_value(monkeypatch):
    """The clock of the processor moves a quarter of a second with each look at it."""
    ticks = {}

    def thread_time():
        own = threading.get_ident()
        ticks[own] = ticks.get(own, 0.0) + 0.25
        return ticks[own]

    class Noted:
        """An aggregation that does nothing but spoil what it was given."""

        def begin(self, store, communicator):
            assert (store.learned_size, communicator.size) == (measure_parallel.COLUMNS * measure_parallel.ROWS, 2)
            self.epoch, self.calls = None, 0
            began.append(self)

        def begin_epoch(self, epoch):
            self.epoch = epoch

        def aggregate(self, gradients, header, communicator):
            assert self.epoch == 0
            assert header.shape == (8,)
            assert np.std(gradients) == pytest.approx(1.0, rel=0.1)
            gradients[...] = 0.0
            self.calls += 1

    class Together:
        def __init__(self, plan):
            self.plan = plan

        def run(self, work):
            return VirtualRanks(self.plan.ranks).run(work)

    class Registered:
        communicators = {"simulated": type("Simulated", (), {"simulation": staticmethod(Together)})}

    began = []
    monkeypatch.setattr(measure_parallel.time, "thread_time", thread_time)
    monkeypatch.setattr(measure_parallel, "COLUMNS", 32)
    monkeypatch.setattr(measure_parallel, "ROWS", 64)
    found = measure_parallel.aggregation_seconds(Registered(), Noted)
    assert found == pytest.approx(0.25 / (measure_parallel.COLUMNS * measure_parallel.ROWS))
    assert [one.calls for one in began] == [7, 7]


class Clock:
    """A communicator of rank 0 of three, and the only thing that moves the clock. What comes first is slower."""

    rank, size = 0, 3
    send_seconds, receive_seconds, exchange_seconds = 3e-6, 45e-6, 0.25

    def __init__(self):
        self.now, self.met = 100.0, 0
        self.told = None

    def barrier(self):
        self.met += 1

    def send(self, array, to):
        assert (array.nbytes, to) == (8, 1)
        self.now += self.send_seconds * (3 if self.now < 100.0001 else 1)

    def receive(self, source):
        assert source == 1
        self.now += self.receive_seconds

    def alltoall(self, arrays):
        assert [array.nbytes for array in arrays] == [4 * 1024 * 1024] * 3
        self.now += self.exchange_seconds * (2 if self.met < 4 else 1)

    def broadcast(self, numbers):
        self.told = numbers.tolist()


def test_a_network_is_measured(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure_parallel.time, "perf_counter", lambda: clock.now)
    found = measure_parallel.measure_network(clock, "here")
    overhead = (200 * 3e-6 + 45e-6) / 200
    latency = (3e-6 + 45e-6) / 2 - 2 * overhead
    bandwidth = 2 * 4 * 1024 * 1024 / (0.25 - latency)
    assert found.title == "here"
    assert (found.overhead, found.latency, found.bandwidth) == pytest.approx((overhead, latency, bandwidth), rel=1e-6)
    assert clock.told == [found.bandwidth, found.latency, found.overhead]
    assert clock.met == 1 + 1 + 7, "before small messages, many of them, and each exchange"


def test_all_ranks_measure_the_same_network(monkeypatch):
    """Those beside the first two only exchange arrays."""
    for name, value in (("_MANY", 3), ("_TURNS", 2), ("_LARGE", 4096)):
        monkeypatch.setattr(measure_parallel, name, value)
    found = VirtualRanks(3).run(lambda one: measure_parallel.measure_network(one, "here"))
    assert found[1:] == found[:1] * 2
    assert 0.0 < found[0].overhead < 0.1
    assert 0.0 < found[0].bandwidth < 1e13


def test_a_network_without_delay(monkeypatch):
    """Latency is at least 0, and a time that nobody can measure is no reason to divide by 0."""
    clock = Clock()
    clock.receive_seconds = clock.exchange_seconds = 0.0
    monkeypatch.setattr(measure_parallel.time, "perf_counter", lambda: clock.now)
    found = measure_parallel.measure_network(clock, "here")
    assert found.latency == 0.0
    assert found.bandwidth == pytest.approx(2 * 4 * 1024 * 1024 / 1e-9)


def test_bytes_that_are_added_up_per_second(monkeypatch):
    """Two arrays of 4 MiB; the clock moves a quarter of a second with each look at it."""
    ticks, sums = iter(50 + np.arange(100) / 4), []
    monkeypatch.setattr(measure_parallel.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(measure_parallel, "sum_by_rank", sums.append)
    assert measure_parallel.sum_rate() == 2 * 4 * 1024 * 1024 * 4
    assert [[part.nbytes for part in parts] for parts in sums] == [[4 * 1024 * 1024] * 2] * 7


def test_sizes():
    assert sizes_up_to(1) == [1]
    assert sizes_up_to(64) == [1, 4, 16, 64]
    assert sizes_up_to(100) == [1, 4, 16, 64, 100]


def test_files(folder):
    found = Measurements(
        "r.cntk",
        123,
        ComputeTimes(((1.0, 0.5), (4.0, 0.75))),
        {"quantized": 1e-9},
        5e9,
        NetworkModel(1e9, 2e-5, 3e-6, title="mpi"),
        "a machine",
    )
    for one in (found, Measurements(recipe="", sum_rate=math.inf)):
        write_measurements(one, Path("out/bench.json"))
        assert read_measurements(Path("out/bench.json")) == one


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "'b.json' is not a file that cntk bench has written"),
        ('{"format": 9}', "'b.json' has the format 9; this program reads 1"),
        (None, "the file 'b.json' cannot be read: No such file or directory"),
    ],
)
def test_files_that_are_none(folder, text, message):
    if text is not None:
        Path("b.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_measurements(Path("b.json"))
    assert str(caught.value) == message


def test_messages_of_other_models():
    one, other = ("allreduce", ""), ("send", "")
    with pytest.raises(TrainingError) as caught:
        wire_sizes({one: (8, 1)}, 2.0, {one: (4, 1)}, {other: (8, 1)})  # type: ignore[dict-item]
    assert str(caught.value) == (
        "the strategy sends other messages for models of other sizes, so it can be simulated with its whole model only"
        "\n    Give fewer ranks."
    )
    check_known([one], {})  # type: ignore[list-item]
    check_known([one], {one: WireSize(0.0, 1.0)})  # type: ignore[dict-item,list-item]
    with pytest.raises(TrainingError) as caught:
        check_known([one, other], {one: WireSize(0.0, 1.0)})  # type: ignore[dict-item,list-item]
    assert str(caught.value) == (
        "with this number of ranks the strategy does operations of unknown size, such as send\n    Give fewer ranks."
    )


def test_hosts_have_a_rank():
    assert network_of("10GbE", ranks_per_host=1).ranks_per_host == 1
    with pytest.raises(UsageError, match=r"^--ranks-per-host 0 makes no sense: a host has at least one rank$"):
        network_of("10GbE", ranks_per_host=0)
