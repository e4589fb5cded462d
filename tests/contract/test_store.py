"""The store of parameters: how it is laid out, who shares it, what holders are asked, what learners keep in it."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.learner import Slot
from cntk_core.contract.store import ALIGNMENT, ParameterStore
from cntk_core.network.node import Parameter


def parameter(name: str, *values: float, multiplier: float = 1.0, regularization: float = 1.0) -> Parameter:
    made = Parameter.make(name, (len(values),), value=np.array(values), learning_rate_multiplier=multiplier)
    made.regularization_multiplier = regularization
    return made


def store(*parameters: Parameter, dtype: str = "float64") -> ParameterStore:
    return ParameterStore(parameters, dtype)


class Holder:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def give_back(self, kind: str) -> None:
        self.asked.append(kind)


@pytest.mark.parametrize(("dtype", "step"), [("float64", 8), ("float32", 16)])
def test_parameters_begin_at_aligned_places_and_learned_ones_come_first(dtype, step):
    assert ALIGNMENT == 64
    fixed, light = parameter("fixed", 1, 2, multiplier=0), parameter("light", *range(step), regularization=0.5)
    fast, plain = parameter("fast", 5, multiplier=2.0), parameter("plain", *range(step + 1))
    made = store(fixed, fast, plain, light, dtype=dtype)
    assert [one.name for one in made.parameters] == ["light", "plain", "fast", "fixed"]
    assert [made.range(one) for one in made.parameters] == [
        (0, step),
        (step, 2 * step + 1),
        (3 * step, 3 * step + 1),
        (4 * step, 4 * step + 2),
    ]
    assert (made.size, made.learned_size) == (5 * step, 4 * step)
    assert made.values.dtype == dtype
    assert made.values.ctypes.data % ALIGNMENT == 0
    assert made.values[step : 2 * step + 1].tolist() == list(range(step + 1))
    assert not made.gradients.any()
    assert len(made.gradients) == made.size
    assert store(plain, dtype=dtype).learned_size == store(plain, dtype=dtype).size == 2 * step


def test_a_parameter_sees_the_store():
    weights = parameter("W", 1, 2)
    made = store(weights)
    made.value(weights)[...] = [3, 4]
    assert weights.value.tolist() == [3, 4]
    weights.value = np.array([5.0, 6.0])
    assert made.value(weights).tolist() == [5, 6]
    made.values += 1
    assert weights.value.tolist() == [6, 7]
    made.values = np.zeros(made.size)
    assert weights.value.tolist() == [0, 0]


def test_a_store_of_the_same_parameters_has_the_same_numbers_and_slots_of_its_own():
    one, two = parameter("a", 1), parameter("b", 2)
    first = store(one, two)
    first.add_slots([Slot("m", 0.5)])
    first.state["n"] = 3.0
    second = ParameterStore.of([two, one], "float64")
    assert second.turn is first.turn
    assert second.values is first.values
    assert second.gradients is first.gradients
    assert (second.slots, second.state) == ({}, {})
    assert list(first.slots) == ["m"]
    assert ParameterStore.of([one], "float64").parameters == first.parameters


def test_values_that_were_put_in_since_count():
    one, two = parameter("a", 1), parameter("b", 2)
    first = store(one, two)
    one.collect = None
    one.value = np.array([7.0])
    one.collect = two.collect
    second = ParameterStore.of([one, two], "float64")
    assert second.value(one).tolist() == [7]
    assert first.value(two).tolist() == [2]
    assert one.value.base is not None
    one.value = np.array([8.0])
    assert first.value(one).tolist() == [8]


def test_a_store_of_its_own_where_the_other_does_not_fit():
    def shares(wanted, dtype="float64"):
        return np.shares_memory(ParameterStore.of(wanted, dtype).values, there)

    one, two, new = parameter("a", 1), parameter("b", 2, multiplier=0), parameter("c", 3)
    there = store(one, two).values
    assert shares([one, two])
    two.learning_rate_multiplier = 1.0
    assert not shares([two])  # it lies behind what is learned
    one, two = parameter("a", 1), parameter("b", 2)
    there = store(one, two).values
    assert not shares([one, two], "float32")
    one, two = parameter("a", 1), parameter("b", 2)
    there = store(one, two).values
    assert not shares([one, new])
    assert not np.shares_memory(ParameterStore.of([parameter("d", 1)], "float64").values, there)


def test_parameters_that_fill_their_places_are_shared_too():
    weights = parameter("W", *range(8))
    made = store(weights)
    assert made.learned_size == made.range(weights)[1] == 8
    assert ParameterStore.of([weights], "float64").values is made.values


def test_holders_are_asked_for_what_is_looked_at():
    weights = parameter("W", 1, 2)
    made, holder = store(weights), Holder()
    made.hold(holder)
    assert holder.asked == []
    made.hold(holder)
    assert holder.asked == []
    for look, kind in (
        (lambda: made.values, "values"),
        (lambda: weights.value, "values"),
        (lambda: made.value(weights), "values"),
        (lambda: made.gradient(weights), "gradients"),
        (lambda: made.gradients_in_place(), "gradients"),
        (lambda: made.slots, "slots"),
    ):
        look()
        assert holder.asked == [kind]
        holder.asked.clear()
    for kind in ("values", "gradients", "slots"):
        made.raw(kind)
    assert holder.asked == []
    made.hold(Holder())
    assert sorted(holder.asked) == ["gradients", "slots", "values"]
    assert made.holder is not holder


def test_what_a_holder_may_see_of_each_kind():
    weights = parameter("W", 1, 2)
    made = store(weights)
    made.add_slots([Slot("m", 0.5), Slot("v")])
    assert {kind: list(made.raw(kind)) for kind in ("values", "gradients", "slots")} == {
        "values": ["values"],
        "gradients": ["gradients"],
        "slots": ["m", "v"],
    }
    assert made.raw("values")["values"] is made.values
    assert made.raw("gradients")["gradients"] is made.gradients


def test_slots_begin_and_begin_again_with_their_initial_values():
    weights = parameter("W", 1, 2)
    made = store(weights)
    made.add_slots([Slot("m", 0.5), Slot("v")])
    assert [made.slot(name, weights).tolist() for name in ("m", "v")] == [[0.5, 0.5], [0, 0]]
    made.slot("m", weights)[...] = 7
    made.slot("v", weights)[...] = 7
    made.state["n"] = 1.0
    made.add_slots([Slot("m", 0.25)])
    assert made.slot("m", weights).tolist() == [7, 7]
    made.reset_slots()
    assert [made.slot(name, weights).tolist() for name in ("m", "v")] == [[0.5, 0.5], [0, 0]]
    assert made.state == {}


def test_a_snapshot_brings_everything_back():
    weights = parameter("W", 1, 2)
    made = store(weights)
    made.add_slots([Slot("m", 0.5)])
    made.state["n"] = 3.0
    kept = made.snapshot()
    made.value(weights)[...] = 9
    made.slot("m", weights)[...] = 9
    made.state = {"n": 4.0, "other": 5.0}
    made.restore(kept)
    assert made.value(weights).tolist() == [1, 2]
    assert made.slot("m", weights).tolist() == [0.5, 0.5]
    assert made.state == {"n": 3.0}


def test_rows_that_a_sparse_gradient_has_come_to():
    table = Parameter.make("E", (4, 2), value=np.zeros((4, 2)))
    other = Parameter.make("F", (3, 2), value=np.zeros((3, 2)))
    made = store(table, other)
    made.touched(table, 4)[1] = True
    made.gradient(table)[3, 1] = 0.5
    assert made.take_touched(table, 4).tolist() == [1, 3]
    assert made.take_touched(table, 4).tolist() == [3]
    made.touched(table, 4)[0] = True
    made.gradient(other)[...] = 1
    made.forget_gradients([table])
    assert made.take_touched(table, 4).tolist() == []
    assert made.take_touched(other, 3).tolist() == [0, 1, 2]
    made.forget_gradients([other])
    assert not made.gradients.any()
