"""Every strategy on 32 ranks, most of which have a share of one or two samples, or none."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_asgd import AsynchronousOptions, AsynchronousSGD, SimulatedTime, WarmUp
from cntk_parallel_bmuf import BlockMomentum, BlockMomentumOptions, ModelAveraging, ModelAveragingOptions
from cntk_parallel_data_parallel import DataParallel, FullPrecision
from cntk_parallel_data_parallel.strategy import DataParallelOptions

from cntk_core.config.schedule import Schedule
from tests.training.small import FRAMES, Lines
from tests.training.test_together import assert_close, serial, train

RANKS = 32


def quantized(**given):
    onebit = pytest.importorskip("cntk_parallel_onebit")
    pytest.importorskip("cntk_parallel_onebit.kernels").prepare(
        "float64"
    )  # the deadline of ranks does not count the compiler
    return {"quantized": onebit.OneBit(onebit.OneBitOptions(**given))}


def gradients(aggregations=lambda: {"full": FullPrecision()}, **given):
    return lambda: DataParallel(DataParallelOptions(**given), aggregations())


def momentum(aggregations=lambda: {"full": FullPrecision()}, **given):
    return lambda: BlockMomentum(BlockMomentumOptions(block_size=2 * RANKS, **given), aggregations())


def averaging(**given):
    return lambda: ModelAveraging(ModelAveragingOptions(block_size=2 * RANKS, **given), {"full": FullPrecision()})


def asynchronous(**given):
    given = {"sync_period": Schedule.constant(2), **given}
    return lambda: AsynchronousSGD(AsynchronousOptions(**given))


ONE_BIT = Schedule.constant(1)
TIMED = SimulatedTime(jitter=0.5, slowness=(1.0, 2.0))
EXACT = {
    "full precision": gradients(),
    "block momentum, one worker": momentum(ranks_per_worker=RANKS, reset_sgd_momentum=False),
    "model averaging, one worker": averaging(ranks_per_worker=RANKS),
}
"""Those that are serial training."""

OTHERS = {
    "full precision, buffered": gradients(use_buffered_async_gradient_aggregation=True),
    "1 bit": gradients(quantized, gradient_bits=ONE_BIT),
    "4 bits": gradients(quantized, gradient_bits=Schedule.constant(4)),
    "1 bit, buffered": gradients(quantized, gradient_bits=ONE_BIT, use_buffered_async_gradient_aggregation=True),
    "1 bit, mean": gradients(lambda: quantized(use_zero_threshold_for_1_bit_quantization=False), gradient_bits=ONE_BIT),
    "block momentum": momentum(),
    "block momentum, classical": momentum(use_nesterov_momentum=False),
    "block momentum, paper": momentum(variant="paper"),
    "1 bit in blocks": momentum(quantized, gradient_bits=ONE_BIT, ranks_per_worker=4),
    "model averaging": averaging(),
    "asynchronous": asynchronous(),
    "asynchronous, pipeline": asynchronous(use_pipeline=True),
    "asynchronous, stale": asynchronous(staleness=1),
    "asynchronous, bulk": asynchronous(staleness=0),
    "asynchronous, averaging": asynchronous(sim_model_average=True),
    "asynchronous, compensated": asynchronous(
        simulated_time=TIMED, delay_compensation="adaptive", adjust_learning_rate_at_beginning=WarmUp()
    ),
    "asynchronous, constant": asynchronous(simulated_time=TIMED, delay_compensation="constant"),
}


@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
@pytest.mark.thinned(2)
@pytest.mark.sampled(20)
def test_every_strategy(tmp_path, name):
    """All ranks end with one model, the sums count every sample once, and nothing waits for a rank without data."""
    lines = [Lines() for _ in range(RANKS)]
    rate = 0.0625 if name in EXACT else 0.01
    given = {"learning_rates_per_sample": rate, "max_epochs": 2, "minibatch_size": FRAMES}
    found = train(
        tmp_path / "together", RANKS, type_of({**EXACT, **OTHERS}[name]), lines=lines, check=1, deadline=60.0, **given
    )
    for values, summary in found[1:]:
        assert_close(values, found[0][0], 0.0)
        assert summary.criteria == found[0][1].criteria
    (line,) = lines[0].with_text("Finished Epoch[ 2 of 2]: [Training] ce = ")
    assert f"totalSamplesSeen = {2 * FRAMES}" in line
    expected, alone = serial(tmp_path / "serial", **given)
    if name in EXACT:
        assert_close(found[0][0], expected, 1e-11)
        assert found[0][1].criteria == pytest.approx(alone.criteria, rel=1e-10)
    else:
        before, _ = serial(tmp_path / "nothing", **{**given, "learning_rates_per_sample": 0.0})
        moved = max(float(np.abs(found[0][0][one] - before[one]).max()) for one in before)
        assert 1e-4 < moved < 1.0


def type_of(make):
    """A function in the shape of a class of strategies."""
    make.__name__ = "Strategy"
    return make
