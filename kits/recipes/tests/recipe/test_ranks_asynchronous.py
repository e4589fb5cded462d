"""Asynchronous SGD on processes: with simulated time the same as on threads, also after a rank was killed."""

from __future__ import annotations

from contextlib import closing

import pytest

from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks
from kits.recipes.tests.recipe.test_ranks_mpi import RECIPE, arrays, assert_same, prepare, train, usable

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("usable")]

__all__ = ["usable"]

BLOCK = """\
parallelTrain = [
            parallelizationMethod = DataParallelASGD
            DataParallelASGD = [
                syncPeriodPerWorker = 5 ; staleness = 2 ; delayCompensation = adaptive ; usePipeline = true
                simulatedTime = [ jitter = 0.5 ; slowness = 1:2 ]
            ]
        ]"""


@pytest.fixture
def ready(tmp_path):
    """Make a folder with the recipe and its data."""

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        prepare(folder)
        recipe = RECIPE.replace("parallelTrain = [ parallelizationMethod = DataParallelSGD ]", BLOCK)
        assert "DataParallelASGD" in recipe
        (folder / "r.cntk").write_text(recipe.replace("checkpointEverySamples = 48 ;", ""), encoding="utf-8")
        return folder

    return make


@pytest.mark.thorough  # the messages of processes are in the contract of communicators
def test_processes_and_threads_give_the_same(ready, monkeypatch):
    folder = ready("processes")
    done = train(folder, 3)
    assert done.returncode == 0, done.stderr
    found = arrays(folder)
    monkeypatch.chdir(folder)

    def work(communicator):
        with closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk", "Train=[modelPath=threads/net.dnn]"], log, communicator=communicator)

    VirtualRanks(3, deadline=120.0).run(work)
    assert_same(found, arrays("threads"))


@pytest.mark.thorough
def test_a_killed_training_goes_on_to_the_last_bit(ready):
    through, killed = ready("through"), ready("killed")
    assert train(through, 2).returncode == 0
    done = train(killed, 2, "--plugin", "killer.py")
    assert done.returncode != 0
    assert done.stderr.rstrip().endswith("what was saved before is kept, and the same command goes on from it")
    done = train(killed, 2)
    assert done.returncode == 0, done.stderr
    assert "Starting Epoch 1" not in done.stderr
    assert_same(arrays(killed), arrays(through))
