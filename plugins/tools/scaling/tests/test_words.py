"""What words of the command line mean: networks, methods; and the table that is printed."""

from __future__ import annotations

import math

import pytest
from cntk_tool_scaling.cut import ModelShape, wire_sizes
from cntk_tool_scaling.methods import find_method
from cntk_tool_scaling.networks import LOCAL, NETWORKS, network_of, rate, seconds
from cntk_tool_scaling.outcome import Failures, Outcome, amount, head, row
from cntk_tool_scaling.recipes import training_section

from cntk_core.api import UsageError


@pytest.mark.parametrize(
    ("name", "gigabytes", "microseconds", "busy"),
    [
        ("1GbE", 0.11769, 50, 5),
        ("10GbE", 1.17685, 20, 5),
        ("25GbE", 2.94213, 15, 5),
        ("40GbE", 4.70741, 15, 5),
        ("100GbE", 11.76853, 10, 5),
        ("InfiniBandQDR", 3.84, 1.3, 0.5),
        ("InfiniBandFDR", 6.54, 0.9, 0.5),
        ("InfiniBandEDR", 12, 0.8, 0.5),
        ("InfiniBandHDR", 24, 0.7, 0.5),
        ("InfiniBandNDR", 48, 0.7, 0.5),
        ("loopback", 5, 10, 5),
        ("ideal", math.inf, 0, 0),
    ],
)
def test_usual_networks(name, gigabytes, microseconds, busy):
    found = network_of(name)
    assert found.bandwidth / 1e9 == pytest.approx(gigabytes, rel=1e-4)
    assert (found.latency * 1e6, found.overhead * 1e6) == pytest.approx((microseconds, busy))
    assert (found.local_bandwidth, found.local_latency) == (LOCAL.local_bandwidth, LOCAL.local_latency)
    assert found.title == name


def test_no_other_network_has_a_name():
    assert len(NETWORKS) == 12
    with pytest.raises(UsageError) as caught:
        network_of("9GbE")
    assert caught.value.hint == f"Networks: {', '.join(NETWORKS)}; or bandwidth=1.25GB/s,latency=20us"


@pytest.mark.parametrize("text", ["speed=3", "10GbE,latency", "10GbE,1GbE"])
def test_what_says_nothing_of_a_network(text):
    with pytest.raises(UsageError) as caught:
        network_of(text)
    assert str(caught.value).startswith(f"'{text.rpartition(',')[2]}' says nothing of a network")
    assert caught.value.hint == "Keys: bandwidth, latency, overhead"


def test_what_ranks_of_a_host_send_each_other():
    found = network_of("1GbE", ranks_per_host=2, local="bandwidth=3GB/s,latency=4us")
    assert (found.ranks_per_host, found.local_bandwidth, found.local_latency) == (2, 3e9, pytest.approx(4e-6))


@pytest.mark.parametrize(
    ("text", "expected"), [("1TB/s", 1e12), ("2M", 2e6), ("5", 5.0), ("8bit", 1.0), ("8kbits", 1e3)]
)
def test_units_of_bandwidths(text, expected):
    assert rate(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["GB/s", "", "nan", "-1"])
def test_bandwidths_that_are_none(text):
    with pytest.raises(UsageError):
        rate(text)


def test_a_time_may_be_nothing():
    assert seconds("0") == 0.0
    with pytest.raises(UsageError, match=r"^'nan' is not a time such as 20us$"):
        seconds("nan")


@pytest.mark.parametrize(
    ("name", "bits", "buffered"),
    [
        ("recipe", ((32, 1), (1, 1)), False),
        ("full", ((32, 1),), False),
        ("1bit", ((1, 1),), False),
        ("2bits-buffered", ((2, 1),), True),
        ("full-buffered", ((32, 1),), True),
        ("DataParallelSGD=[ gradientBits=8 ]", ((8, 1),), False),
    ],
)
def test_bits_of_gradients(folder, name, bits, buffered):
    context, section = training_section(("configFile=r.cntk",), None, ())
    settings = find_method(name, context, section.section("SGD")).make().settings
    assert (settings.gradient_bits.values, settings.use_buffered_async_gradient_aggregation) == (bits, buffered)


def test_a_strategy_by_its_name_has_the_options_of_the_recipe(folder):
    context, section = training_section(("configFile=r.cntk",), None, ())
    assert find_method("block-momentum", context, section.section("SGD")).make().settings.block_size_per_worker == 96
    with pytest.raises(UsageError) as caught:
        find_method("block-momentun", context, section.section("SGD"))
    assert str(caught.value).startswith("there is no method 'block-momentun'; did you mean 'block-momentum'?")


def test_a_row_of_the_table():
    one = Outcome("full", 4, 256, 0.4, 0.125, 0.1, 0.02, 0.005, 20.25e6, 0.5, 1.0)
    assert (one.speedup, one.efficiency) == pytest.approx((1.6, 0.4))
    assert head("full").splitlines()[1] == "full"
    assert head("full").splitlines()[2].split() == [
        *("ranks", "minibatch", "ms/mb", "computing", "sending", "waiting", "sent/mb", "samples/s", "speed-up"),
        "efficiency",
    ]
    assert row(one).split() == ["4", "256", "125", "100", "20", "5", "20.25", "MB", "1024", "1.60", "40.0%"]
    assert row(Outcome("x", 1, 1, 1, 1, 1, 1e-12, -1e-13, 0)).split()[4:7] == ["0", "-0", "0"]


def test_units_of_bytes():
    assert [amount(size) for size in (0, 999, 1000, 999_999, 1e6, 1e9, 1e10)] == [
        *("0 B", "999 B", "1 kB", "1000 kB", "1 MB", "1 GB", "10 GB")
    ]


def test_the_time_that_failures_leave():
    """Of one rank: the mean time to get from one checkpoint to the next, by the formula's own words."""
    given = Failures(mtbf=1000.0, every=90.0, writing=10.0, restart=50.0)
    assert given.useful(1) == pytest.approx(90.0 / (1050.0 * math.expm1(0.1)))
    assert given.useful(2) == pytest.approx(90.0 / (550.0 * math.expm1(0.2)))
    assert Failures() == Failures(math.inf, 600.0, 0.0, 60.0)


def test_models_without_values():
    model = ModelShape(((2, 3), (4,)), "float64")
    assert (model.values, model.doubled().values, model.doubled().shapes) == (10, 20, ((2, 3), (4,), (2, 3), (4,)))
    assert [parameter.value.shape for parameter in model.store().parameters] == [(2, 3), (4,)]
    assert model.store().dtype == "float64"
    assert model.in_whole_columns(10) is model
    assert model.for_ranks(2, 20) is model
    assert model.for_ranks(2, 10).shapes == ((2, 2), (2,))


def test_arrays_whose_size_is_fixed_or_grows_alone():
    kind = ("/sum", 0)
    assert wire_sizes({kind: (100, 1)}, 5.0, {kind: (10, 1)}, {kind: (20, 1)})[kind].of(10) == 500.0
    assert wire_sizes({kind: (64, 1)}, 5.0, {kind: (64, 1)}, {kind: (64, 1)})[kind].of(64) == 64.0
    fixed = wire_sizes({kind: (120, 2)}, 5.0, {kind: (30, 2)}, {kind: (75, 3)})[kind]
    assert (fixed.of(5), fixed.of(15)) == pytest.approx((5.0, 280.0))
