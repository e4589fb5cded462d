"""Nothing is lost: what came out and what the residuals hold is what went in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_parallel_onebit import OneBit, OneBitOptions
from cntk_parallel_onebit.format import Matrix, matrices_of

from cntk_core.api import Parameter, ParameterStore, Schedule
from cntk_testing import VirtualRanks

SHAPES = {"W": (7, 40), "b": (40,), "K": (4, 3, 3), "s": ()}
KEEP = {"reset_residual_per_epoch": False}


def store_of(dtype: str = "float64") -> ParameterStore:
    return ParameterStore([Parameter.make(name, s, value=np.zeros(s)) for name, s in SHAPES.items()], dtype)


def begun(communicator: Any, **given: Any) -> OneBit:
    aggregation = OneBit(OneBitOptions(**{**KEEP, **given}))
    aggregation.begin(store_of(), communicator)
    aggregation.begin_epoch(0)
    return aggregation


def gradients_of(rank: int, step: int) -> Any:
    """Gradients of a rank in a step, with zeros where no parameter lies."""
    store = store_of()
    rng = np.random.default_rng([rank, step])
    for parameter in store.parameters:
        store.gradient(parameter)[...] = rng.normal(size=parameter.known_shape)
    return store.gradients


def step(aggregation: OneBit, communicator: Any, number: int) -> Any:
    """The result of one step on this rank."""
    values = gradients_of(communicator.rank, number)
    aggregation.aggregate(values, np.zeros(1), communicator)
    return values


def held(aggregation: OneBit, communicator: Any) -> Any:
    """What the residuals of all ranks hold together."""
    total = np.zeros_like(aggregation.store.gradients)
    for one in communicator.allgather(aggregation.state()["local"]):
        total += one
    for rank, stripe in enumerate(communicator.allgather(aggregation.state()["stripe"])):
        at = 0
        for matrix in matrices_of(aggregation.store, aggregation.settings.shortest_column):
            first, end = matrix.stripe(rank, communicator.size)
            count = (end - first) * matrix.rows
            total[matrix.offset + first * matrix.rows :][:count] += stripe[at : at + count]
            at += count
    return total


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("by_sign", [True, False])
def test_what_was_sent_and_what_is_held_is_everything(ranks, bits, by_sign) -> None:
    steps = 12

    def work(communicator: Any) -> Any:
        aggregation = begun(
            communicator,
            gradient_bits=Schedule.constant(bits),
            use_zero_threshold_for_1_bit_quantization=by_sign,
        )
        sent = sum(step(aggregation, communicator, number) for number in range(steps))
        return sent, held(aggregation, communicator)

    everything = sum(gradients_of(rank, number) for rank in range(ranks) for number in range(steps))
    for sent, rest in VirtualRanks(ranks).run(work):
        assert np.abs(rest).max() > 1e-6
        np.testing.assert_allclose(sent + rest, everything, rtol=0, atol=1e-11 * np.abs(rest).max() + 1e-11)


@pytest.mark.parametrize(("before", "now"), [(2, 4), (4, 2), (3, 2), (2, 3), (2, 1), (1, 2)])
def test_another_number_of_ranks_holds_the_same(before, now) -> None:
    def first(communicator: Any) -> Any:
        aggregation = begun(communicator)
        for number in range(3):
            step(aggregation, communicator, number)
        return {name: array.copy() for name, array in aggregation.state().items()}, held(aggregation, communicator)

    found = VirtualRanks(before).run(first)
    states, rest = [state for state, _ in found], found[0][1]

    def second(communicator: Any) -> Any:
        aggregation = begun(communicator)
        said = aggregation.adopt(states)
        return said, held(aggregation, communicator), step(aggregation, communicator, 3)

    for said, adopted, result in VirtualRanks(now).run(second):
        assert said == f"what {before} ranks had not sent of their gradients is divided among {now}"
        np.testing.assert_allclose(adopted, rest, rtol=0, atol=1e-13)
        if now == 1:
            np.testing.assert_allclose(result, gradients_of(0, 3) + rest, rtol=0, atol=1e-13)


def test_nothing_to_adopt_is_nothing_to_say() -> None:
    assert VirtualRanks(2).run(lambda communicator: begun(communicator).adopt([{}, {}, {}])) == ["", ""]


@pytest.mark.parametrize(("reset", "left"), [(True, False), (False, True)])
def test_residuals_at_the_start_of_an_epoch(reset, left) -> None:
    def work(communicator: Any) -> bool:
        aggregation = begun(communicator, reset_residual_per_epoch=reset)
        step(aggregation, communicator, 0)
        assert held(aggregation, communicator).any()
        aggregation.begin_epoch(1)
        return bool(held(aggregation, communicator).any())

    assert VirtualRanks(2).run(work) == [left, left]


def test_the_default_is_that_of_the_original() -> None:
    assert OneBitOptions().reset_residual_per_epoch
    assert OneBitOptions().use_zero_threshold_for_1_bit_quantization
    assert OneBitOptions().bits(3) == 1


def test_what_waits_is_sent_at_full_precision() -> None:
    def work(communicator: Any) -> Any:
        aggregation = begun(communicator, gradient_bits=Schedule.of([1, 64]))
        sent = step(aggregation, communicator, 0)
        aggregation.begin_epoch(1)
        return sent + step(aggregation, communicator, 1), held(aggregation, communicator)

    for sent, rest in VirtualRanks(2).run(work):
        assert not rest.any()
        everything = sum(gradients_of(rank, number) for rank in range(2) for number in range(2))
        np.testing.assert_allclose(sent, everything, rtol=0, atol=1e-12)


def test_one_rank_sums_exactly() -> None:
    for bits in (1, 4):
        found = VirtualRanks(1).run(
            lambda one, bits=bits: step(begun(one, gradient_bits=Schedule.constant(bits)), one, 0)
        )
        np.testing.assert_array_equal(found[0], gradients_of(0, 0))


def test_bits_follow_the_schedule() -> None:
    def work(communicator: Any) -> list[int]:
        aggregation, found = begun(communicator, gradient_bits=Schedule.of([16, 4, 1])), []
        for epoch in range(4):
            aggregation.begin_epoch(epoch)
            before = communicator.bytes_sent
            step(aggregation, communicator, epoch)
            found.append(communicator.bytes_sent - before)
        return found

    sixteen, four, one, still = VirtualRanks(2).run(work)[0]
    assert sixteen > four > one
    assert still == one


def test_parameters_that_are_not_learned_stay_away() -> None:
    fixed = Parameter.make("fixed", (3, 2), value=np.zeros((3, 2)), learning_rate_multiplier=0.0)
    store = ParameterStore([fixed, Parameter.make("W", (4, 5), value=np.zeros((4, 5)))], "float32")
    assert matrices_of(store) == (Matrix(0, 5, 4),)


@pytest.mark.parametrize(("shortest", "rows"), [(1, 3), (3, 3), (4, 9), (10, 36), (1000, 36)])
def test_short_columns_are_joined(shortest, rows) -> None:
    kernel = Parameter.make("K", (4, 3, 3), value=np.zeros((4, 3, 3)))
    assert matrices_of(ParameterStore([kernel], "float32"), shortest) == (Matrix(0, rows, 36 // rows),)


def test_a_column_has_at_least_one_value() -> None:
    with pytest.raises(ValueError, match=r"^shortestColumn must be at least 1$"):
        OneBitOptions(shortest_column=0)
