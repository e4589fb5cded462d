"""Elastic trainings of processes that lose ranks; the tool does any number."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cntk_core.errors import CntkError
from cntk_core.plugins.manager import PluginManager

TOOL = Path(__file__).resolve().parents[2] / "tools" / "trials"
CASES = [("mpi", "one-bit", "kill", 1), ("sockets", "block-momentum", "exit", 2)]

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")


@pytest.mark.thorough  # the tests of MPI lose a rank that others go on without, those of the recipe do so on threads
@pytest.mark.slow
@pytest.mark.parametrize(("way", "strategy", "fault", "seed"), CASES)
def test_faults(way, strategy, fault, seed):
    try:
        PluginManager(load_hooks=False).registry.communicators.get(way).launcher(2, elastic=True)
    except CntkError as error:
        pytest.skip(error.message)
    given = ["--faults", "1", "--way", way, "--strategy", strategy, "--fault", fault, "--seed", str(seed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(TOOL), "elastic", *given, "--slack", "200"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1 elastic runs, 0 failures; ", done.stdout, re.M), done.stdout


@pytest.fixture
def tool(trial):
    return trial("elastic")


GOOD = "Warning: rank 1 is lost (minibatch 2 of epoch 2); 2 of 3 ranks go on\nCOMPLETED.\n"


@pytest.mark.parametrize(
    ("codes", "log", "model", "injected", "message"),
    [
        ([0], GOOD, b"same", True, ""),
        ([0], GOOD, b"same", False, "a fault did not happen"),
        ([1], GOOD, b"same", True, r"it ended with \[1\]"),
        ([0], GOOD.replace("COMPLETED", ""), b"same", True, r"it ended with \[0\]"),
        ([0], GOOD.replace("rank 1", "rank 2"), b"same", True, "the log says that ranks {'2'} are lost, not {'1'}"),
        ([0], GOOD, b"other", True, "the model differs from that of a restart"),
    ],
)
def test_what_is_a_failure(tool, tmp_path, monkeypatch, codes, log, model, injected, message):
    """The tool's own guard: runs that are not as they must be."""
    trial = tool.Trial("sockets", "full", "kill", 3, False)
    folder = tmp_path / "run"

    def start(place, trial, fault, name, *, elastic):
        (place / name).write_text(log)
        (place / "net.dnn").write_bytes(model if elastic else b"same")
        if elastic:
            (place / "begun-2").mkdir()
            if injected:
                (place / "injected-0").write_text("1.0")
        return [elastic]

    monkeypatch.setattr(tool, "_start", start)
    monkeypatch.setattr(tool, "finish", lambda started, *_: (codes if started[0] else [0], 0.0))
    faults = [tool.Fault("kill", 3, 1, 1, 0)]
    if message:
        with pytest.raises(tool.FaultError, match=message):
            tool.disturb(folder, trial, faults, 5.0, 5.0)
    else:
        assert tool.disturb(folder, trial, faults, 5.0, 5.0) >= 0.0


def test_ranks_that_are_lost_one_after_the_other(tool):
    """Those that are left get new numbers, but the log goes on to use those of the launcher."""
    assert tool._called([tool.Fault("kill", 4, 1, 0, 0), tool.Fault("exit", 3, 1, 1, 0)]) == [1, 2]
    options = type("Options", (), {"way": "all", "strategy": "all", "fault": "all"})
    drawn = [tool.draw(random.Random(seed), options) for seed in range(40)]
    assert {trial.way for trial, _ in drawn} == set(tool.WAYS)
    assert {len(faults) for _, faults in drawn} == {1, 2}
    for trial, faults in drawn:
        for number, fault in enumerate(faults):
            assert fault.ranks == trial.ranks - number
            assert fault.rank < fault.ranks
