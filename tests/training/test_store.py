"""The parameter store: one buffer, aligned views, learned parameters first."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.learner import Slot
from cntk_core.contract.store import ALIGNMENT, ParameterStore
from cntk_core.network.node import Parameter


def make(dtype=np.float32) -> tuple[ParameterStore, list[Parameter]]:
    rng = np.random.default_rng(0)
    shapes = [(3, 5), (5,), (1, 1), (7, 2)]
    rates = [1.0, 0.0, 1.0, 2.0]
    parameters = [
        Parameter.make(f"p{index}", shape, value=rng.normal(size=shape), learning_rate_multiplier=rate)
        for index, (shape, rate) in enumerate(zip(shapes, rates, strict=True))
    ]
    return ParameterStore(parameters, dtype), parameters


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_kept_and_aligned(dtype):
    before = [parameter.value.copy() for parameter in make()[1]]
    store, parameters = make(dtype)
    for parameter, value in zip(parameters, before, strict=True):
        assert parameter.value.dtype == dtype
        assert parameter.value.shape == value.shape
        np.testing.assert_allclose(parameter.value, value, rtol=1e-6)
        assert store.value(parameter).ctypes.data % ALIGNMENT == 0
        assert store.gradient(parameter).ctypes.data % ALIGNMENT == 0


def test_the_network_sees_updates_of_the_buffer():
    store, parameters = make()
    store.values += 1
    assert np.shares_memory(parameters[0].value, store.values)


def test_learned_parameters_with_equal_rates_stand_together():
    store, _ = make()
    assert [parameter.name for parameter in store.parameters] == ["p0", "p2", "p3", "p1"]


def test_slots_start_at_their_initial_value_and_are_made_once():
    store, parameters = make()
    store.add_slots([Slot("a"), Slot("b", 0.5)])
    store.slot("a", parameters[0])[...] = 3
    store.add_slots([Slot("a")])
    assert (store.slot("a", parameters[0]) == 3).all()
    assert (store.slot("b", parameters[3]) == 0.5).all()


def test_the_learner_begins_anew():
    store, _ = make()
    store.add_slots([Slot("a"), Slot("b", 0.5)])
    store.slots["a"][...] = store.slots["b"][...] = 3
    store.state = {"count": 7.0}
    store.reset_slots()
    assert not store.slots["a"].any()
    assert (store.slots["b"] == 0.5).all()
    assert store.state == {}


def test_restore_brings_back_a_snapshot():
    store, _ = make()
    store.add_slots([Slot("a")])
    saved = store.snapshot()
    values = store.values.copy()
    store.values[:] = 0
    store.slots["a"][:] = 9
    store.restore(saved)
    np.testing.assert_array_equal(store.values, values)
    assert not store.slots["a"].any()


def test_touched_rows_are_taken_once():
    store, parameters = make()
    parameter = parameters[0]
    store.touched(parameter, 3)[1] = True
    store.gradient(parameter)[2, 4] = -1.0
    assert store.take_touched(parameter, 3).tolist() == [1, 2]
    assert store.take_touched(parameter, 3).tolist() == [2]


class Elsewhere:
    """Holds the values of a store, and writes them back when it is asked to."""

    def __init__(self, store: ParameterStore) -> None:
        self.store = store
        self.asked: list[str] = []

    def give_back(self, kind: str) -> None:
        self.asked.append(kind)
        for array in self.store.raw(kind).values():
            array[...] = len(self.asked)


def test_a_holder_is_asked_for_what_it_holds_and_nothing_else():
    store, parameters = make()
    store.add_slots([Slot("smoothed")])
    holder = Elsewhere(store)
    store.hold(holder)
    assert store.value(parameters[0])[0, 0] == 1
    assert store.gradient(parameters[0])[0, 0] == 2
    assert store.slot("smoothed", parameters[0])[0, 0] == 3
    assert parameters[0].value[0, 0] == 4, "the network asks for it, too"
    assert holder.asked == ["values", "gradients", "slots", "values"]


def test_who_held_the_numbers_before_gives_them_back():
    store, parameters = make()
    first, second = Elsewhere(store), Elsewhere(store)
    store.hold(first)
    store.hold(second)
    store.hold(second)
    assert first.asked == ["values", "gradients", "slots"]
    assert second.asked == []
    assert store.value(parameters[0])[0, 0] == 1
    assert second.asked == ["values"]


def test_a_snapshot_is_of_the_newest_numbers():
    store, _ = make()
    store.add_slots([Slot("smoothed")])
    holder = Elsewhere(store)
    store.hold(holder)
    taken = store.snapshot()
    assert set(taken["values"]) | set(taken["slot.smoothed"]) == {1.0, 2.0}
    store.restore(taken)
    assert set(holder.asked[2:]) == {"values", "slots"}, "what is put back must not be overwritten later"


def test_values_may_be_assigned():
    store, _ = make()
    buffer = store.values
    store.values = np.full(store.size, 7.0)
    assert store.values is buffer
    assert set(buffer) == {7.0}


class LentOut(Elsewhere):
    """Lends what it holds."""

    def lend(self, kind: str) -> str:
        return f"{kind} on a GPU"


def test_gradients_stay_where_they_lie_if_they_are_lent():
    store, _ = make()
    assert store.gradients_in_place() is store.gradients
    store.hold(Elsewhere(store))
    assert store.gradients_in_place() is store.raw("gradients")["gradients"]
    lender = LentOut(store)
    store.hold(lender)
    assert store.gradients_in_place() == "gradients on a GPU"
    assert lender.asked == []
