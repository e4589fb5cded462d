"""Communicators, aggregations and strategies of other wheels that give what cannot be used: what is said of them."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cntk_core.contract import parallel
from cntk_core.contract.parallel import Communicator, GradientAggregation
from cntk_core.errors import BrokenPluginError, WrongResult
from cntk_kit_recipes.block.checked_ranks import with_checks
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

HEAD = "from cntk_core.api import *\nimport numpy as np\n"
AGGREGATION = """
class Mine(GradientAggregation):
    def aggregate(self, gradients, header, communicator):
        {}
    def state(self): {}
"""
STRATEGY = """
class Mine(Parallelizer):
    def reduce(self, store, counts): {}
    def state(self): {}
    def describe(self, epoch): {}
"""
SUMS = "communicator.allreduce(gradients); communicator.allreduce(header)"
OF_AGGREGATION = "[parallelizationMethod=DataParallelSGD ; DataParallelSGD=[aggregation=Mine]]"
OF_STRATEGY = "[parallelizationMethod=Mine]"


def said_of(parallel: str) -> set[str]:
    """Train on two ranks with a plugin file; return what each rank says."""

    def work(communicator: Communicator) -> str:
        arguments = ["configFile=r.cntk", f"Train=[SGD=[parallelTrain={parallel}]]"]
        with closing(Log(quiet=True)) as log, pytest.raises(BrokenPluginError) as caught:
            run_recipe(arguments, log, plugin_files=["p.py"], communicator=communicator)
        return str(caught.value)

    return set(VirtualRanks(2, deadline=60.0).run(work))


@pytest.mark.parametrize(
    ("bodies", "wrong"),
    [
        (
            ("return 2 * gradients", "return {}"),
            "Mine.aggregate of the plugin file 'p.py' returned an array of (8,), "
            "but the sums belong into the arrays that it is given",
        ),
        (
            ("header *= np.nan", "return {}"),
            "Mine.aggregate of the plugin file 'p.py' returned None, and no samples in the header",
        ),
        *(
            (
                (f"{SUMS}; {spoils}", "return {}"),
                "Mine.aggregate of the plugin file 'p.py' returned None, "
                "and numbers in the header that are not the sums over all ranks",
            )
            for spoils in ("header[2] += 1", "header /= 2", "header[1:] = header[:0:-1]")
        ),
        ((SUMS, "pass"), "Mine.state of the plugin file 'p.py' returned None, not a dict of arrays"),
        (
            (SUMS, "return {'a': 'b'}"),
            "Mine.state of the plugin file 'p.py' returned {'a': 'b'}, not a dict of arrays",
        ),
    ],
    ids=["not in place", "no header", "another number", "means", "in another order", "no state", "no arrays"],
)
def test_an_aggregation(recipe, bodies, wrong):
    Path("p.py").write_text(HEAD + AGGREGATION.format(*bodies), encoding="utf-8")
    assert any(said.startswith(f"{wrong}\n    it is at ") for said in said_of(OF_AGGREGATION))


@pytest.mark.parametrize(
    ("bodies", "wrong"),
    [
        (("pass", "return {}", "return ''"), "Mine.reduce of {} returned None, not the StepCounts of all ranks"),
        (("return 3", "return {}", "return ''"), "Mine.reduce of {} returned 3, not the StepCounts of all ranks"),
        (("return counts", "return {}", "pass"), "Mine.describe of {} returned None, not a text"),
    ],
)
def test_a_strategy(recipe, bodies, wrong):
    Path("p.py").write_text(HEAD + STRATEGY.format(*bodies), encoding="utf-8")
    said = said_of(OF_STRATEGY)
    wrong = wrong.format("the plugin file 'p.py'")
    assert all(one.startswith(f"{wrong}\n    it is at ") for one in said)
    assert all(one.endswith("Mend the file. CNTK_TRACEBACK=1 shows how it was called.") for one in said)


@pytest.mark.parametrize(("names", "given"), [("None", "None"), ("'full'", "'full'"), ("(1,)", "1 values")])
def test_a_strategy_that_names_no_aggregations(recipe, names, given):
    wants = f"    @classmethod\n    def needs(cls, options): return {names}\n"
    Path("p.py").write_text(HEAD + STRATEGY.format("return counts", "return {}", "pass") + wants, encoding="utf-8")
    for said in said_of(OF_STRATEGY):
        first, second, _ = said.splitlines()
        assert first == (f"Mine.needs of the plugin file 'p.py' returned {given}, not a tuple of names of aggregations")
        assert re.fullmatch(r"    it is at .*p\.py:8", second)


@pytest.mark.parametrize("base", ["Parallelizer", "GradientAggregation"])
def test_one_that_does_not_call_its_base_class(base):
    kind = type("Bare", (getattr(parallel, base),), {"__init__": lambda self: None, "aggregate": None})
    with pytest.raises(WrongResult, match=r"does not call super\(\)\.__init__\(\)"):
        with_checks(kind())


class Wrong(Communicator):
    """Two ranks, of which each operation gives what it is told to."""

    size = 2

    def __init__(self, result=None):
        super().__init__()
        self.result = result

    def allreduce(self, array):
        return self.result

    def allgather(self, array):
        return self.result

    def alltoall(self, arrays):
        return self.result

    def broadcast(self, array, root=0):
        return self.result

    def barrier(self):
        return self.result

    def split(self, color):
        return self.result

    def background(self, work):
        return self.result

    def regroup(self, done):
        return self.result

    def send(self, array, to, tag=0):
        return self.result

    def receive(self, source=None, tag=None):
        return self.result

    def poll(self, source=None, tag=None):
        return self.result

    def now(self):
        return self.result

    def abort(self, reason):
        return self.result


@pytest.mark.parametrize(
    ("name", "arguments", "result", "wrong"),
    [
        (
            "allreduce",
            [np.ones(2)],
            np.ones(2),
            "an array of (2,), but the sums belong into the arrays that it is given",
        ),
        ("allgather", [np.ones(2)], None, "None, not a list of 2 arrays, one of each rank"),
        ("allgather", [np.ones(2)], np.ones((2, 2)), "an array of (2, 2), not a list of 2 arrays, one of each rank"),
        ("allgather", [np.ones(2)], [np.ones(2)], "1 values, not a list of 2 arrays, one of each rank"),
        ("alltoall", [[np.ones(2)] * 2], [None, None], "2 values, not a list of 2 arrays, one of each rank"),
        ("split", [0], None, "None, not a communicator"),
        ("background", [lambda communicator: 3], 3, "3, not a Pending"),
        ("regroup", [True], 3, "3, not a communicator or None"),
        ("receive", [], None, "None, not a Message"),
        ("poll", [], np.ones(2), "an array of (2,), not a Message or None"),
        ("now", [], None, "None, not seconds"),
    ],
)
def test_a_communicator(name, arguments, result, wrong):
    communicator = with_checks(Wrong(result))
    with pytest.raises(WrongResult) as caught:
        getattr(communicator, name)(*arguments)
    assert str(caught.value) == f"Wrong.{name} returned {wrong}"
    assert caught.value.function is vars(Wrong)[name]


def test_the_communicators_of_a_split_are_checked_too():
    part = with_checks(Wrong(Wrong())).split(0)
    with pytest.raises(WrongResult, match="not a Message"):
        part.receive()


def test_the_communicators_of_those_that_are_left_are_checked_too():
    communicator = with_checks(Wrong(Wrong()))
    with pytest.raises(WrongResult, match="not a Message"):
        communicator.regroup(False).receive()
    communicator.result = None
    assert communicator.regroup(True) is None


class Behind(Wrong):
    """One that gives work in the background what it is told to."""

    def background(self, work):
        return parallel.Pending(work(self.result))


def test_the_communicators_of_work_in_the_background_are_checked_too():
    inner = Wrong()
    communicator = with_checks(Behind(inner))
    for _ in range(2):
        with pytest.raises(WrongResult) as caught:
            communicator.background(lambda one: one.receive())
        assert str(caught.value) == "Wrong.receive returned None, not a Message"
    assert communicator.background(lambda one: one.poll()).wait() is None
    communicator.result = 3
    with pytest.raises(WrongResult) as caught:
        communicator.background(lambda one: one.poll())
    assert str(caught.value) == "Behind.background gave the work 3, not a communicator"
    assert caught.value.function is vars(Behind)["background"]


LOSING = """
from cntk_core.api import *
from cntk_testing.virtual_ranks import VirtualCommunicator

