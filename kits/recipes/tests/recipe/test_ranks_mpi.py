"""``cntk train -n``: the same as virtual ranks to the last bit, and what happens when a rank is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cntk_core.errors import CntkError
from cntk_core.plugins.manager import PluginManager
from cntk_core.training.files.checkpoint import load_checkpoint
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

pytestmark = pytest.mark.slow

RECIPE = """\
command = Train
deviceId = -1
traceLevel = 1
parallelTrain = true
Train = [
    action = train
    modelPath = "net.dnn"
    SimpleNetworkBuilder = [ layerSizes = 6:20:3 ; trainingCriterion = CrossEntropyWithSoftmax ]
    SGD = [
        maxEpochs = 3 ; minibatchSize = 16 ; learningRatesPerSample = 0.01 ; momentumPerMB = 0.9
        checkpointEverySamples = 48 ; keepCheckPointFiles = true
        parallelTrain = [ parallelizationMethod = DataParallelSGD ]
    ]
    reader = [
        file = data.txt
        input = [ features = [ dim = 6 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ]
    ]
]
"""

KILLER = """
import os
from cntk_core.api import hookimpl

@hookimpl
def cntk_minibatch_end(job, result):
    if job.rank == 1 and (result.epoch, result.minibatch) == (1, 7):
        os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def usable():
    try:
        PluginManager(load_hooks=False).registry.communicators.get("mpi").launcher(2)
    except CntkError as error:
        pytest.skip(error.message)


def prepare(folder):
    random = np.random.default_rng(8)
    rows = [
        f"|features {' '.join(f'{value:.3f}' for value in x)} |labels {' '.join(map(str, np.eye(3, dtype=int)[label]))}"
        for x, label in zip(random.normal(size=(150, 6)), random.integers(0, 3, 150), strict=True)
    ]
    (folder / "data.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "r.cntk").write_text(RECIPE, encoding="utf-8")
    (folder / "killer.py").write_text(KILLER, encoding="utf-8")


def train(folder, ranks, *arguments):
    command = [sys.executable, "-m", "cntk_core", "train", "r.cntk", "-n", str(ranks), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def through(usable, tmp_path_factory):
    """What two processes reach that nothing stops."""
    folder = tmp_path_factory.mktemp("through")
    prepare(folder)
    assert train(folder, 2).returncode == 0
    return arrays(folder)


def arrays(folder):
    return load_checkpoint(Path(folder, "net.dnn.ckp")).arrays


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.usefixtures("usable")
def test_processes_and_threads_give_the_same(tmp_path, monkeypatch):
    prepare(tmp_path)
    done = train(tmp_path, 2)
    assert done.returncode == 0, done.stderr
    assert done.stderr.rstrip().endswith("COMPLETED.")
    found = arrays(tmp_path)
    monkeypatch.chdir(tmp_path)

    def work(communicator):
        with closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk", "Train=[modelPath=threads/net.dnn]"], log, communicator=communicator)

    VirtualRanks(2, deadline=120.0).run(work)
    assert_same(found, arrays("threads"))


@pytest.mark.thorough  # the contract of communicators kills a rank of MPI, too
def test_a_killed_training_goes_on_to_the_last_bit(tmp_path, through):
    prepare(tmp_path)
    done = train(tmp_path, 2, "--plugin", "killer.py")
    assert done.returncode != 0
    kept = "what was saved before is kept, and the same command goes on from it"
    assert done.stderr.rstrip().endswith(f"\nrank 1 was ended by signal 9; {kept}")
    done = train(tmp_path, 2)
    assert done.returncode == 0, done.stderr
    assert "minibatches of the next epoch" in done.stderr
    assert_same(arrays(tmp_path), through)


SLOW = """
import os, time
from cntk_core.api import hookimpl
from cntk_kit_recipes.session import stop_signals

stop_signals.ECHO = 60.0

@hookimpl
def cntk_minibatch_end(job, result):
    if job.rank == 0 and (result.epoch, result.minibatch) == (1, 2):
        open("now", "w").close()
        while not os.path.exists("told"):
            time.sleep(0.02)
    if (result.epoch, result.minibatch) >= (1, 2):
        time.sleep(0.3)
"""
"""The training waits until its launcher is told to end, and what the launcher says has time to come to the ranks: on a
busy machine it may come later than a further signal usually counts as the same request."""


@pytest.mark.parametrize(
    ("number", "all_at_once"),
    [
        (signal.SIGTERM, False),
        (signal.SIGTERM, True),
        (signal.SIGUSR1, False),
        (signal.SIGUSR1, True),
        (signal.SIGHUP, False),
        (signal.SIGHUP, True),
    ],
)
@pytest.mark.thorough  # tests/training/test_stopping.py tells ranks on threads to end, and a process
def test_a_launcher_that_is_told_to_end_lets_the_ranks_save(tmp_path, through, number, all_at_once):
    """As Slurm does it: one signal to all processes of a job, the launchers of which pass it on as well."""
    prepare(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    command = [sys.executable, "-m", "cntk_core", "train", "r.cntk", "-n", "2", "--plugin", "slow.py"]
    before = signal.signal(number, signal.SIG_DFL)  # where the tests run under nohup, processes would ignore SIGHUP
    options = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, cwd=tmp_path, **options) as process:
        signal.signal(number, before)
        while not (tmp_path / "now").exists():
            assert process.poll() is None
            time.sleep(0.05)
        (os.killpg if all_at_once else os.kill)(process.pid, number)
        (tmp_path / "told").touch()
        _, said = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    saved = f"training on rank 0, 1 was told to end ({number.name}): it ends after minibatch " in said
    # Open MPI's launcher, told to end itself, kills the ranks a second later, which on a busy machine is too early.
    assert saved or (all_at_once and number != signal.SIGUSR1)
    if saved:
        assert "failed" not in said
        assert said.rstrip().endswith("It is saved there; the same command goes on from it.")
    else:
        assert said.rstrip().endswith("what was saved before is kept, and the same command goes on from it")
    done = train(tmp_path, 2)
    assert done.returncode == 0, done.stderr
    assert "minibatches of the next epoch" in done.stderr or not saved
    assert_same(arrays(tmp_path), through)


@pytest.mark.thorough  # test_ranks.py has the rank that failed first named, by the launcher of sockets
@pytest.mark.usefixtures("usable")
def test_the_message_of_the_rank_that_failed_comes_last(tmp_path):
    prepare(tmp_path)
    (tmp_path / "data.txt").write_text("|features 1 2 3\n", encoding="utf-8")
    done = train(tmp_path, 2)
    assert done.returncode == 1
    last = done.stderr.rstrip().rpartition("failed first:\n")[2]
    assert done.stderr.count("error: ") == 1
    assert "MPI_ABORT" not in done.stderr
    assert "-----" not in done.stderr
    assert "ends all ranks" not in done.stderr
    assert last.startswith("error: ")
    assert "data.txt" in last
