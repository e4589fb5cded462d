"""The host's part of a step: updates in Python and assignments around an engine's program."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from cntk_core.contract.host_program import HostProgram, compile_plan
from cntk_core.contract.learner import Slot
from cntk_core.contract.store import ParameterStore
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter


def plan(*assigned: str) -> SimpleNamespace:
    network = Network(np.float64)
    made = [network.add(Parameter.make(name, (2,), value=np.array([1.0, 2.0]))) for name in ("V", "W")]
    return SimpleNamespace(network=network, trained=made, names=assigned)


class Program:
    """Notes what it is asked."""

    def __init__(self, made):
        self.plan, self.told, self.settings, self.step = made, [], {"a": 1}, 5

    def value(self, name):
        self.told.append(("value", name))
        return np.array([7.0, 8.0])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*given, **named):
            self.told.append((name, *given, *named.items()))
            return f"{name} of it"

        return call


@pytest.fixture
def host(monkeypatch):
    """A program of the host around one of an engine; ``W`` is assigned the value of ``y``."""

    def make(rule=None):
        made = plan()
        node = SimpleNamespace(name="y")
        monkeypatch.setattr("cntk_core.contract.host_program.assignments", lambda of: {of.trained[1]: node})
        return HostProgram(Program(made), ParameterStore(made.trained, np.float64), rule)

    return make


FORWARDED = ["begin_epoch", "forward", "gradient", "layout", "read_totals", "state", "restore", "memory", "remarks"]


@pytest.mark.parametrize("name", FORWARDED)
def test_what_the_engine_does(host, name):
    made = host()
    assert getattr(made, name)(1, two=2) == f"{name} of it"
    assert made.inner.told == [(name, 1, ("two", 2))]
    assert made.store.values[8:10].tolist() == [1, 2]


def test_attributes_are_those_of_the_engine(host):
    made = host()
    assert (made.settings, made.step) == ({"a": 1}, 5)
    made.settings, made.step = {"b": 2}, 6
    assert (made.inner.settings, made.inner.step) == ({"b": 2}, 6)


@pytest.mark.parametrize("name", ["evaluate", "compute_gradients", "backward"])
def test_assignments_are_done_after_a_minibatch(host, name):
    made = host()
    getattr(made, name)("a minibatch")
    assert made.inner.told == [(name, "a minibatch"), ("value", "y")]
    assert made.store.value(made.plan.trained[1]).tolist() == [7, 8]
    assert made.store.value(made.plan.trained[0]).tolist() == [1, 2]


SCALARS = [
    {"samples": 4, "step": 2, "epoch": 1, "learning_rate": rate, "momentum": 0.5, "state.n": 9.0}
    for rate in (0.25, 0.5)
]


def test_updates_in_python_have_everything_at_hand(host):
    seen = []

    def update(updates, scalars):
        assert scalars is SCALARS
        for one in updates:
            seen.append((one.name, one.context.learning_rate, one.context.samples, list(one.slots), one.context.dtype))
            one.value -= one.gradient * one.context.learning_rate
            one.slots["m"][...] += 1

    rule = SimpleNamespace(on_host=update, slots=(Slot("m", 0.5),))
    made = host(rule)
    made.store.gradients[...] = 4.0
    made.update(SCALARS)
    assert seen == [("V", 0.25, 4, ["m"], "float64"), ("W", 0.5, 4, ["m"], "float64")]
    assert [made.store.value(one).tolist() for one in made.plan.trained] == [[0, 1], [-1, 0]]
    assert made.store.slot("m", made.plan.trained[0]).tolist() == [1.5, 1.5]
    assert made.inner.told == []


def test_other_updates_are_those_of_the_engine(host):
    for rule in (None, SimpleNamespace(on_host=None, slots=(Slot("m"),))):
        made = host(rule)
        made.update(SCALARS)
        assert made.inner.told == [("update", SCALARS)]
        assert made.store.slots == {}


@pytest.mark.parametrize(
    ("assigned", "on_host", "wrapped", "given"),
    [
        (False, None, False, True),
        (True, None, True, True),
        (False, "update", True, False),
        (True, "update", True, False),
    ],
)
def test_a_program_is_wrapped_where_the_host_has_work(monkeypatch, assigned, on_host, wrapped, given):
    found = {"W": 1} if assigned else {}
    monkeypatch.setattr("cntk_core.contract.host_program.assignments", lambda plan: found)
    rule, made = SimpleNamespace(on_host=on_host, slots=()), plan()
    asked = []

    class Engine:
        def compile(self, plan, store, rule=None, *, seed=0):
            asked.append((plan, rule, seed))
            return Program(plan)

    store = ParameterStore(made.trained, np.float64)
    program = compile_plan(Engine(), made, store, rule, seed=7)
    assert isinstance(program, HostProgram) is wrapped
    assert asked == [(made, rule if given else None, 7)]
    if wrapped:
        assert (program.store, program.rule) == (store, rule)
    assert isinstance(compile_plan(Engine(), made, store), HostProgram) is assigned


class Pickled(Program):
    """A program that comes back with a network of its own."""

    def __reduce__(self):
        return (_again, ())


def _again() -> Pickled:
    return Pickled(plan())


def test_it_comes_back_on_the_parameters_that_are_there(monkeypatch):
    monkeypatch.setattr("cntk_core.contract.host_program.assignments", lambda plan: {})
    made = plan()
    store = ParameterStore(made.trained, np.float64)
    store.value(made.trained[0])[...] = [5, 6]
    back = pickle.loads(pickle.dumps(HostProgram(Pickled(made), store, None)))
    assert isinstance(back, HostProgram)
    assert isinstance(back.inner, Pickled)
    assert (back.step, back.rule) == (5, None)
    assert back.store.values.tolist() == store.values.tolist()
    assert back.store.values is not store.values
    assert [one.name for one in back.store.parameters] == ["V", "W"]
