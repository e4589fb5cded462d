"""Kills at random moments over four kinds of training; the tool does any number."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "trials"
KILLS = {"digits": 8, "lstm": 8, "search": 7, "sizes": 7}
SAMPLE = 1
"""So many of each, unless all are asked for."""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(TOOL), "kills", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.thorough  # trainings are cut before each operation on files in the tests of the room
@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["search", "digits", "lstm", "sizes"])
def test_killed_trainings_go_on_to_the_same_model(recipe, thorough):
    if recipe == "digits":
        pytest.importorskip("sklearn")
    kills = KILLS[recipe] if thorough else SAMPLE
    done = tool("--recipe", recipe, "--kills", str(kills))
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = rf"^{recipe}: {kills} killed, \d+ of them went on inside an epoch, {kills} identical,"
    assert re.search(wanted, done.stdout, re.M), done.stdout


def test_another_model_is_a_failure(tmp_path, monkeypatch, trial):
    module = trial("kills")
    runs: list[Path] = []

    def run(folder, log="log.txt"):
        runs.append(folder)
        (folder / "net.dnn").write_text("other" if len(runs) == 4 else "same")
        (folder / log).write_text("3 minibatches of the next epoch")

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(module, "_seconds", lambda folder: float(bool(run(folder))))
    monkeypatch.setattr(module, "_killed", lambda folder, seconds: True)
    said: list[str] = []
    outcome = module.kill_and_resume("lstm", 3, tmp_path, say=said.append)
    assert (outcome.kills, outcome.identical, outcome.inside, outcome.good) == (3, 2, 3, False)
    assert said == [f"lstm: the model in '{tmp_path}/lstm-2' differs"]
