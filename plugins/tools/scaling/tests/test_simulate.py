"""``cntk simulate``: times that can be reckoned by hand, and the papers' arithmetic."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

SPEECH = Path(__file__).parents[4] / "examples" / "scaling" / "speech.cntk"
VALUES = 20 * 300 + 300 + 300 * 400 + 400 + 400 * 10 + 10
SLOW = ("--network", "bandwidth=1MB/s", "--samples-per-second", "64", "--quantize-rate", "inf")
"""A minibatch takes 1 s on one rank, and 0.5 MB of gradients half a second of a link."""


@pytest.mark.slow
def test_the_papers_arithmetic(simulated):
    """160 M parameters, 1/7 s for 1024 samples, 6 GB/s: 0.8 times as fast with two workers, 1.8 times with 1 bit."""
    given = ("-n", "2", "--network", "bandwidth=6GB/s", "--samples-per-second", "7168", "--method", "full,1bit")
    given += ("--values", "1000000")
    found = simulated(*given, "--quantize-rate", "5e10", recipe=str(SPEECH))
    full, bit = found["full", 2], found["1bit", 2]
    # Each rank computes 1/14 s and sends 4 bytes for each of 160 M values, half of them twice, in 0.1067 s.
    assert full["sent"] == pytest.approx(640e6, rel=0.01)
    assert full["speedup"] == pytest.approx(1 / 7 / (1 / 14 + 640e6 / 6e9), abs=0.005)
    assert full["speedup"] == pytest.approx(0.80, abs=0.005)
    assert bit["speedup"] == pytest.approx(1.83, abs=0.01)
    without = simulated(*given, "--quantize-rate", "inf", recipe=str(SPEECH))
    assert without["1bit", 2]["speedup"] == pytest.approx(1 / 7 / (1 / 14 + 640e6 / 31 / 6e9), abs=0.01)


def test_full_precision_computes_then_sends(simulated):
    found = simulated("-n", "1,2,4", *SLOW, "--method", "full")
    assert found["full", 1]["speedup"] == 1.0
    for ranks in (2, 4):
        one = found["full", ranks]
        sending = 2 * 4 * VALUES * (ranks - 1) / ranks / 1e6
        assert one["computing"] == pytest.approx(1 / ranks)
        assert one["communicating"] == pytest.approx(sending, rel=0.005)
        assert one["seconds"] == pytest.approx(1 / ranks + sending, rel=0.005)
        assert one["sent"] == pytest.approx(1e6 * sending, rel=0.005)
        assert one["speedup"] == pytest.approx(1 / one["seconds"])
        assert one["efficiency"] == pytest.approx(one["speedup"] / ranks)


def test_double_buffering_hides_what_takes_less_long(simulated):
    slow = simulated("-n", "2", *SLOW, "--method", "full,full-buffered")
    assert slow["full-buffered", 2]["seconds"] == pytest.approx(slow["full", 2]["communicating"], rel=0.02)
    fast = simulated("-n", "2", *SLOW, "--network", "bandwidth=10MB/s", "--method", "full,full-buffered")
    assert fast["full-buffered", 2]["seconds"] == pytest.approx(0.5)
    assert fast["full", 2]["seconds"] == pytest.approx(0.5 + 4 * VALUES / 1e7, rel=0.01)


def test_compressing_takes_time(simulated):
    slow = simulated("-n", "2", *SLOW, "--method", "1bit", "--quantize-rate", str(VALUES / 0.25))
    fast = simulated("-n", "2", *SLOW, "--method", "1bit")
    assert slow["1bit", 2]["seconds"] - fast["1bit", 2]["seconds"] == pytest.approx(0.25)


def test_block_momentum_exchanges_after_its_blocks(simulated):
    """A worker's block of 96 samples is 3 minibatches of 32: models go over the network once in 3 minibatches."""
    found = simulated("-n", "2", *SLOW, "--method", "block-momentum")["block-momentum", 2]
    assert found["sent"] == pytest.approx(4 * VALUES / 3, rel=0.01)
    assert found["seconds"] == pytest.approx(0.5 + 4 * VALUES / 3 / 1e6, rel=0.01)


def test_only_asynchronous_ranks_do_not_wait_for_a_slow_one(simulated):
    given = ("--network", "ideal", "--samples-per-second", "64", "-n", "4", "--slow", "1:1:1:3")
    found = simulated(*given, "--method", "full,DataParallelASGD=[ syncPeriodPerWorker=64 ]")
    together, alone = (one for one in found.values())
    assert together["seconds"] == pytest.approx(0.75)
    assert together["waiting"] == pytest.approx(0.75 * 0.5)
    # Minibatches take 0.25 s, or 0.75 s. After 4 of them a rank waits until the slow one has time for its part of the
    # server, at most 0.75 s.
    fast, slow = 0.25 + 0.75 / 4, 0.75 + 0.25 / 4
    assert 4 / (3 / 0.25 + 1 / 0.75) < alone["seconds"] < 4 / (3 / fast + 1 / slow)


