"""Communicators, aggregations and strategies of other wheels that give what cannot be used: what is said of them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cntk_core.contract.parallel import Communicator
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
        ((SUMS, "pass"), "Mine.state of the plugin file 'p.py' returned None, not a dict of arrays"),
        (
            (SUMS, "return {'a': 'b'}"),
            "Mine.state of the plugin file 'p.py' returned {'a': 'b'}, not a dict of arrays",
        ),
    ],
    ids=["not in place", "no header", "no state", "no arrays"],
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


def test_those_of_this_project_stay_as_they_are():
    from cntk_parallel_data_parallel.full import FullPrecision

    aggregation = FullPrecision()
    assert "aggregate" not in vars(with_checks(aggregation))
