"""Why the original's range for 2 bits leaves columns out for ever, and why 4 bits do not."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_onebit import OneBit, OneBitOptions
from numpy.typing import NDArray

from cntk_core.api import ParameterStore, Schedule
from cntk_testing import VirtualRanks
from cntk_testing.networks import Sketch

STEPS = 40


def learned(column: list[float], bits: int) -> NDArray[np.float64]:
    """What two ranks get of a column in all steps, as a share of what they gave."""
    parameter = Sketch("float64").parameter("b", len(column))

    def work(communicator):
        store = ParameterStore([parameter], np.float64)
        aggregation = OneBit(OneBitOptions(gradient_bits=Schedule.constant(bits)))
        aggregation.begin(store, communicator)
        aggregation.begin_epoch(0)
        first, end = store.range(parameter)
        total = np.zeros(len(column))
        for _ in range(STEPS):
            store.gradients[first:end] = column
            aggregation.aggregate(store.gradients, np.zeros(1), communicator)
            total += store.gradients[first:end]
        return total / (communicator.size * STEPS * np.array(column))

    return VirtualRanks(2).run(work)[0]


@pytest.mark.parametrize("column", [[3.0], [1.0, -1.0], [2.0, 2.0, -2.0, 2.0]])
def test_columns_of_equal_sizes_are_never_sent_with_two_bits(column: list[float]) -> None:
    np.testing.assert_array_equal(learned(column, 2), 0.0)
    for bits in (1, 4):
        np.testing.assert_allclose(learned(column, bits), 1.0, atol=0.1)


def test_columns_with_one_large_value_send_that_alone() -> None:
    found = learned([1.0, 0.01, 0.01, 0.01], 2)
    assert found[0] > 0.5