@pytest.mark.slow
def test_random_durations(simulated):
    given = ("-n", "8", "--network", "ideal", "--samples-per-second", "64", "--method", "full", "--jitter", "0.3")
    first, again = simulated(*given), simulated(*given)
    assert first == again
    other = simulated(*given, "--seed", "2")["full", 8]
    one = first["full", 8]
    assert one["seconds"] != other["seconds"]
    # The mean of the durations stays what it is; the slowest of 8 takes about 1.4 standard deviations longer.
    assert one["computing"] == pytest.approx(1 / 8, rel=0.1)
    assert 1.2 < one["seconds"] / one["computing"] < 1.8


@pytest.mark.parametrize(
    ("ranks", "methods"), [(4, "full,1bit,4bits,1bit-buffered,block-momentum,model-averaging,asgd,asgd-pipeline")]
)
@pytest.mark.slow
def test_a_cut_model_takes_the_time_of_the_whole_one(simulated, ranks, methods):
    given = ("-n", str(ranks), *SLOW, "--method", methods, "--network", "bandwidth=1MB/s,latency=1ms,overhead=10us")
    whole = simulated(*given)
    cut = simulated(*given, "--values", "30000")
    for key, one in whole.items():
        assert one["share"] == 1.0
        assert cut[key]["share"] < 0.1
        assert cut[key]["sent"] == pytest.approx(one["sent"], rel=0.02), key
        assert cut[key]["seconds"] == pytest.approx(one["seconds"], rel=0.02), key


def test_sizes_of_minibatches(simulated):
    found = simulated("-n", "2,4", *SLOW, "--method", "full", "--minibatch-size", "64,32x")
    assert {key: one["minibatch"] for key, one in found.items()} == {
        ("full, minibatches of 64", 2): 64,
        ("full, minibatches of 64", 4): 64,
        ("full, minibatches of 32x", 2): 64,
        ("full, minibatches of 32x", 4): 128,
    }
    larger, smaller = found["full, minibatches of 32x", 4], found["full, minibatches of 64", 4]
    assert larger["efficiency"] > 1.3 * smaller["efficiency"]


def test_the_recipes_own_block(simulated, capsys):
    """``gradientBits = 32:1``: the last epoch, with 1 bit, unless another one is asked for."""
    last = simulated("-n", "2", *SLOW)["DataParallelSGD", 2]
    first = simulated("-n", "2", *SLOW, "--epoch", "1")["DataParallelSGD", 2]
    assert last["sent"] < first["sent"] / 20
    shown = capsys.readouterr().out
    assert f"Train: {VALUES} learned parameters, one rank alone 64 samples/s" in shown
    assert "network bandwidth=1MB/s: 1 MB/s, latency 0 us, 0 us per message" in shown


def test_hosts_of_several_ranks(simulated):
    apart = simulated("-n", "4", *SLOW, "--method", "full")["full", 4]["seconds"] - 0.25
    shared = simulated("-n", "4", *SLOW, "--method", "full", "--ranks-per-host", "2", "--local", "ideal")
    one = simulated("-n", "4", *SLOW, "--method", "full", "--ranks-per-host", "4", "--local", "ideal")
    # Of 3 stripes 2 leave the host, but of both ranks; one computes while the other one sends.
    assert apart * 4 / 3 < shared["full", 4]["seconds"] < apart * 4 / 3 + 0.25
    assert one["full", 4]["seconds"] == pytest.approx(0.25)


@pytest.mark.thorough  # the arithmetic is that of few ranks
@pytest.mark.slow
def test_many_ranks(simulated):
    found = simulated("-n", "128", *SLOW, "--minibatch-size", "64x", "--method", "1bit,block-momentum")
    # A rank computes 1 s; its block of 96 samples is 2 minibatches.
    assert found["block-momentum", 128]["efficiency"] == pytest.approx(1 / (1 + 4 * VALUES / 1e6), rel=0.01)
    assert 0.9 < found["1bit", 128]["efficiency"] < 1 / (1 + 4 * VALUES / 32 / 1e6)


@pytest.mark.thorough  # docs/scaling.md has figures drawn
@pytest.mark.slow
def test_a_figure(simulated, folder):
    pytest.importorskip("matplotlib", reason="drawing needs matplotlib")
    given = ("-n", "1,2", *SLOW, "--method", "full,1bit")
    for name in ("1.svg", "2.svg"):
        simulated(*given, "--plot", name)
    drawn = Path("1.svg").read_text(encoding="utf-8")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert {"full", "1bit", "speed-up", "efficiency, %", "bandwidth=1MB/s"} <= set(texts)
    assert drawn == Path("2.svg").read_text(encoding="utf-8")


