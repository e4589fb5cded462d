"""What a program or a notebook cell registers by itself."""

from __future__ import annotations

import pytest

from cntk_core.api import (
    Communicator,
    DataReader,
    DataWriter,
    ExecutionEngine,
    GradientAggregation,
    Learner,
    NetworkBuilder,
    Parallelizer,
    elementwise_op,
    hookimpl,
    register,
    unregister,
)
from cntk_core.errors import UsageError
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.registering import registrations_kept

BASES = {
    "engine": ExecutionEngine,
    "builder": NetworkBuilder,
    "reader": DataReader,
    "writer": DataWriter,
    "learner": Learner,
    "parallelizer": Parallelizer,
    "aggregation": GradientAggregation,
    "communicator": Communicator,
}


@pytest.fixture
def taken():
    """Registers, and takes out again what a test has registered."""
    found = []

    def take(thing, **how):
        found.append(thing)
        return register(thing, **how)

    yield take
    for thing in found:
        unregister(thing)


def manager() -> PluginManager:
    return PluginManager(discover=False)


def complete(base: type) -> type:
    """A class of a kind that defines everything that the kind asks for."""
    return type("Mine", (base,), dict.fromkeys(base.__abstractmethods__, lambda self, *given, **named: None))


@pytest.mark.parametrize("word", BASES)
def test_all_kinds_of_components(taken, word):
    mine = taken(complete(BASES[word]))
    table = manager().registry.table(word)
    assert table.get("mine") is mine
    assert table.find("Mine").title == f"{word} 'Mine' from this program"


def test_a_name(taken):
    mine = taken(complete(Learner), name="lion")
    assert manager().registry.learners.get("Lion") is mine
    named = type("Other", (complete(Learner),), {"name": "tiger"})
    assert taken(named) is named
    assert manager().registry.learners.names() == ("lion", "tiger")


def test_a_decorator():
    @register("lion")
    class Lion(complete(Learner)):
        pass

    try:
        assert Lion.__name__ == "Lion"
        assert manager().registry.learners.get("lion") is Lion
    finally:
        unregister(Lion)
    assert "lion" not in manager().registry.learners


def test_a_cell_that_runs_twice(taken):
    first, second = taken(complete(Learner)), taken(complete(Learner))
    assert first is not second
    assert manager().registry.learners.get("Mine") is second


def test_an_op(taken):
    @elementwise_op("Squash")
    def squash(m, a, x):
        return x / (1 + m.abs(x))

    taken(squash)
    assert manager().registry.ops.find("brainscript", "squash") is squash
    again = taken(elementwise_op("Squash")(lambda m, a, x: x))
    assert manager().registry.ops.find("ndl", "Squash") is again


def test_hooks(taken):
    class Counter:
        def __init__(self):
            self.seen = []

        @hookimpl
        def cntk_epoch_end(self, summary):
            self.seen.append(summary)

    counter = taken(Counter())
    for listener in manager().listeners("cntk_epoch_end"):
        listener(job=None, summary="one")
    assert counter.seen == ["one"]
    assert taken(Counter) is Counter  # takes the place of the object: it is of the same name
    assert len(manager().listeners("cntk_epoch_end")) == 1
    unregister(Counter)
    assert manager().listeners("cntk_epoch_end") == ()


@pytest.mark.parametrize("thing", [3, object, lambda: None, [1]], ids=["number", "class", "function", "list"])
def test_what_cannot_be_registered(thing):
    with pytest.raises(UsageError) as caught:
        register(thing)
    assert str(caught.value) == (
        f"{thing!r} cannot be registered\n"
        "    It is no class of a component, no op, and has no method marked with @hookimpl."
    )


def test_a_kind_that_is_none():
    with pytest.raises(UsageError, match=r"^there is no kind of plugin 'lerner'; did you mean 'learner'\?"):
        register(complete(Learner), kind="lerner")


def test_a_manager_of_before_does_not_see_it(taken):
    before = manager()
    taken(complete(Learner))
    assert "Mine" not in before.registry.learners


def test_a_notebook_sees_it(taken, tmp_path, monkeypatch):
    from cntk_tool_curves.notebook import run

    class Handle:
        def update(self, obj):
            pass

    class Counter:
        def __init__(self):
            self.jobs = []

        @hookimpl
        def cntk_job_begin(self, job):
            self.jobs.append(job.name)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.cntk").write_text("command = P\nP = [ action = PrintAction ; what = hello ]\n", encoding="utf-8")
    counter = taken(Counter())
    run("r.cntk", show=lambda shown: Handle())
    assert counter.jobs == ["P"]


def test_for_a_time_only(taken):
    kept = taken(complete(Learner), name="kept")
    with registrations_kept():
        register(complete(Learner), name="gone")
        unregister(kept)
        assert manager().registry.learners.names() == ("gone",)
    assert manager().registry.learners.names() == ("kept",)
