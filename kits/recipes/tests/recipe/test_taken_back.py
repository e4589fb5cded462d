"""``--elastic --restarts``: a rank that was lost comes back, and all go on as a restart with all would."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import closing

import pytest
from test_elastic import RIGID, assert_same_training, log_of, prepare

from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

EPOCHS = 5

PLUGIN = """
import os, signal, time
from cntk_core.api import hookimpl

LATE = os.environ.get("CNTK_JOIN") == "1"

@hookimpl
def cntk_minibatch_end(job, result):
    if not LATE and os.environ["RANK"] == os.environ["LOST"] and (result.epoch, result.minibatch) == (1, 1):
        os.kill(os.getpid(), signal.SIGKILL)

@hookimpl
def cntk_epoch_end(job, summary):
    # The rank that is started again takes its time, these epochs none.
    from cntk_kit_recipes.recipe.ranks import _ACTIVE
    if job.ranks < int(os.environ["WORLD_SIZE"]) and summary.epoch == 2 and job.rank == 0:
        end = time.monotonic() + 60.0
        while not _ACTIVE[0].newcomers and time.monotonic() < end:
            time.sleep(0.02)
"""


@pytest.mark.slow
@pytest.mark.sampled(4, later=2)
@pytest.mark.parametrize(
    ("method", "ranks", "lost"),
    [("full", 2, 0), ("one-bit", 3, 1), ("block-momentum", 2, 1), ("asynchronous", 3, 2)],
)
def test_the_same_as_a_restart_with_all(tmp_path, monkeypatch, method, ranks, lost):
    one, other = tmp_path / "elastic", tmp_path / "restarted"
    prepare(one, method)
    recipe = one / "r.cntk"
    text = recipe.read_text(encoding="utf-8")
    text = text.replace("maxEpochs = 3", f"maxEpochs = {EPOCHS} ; keepCheckPointFiles = true")
    recipe.write_text(text, encoding="utf-8")
    (one / "p.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.setenv("LOST", str(lost))
    command = [sys.executable, "-m", "cntk_core", "train", "r.cntk", "communicator=sockets", "--plugin", "p.py"]
    command += ["-n", str(ranks), "--elastic", "--restarts", "1"]
    done = subprocess.run(command, cwd=one, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert f"rank {lost} waits: the others take it in when they have saved an epoch" in done.stderr
    left = [rank for rank in range(ranks) if rank != lost]
    listed = ", ".join(map(str, [*left, lost]))
    expected = rf"Rank {lost} has come; {ranks} ranks go on: ranks {listed}\. "
    expected += r"Training goes on from 'net\.dnn\.3\.ckp', after 3 epochs \(180 samples\)\."
    assert re.search(expected, log_of(one))
    assert log_of(one).rstrip().endswith("__COMPLETED__")
    own = (one / f"log.rank{lost}").read_text(encoding="utf-8")
    assert f"Rank {lost} has come to the run. Training goes on" in own

    shutil.copytree(one, other)
    for path in other.glob("net.dnn*"):
        if re.fullmatch(r"net\.dnn(\.[4-9])?(\.ckp)?", path.name):
            path.unlink()
    monkeypatch.chdir(other)

    def work(communicator):
        with closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk", RIGID], log, only="train", communicator=communicator)

    VirtualRanks(ranks, deadline=120.0).run(work)
    assert "Restored from 'net.dnn.3.ckp'" in log_of(other)
    assert_same_training(one, other)