# -- mistakes ----------------------------------------------------------------------------------------------


RANKS = "-n needs numbers of ranks that are at least 1\n    cntk simulate recipe.cntk -n 2,8,64\n"
TIMES = "--mtbf and --checkpoint-every must be more than 0, other times not negative\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-n", "2", "--method", "1bits-buffred"],
            "there is no method '1bits-buffred'; did you mean '1bit-buffered'?\n"
            "    Methods: recipe, 1bit, 1bit-buffered, full-buffered, full, block-momentum, model-averaging, asgd, "
            "asgd-pipeline (any number of bits), or NAME=[ options ] of a strategy\n",
        ),
        (
            ["-n", "2", "--network", "10GBe,latncy=1us"],
            "'latncy=1us' says nothing of a network; did you mean 'latency'?\n    Keys: bandwidth, latency, overhead\n",
        ),
        (
            ["-n", "128"],
            "a minibatch of 64 samples cannot be divided among 128 ranks\n"
            "    Give a larger --minibatch-size, or one that grows with the ranks: --minibatch-size 8x\n",
        ),
        (
            ["-n", "2", "--minibatch-size", "8y"],
            "'8y' is no size of minibatches\n    --minibatch-size 1024,8192 or 8x (times the ranks)\n",
        ),
        (
            ["-n", "2", "--plot", "a.bmp"],
            "'a.bmp' cannot be drawn: the suffix of the file says what is written\n    .svg, .png, .pdf\n",
        ),
        (["-n", "2", "--fail", "1"], "'1' is not of the form RANK@SECONDS\n"),
        (["-n", "2", "--slow", "1:0"], "every number of --slow must be more than 0\n"),
        (
            ["-n", "3,5", "--method", "BlockMomentumSGD=[ ranksPerWorker=2 ]"],
            "3 ranks cannot be divided into workers of 2 (ranksPerWorker)\n    Give multiples of 2, such as -n 2,4,8\n",
        ),
        (
            ["-n", "2", "--compute-per-sample", "1"],
            "--compute-per-sample and --samples-per-second are two ways to say the same; give one of them\n",
        ),
        *((["-n", ranks], RANKS) for ranks in ("0", "2,0", "-1")),
        (["-n", "2", "--jitter", "-0.1"], "--jitter must not be negative\n"),
        *((["-n", "2", name, "-1"], "rates must be more than 0\n") for name in ("--quantise-rate", "--sum-rate")),
        *((["-n", "2", name, "0"], TIMES) for name in ("--mtbf", "--checkpoint-every")),
        *((["-n", "2", name, "-1"], TIMES) for name in ("--checkpoint-seconds", "--restart-seconds")),
        (["-n", "2", "--bench", "r.cntk"], "'r.cntk' is not a file that cntk bench has written\n"),
    ],
)
def test_mistakes(refused, arguments, message):
    assert refused("simulate", "r.cntk", *SLOW, *arguments) == message


def test_a_rank_that_fails(refused):
    found = refused("simulate", "r.cntk", *SLOW, "-n", "4", "--fail", "3@0.75", "--checkpoint-every", "0.5")
    assert found == (
        "rank 3 is gone after 0.75 simulated seconds\n"
        "    All ranks end. With a checkpoint every 0.5 s, 0.25 s of the work of every rank is lost, and training goes "
        "on after 60 s.\n"
    )


def test_a_recipe_without_a_method(refused, folder):
    Path("serial.cntk").write_text(
        Path("r.cntk").read_text(encoding="utf-8").replace("parallelizationMethod = DataParallelSGD", ""),
        encoding="utf-8",
    )
    assert refused("simulate", "serial.cntk", *SLOW, "-n", "2") == (
        "the recipe names no parallelizationMethod, so there is nothing to simulate\n"
        "    Give --method full,1bit,block-momentum,model-averaging,asgd,asgd-pipeline\n"
    )


def test_failures_are_counted(simulated, capsys):
    given = ("-n", "2", *SLOW, "--method", "full")
    whole = simulated(*given)["full", 2]
    failing = simulated(*given, "--mtbf", "10", "--checkpoint-every", "3600", "--restart-seconds", "600")["full", 2]
    assert failing["useful"] == pytest.approx(3600 / (18_600 * (math.exp(0.2) - 1)))
    assert failing["speedup"] == pytest.approx(whole["speedup"] * failing["useful"])
    assert "leave 87.4% of the time with 2 ranks" in capsys.readouterr().out


def test_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["simulate", "r.cntk"])
    assert caught.value.code == 2
    assert "-n/--ranks" in capsys.readouterr().err
