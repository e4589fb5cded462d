"""What leaves a rank in a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_parallel_onebit import OneBit, OneBitOptions
from cntk_parallel_onebit.format import Matrix

from cntk_core.api import Parameter, ParameterStore, Schedule
from cntk_testing import VirtualRanks

ROWS, COLUMNS = 512, 96
HEADER = 5


def bytes_of_a_step(ranks: int, bits: int, dtype: str) -> list[int]:
    def work(communicator: Any) -> int:
        store = ParameterStore([Parameter.make("W", (COLUMNS, ROWS), value=np.zeros((COLUMNS, ROWS)))], dtype)
        aggregation = OneBit(OneBitOptions(gradient_bits=Schedule.constant(bits)))
        aggregation.begin(store, communicator)
        aggregation.begin_epoch(0)
        store.gradients[...] = np.random.default_rng(communicator.rank).normal(size=store.gradients.size)
        before = communicator.bytes_sent
        aggregation.aggregate(store.gradients, np.zeros(HEADER), communicator)
        return communicator.bytes_sent - before

    return VirtualRanks(ranks).run(work)


def bytes_of_a_sum(ranks: int, dtype: str) -> int:
    """In full precision."""

    def work(communicator: Any) -> int:
        communicator.allreduce(np.zeros(ROWS * COLUMNS, dtype))
        return communicator.bytes_sent

    return VirtualRanks(ranks).run(work)[0]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_and_ranges_are_all_that_is_sent(ranks, bits, dtype) -> None:
    width = np.dtype(dtype).itemsize
    column = 2 * width + ROWS * bits // 8
    stripe = COLUMNS // ranks
    stripes = column * stripe * (ranks - 1)
    sums = (column * stripe + 8 * HEADER) * (ranks - 1)
    assert bytes_of_a_step(ranks, bits, dtype) == [stripes + sums] * ranks


def test_one_bit_is_about_a_thirty_second() -> None:
    share = bytes_of_a_step(4, 1, "float32")[0] / bytes_of_a_sum(4, "float32")
    assert 1 / 32 < share < 1 / 28


def test_stripes_are_whole_columns_and_the_first_ranks_have_one_more() -> None:
    assert [Matrix(0, 3, 8).stripe(rank, 3) for rank in range(3)] == [(0, 3), (3, 6), (6, 8)]
    assert [Matrix(0, 3, 1).stripe(rank, 3) for rank in range(3)] == [(0, 1), (1, 1), (1, 1)]