class Losing(VirtualCommunicator):
    def regroup(self, done):
        {}

    def background(self, work):
        return super().background(lambda inner: {})
"""


@pytest.mark.parametrize(
    ("bodies", "elastic", "said"),
    [
        (
            ("return 'nobody'", "work(inner)"),
            True,
            "Losing.regroup of {} returned 'nobody', not a communicator or None",
        ),
        (("return {}['nobody']", "work(inner)"), True, "Losing.regroup of {} failed: KeyError: 'nobody'"),
        (
            ("return None", "work(7)"),
            False,
            "Losing.background.<lambda> of {} failed: WrongResult: "
            "Losing.background gave the work 7, not a communicator",
        ),
        (
            ("return None", "{}['nobody']"),
            False,
            "Losing.background.<lambda> of {} failed: KeyError: 'nobody'",
        ),
    ],
)
def test_who_has_the_communicator_is_named(recipe, bodies, elastic, said):
    """Where ranks find out who is left, and in the background: with the file, the line and a remedy."""
    Path("p.py").write_text(LOSING.format(*bodies), encoding="utf-8")
    buffered = "DataParallelSGD=[ useBufferedAsyncGradientAggregation=true ]"
    block = f"[parallelizationMethod=DataParallelSGD ; {buffered} ; elastic={str(elastic).lower()}]"

    def work(communicator):
        from cntk_core.plugins.faults import MARK
        from cntk_core.plugins.manager import PluginManager

        PluginManager(["p.py"], load_hooks=False)
        loaded = [one for one in list(sys.modules.values()) if MARK in vars(one) and hasattr(one, "Losing")]
        module = next(one for one in loaded if Path(one.__file__).parent == Path.cwd())
        mine = with_checks(module.Losing(communicator._ranks, communicator.rank))
        arguments = ["configFile=r.cntk", f"Train=[SGD=[parallelTrain={block}]]"]
        with closing(Log(quiet=True)) as log, pytest.raises(BrokenPluginError) as caught:
            run_recipe(arguments, log, communicator=mine)
        return str(caught.value)

    for text in VirtualRanks(2, deadline=60.0).run(work):
        first, place, *_, remedy = text.splitlines()
        assert first == said.format("the plugin file 'p.py'")
        assert re.fullmatch(r"    (it is at|raised by) .*p\.py:\d+", place)
        assert remedy.startswith("    Mend the file.")


def test_what_can_be_used_is_given():
    array = np.ones(2)
    communicator = with_checks(Wrong([array, array]))
    assert communicator.allgather(array) == [array, array]
    communicator.result = None
    assert communicator.poll() is None
    communicator.result = array
    communicator.allreduce(array)  # it lies where it should


def test_a_communicator_without_its_base_class():
    class Bare(Wrong):
        def __init__(self):
            pass

    with pytest.raises(WrongResult, match=r"Bare\.__init__ does not call super\(\)\.__init__\(\)"):
        with_checks(Bare())


class Sums(GradientAggregation):
    """One that gives the header back, as those may that return what they have changed."""

    def aggregate(self, gradients, header, communicator):
        communicator.allreduce(gradients)
        communicator.allreduce(header)
        return gradients, header


@pytest.mark.parametrize(
    "criterion", [3.0, -1e300, np.inf, np.nan, [np.inf, -np.inf]], ids=["usual", "large", "inf", "nan", "infs"]
)
def test_sums_that_are_as_they_should_be(criterion):
    def work(communicator):
        gradients, header = np.full(2, communicator.rank + 1.0), np.hstack([4.0 + communicator.rank, 0.1, criterion])
        with_checks(Sums()).aggregate(gradients, header, communicator)
        return gradients, header

    for gradients, header in VirtualRanks(3, deadline=60.0).run(work):
        np.testing.assert_array_equal(gradients, [6.0, 6.0])
        np.testing.assert_allclose(header, np.hstack([15.0, 0.3, 3 * np.array(criterion)]), rtol=1e-12)


def test_those_of_this_project_stay_as_they_are():
    from cntk_parallel_data_parallel.full import FullPrecision

    aggregation = FullPrecision()
    assert "aggregate" not in vars(with_checks(aggregation))
