"""Faults of ranks over all strategies and ways to run them; the tool does any number."""

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
CASES = [("virtual", "averaging", "exit")]  # the contract of sockets kills processes
MORE = [
    ("sockets", "averaging", "kill"),
    ("mpi", "buffered", "term"),
    ("alone", "block-momentum", "stop"),
    ("alone", "full", "term"),
    ("alone", "one-bit", "kill"),
    ("virtual", "block-momentum", "exception"),
    ("alone", "buffered", "none"),
    ("mpi", "one-bit", "kill"),
]

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "strategy", "fault"), [pytest.param(*case, marks=pytest.mark.thorough) for case in (*CASES, *MORE)]
)
def test_faults(way, strategy, fault):
    if way == "mpi":
        try:
            PluginManager(load_hooks=False).registry.communicators.get("mpi").launcher(2)
        except CntkError as error:
            pytest.skip(error.message)
    paths = os.pathsep.join(path for path in sys.path if path)
    given = ["--faults", "1", "--way", way, "--strategy", strategy, "--fault", fault, "--slack", "30"]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, str(TOOL), "ranks", *given],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1 faults, 0 failures; ", done.stdout, re.M), done.stdout


@pytest.fixture
def module(trial):
    return trial("ranks")


@pytest.mark.parametrize(
    ("codes", "log", "again", "model", "message"),
    [
        ([1], "\nrank 1 was ended by signal 9", "Restored from", b"same", ""),
        ([0], "\nrank 1 was ended by signal 9", "Restored from", b"same", r"kill on rank 1: it ended with \[0\]"),
        ([1], "rank 1 came\nrank 0 is gone", "Restored from", b"same", "kill on rank 1: no message names the rank"),
        ([1], "\nrank 1 was ended", "", b"same", "there was a checkpoint, but training began anew"),
        ([1], "\nrank 1 was ended", "Restored from", b"other", "the model differs"),
    ],
)
def test_what_is_a_failure(module, tmp_path, monkeypatch, codes, log, again, model, message):
    """The tool's own guard: runs that are not as they must be."""
    trial = module.Trial("sockets", "full", "kill", 2, False)
    folder = tmp_path / "run"

    def start(place, trial, fault, name):
        (place / name).write_text(log if name == "log.txt" else again)
        (place / "injected").write_text("1.0")
        (place / "net.dnn.1.ckp").touch()
        (place / "net.dnn").write_bytes(model)
        return [name]

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(module, "finish", lambda names, *_: (codes if names == ["log.txt"] else [0], 0.5))
    reference = module.Reference(b"same", {0: ["0 1 2"], 1: ["1 1 2"]})
    chosen = random.Random(1)
    monkeypatch.setattr(chosen, "randrange", lambda count: 1)

    def disturb():
        return module.disturb(folder, trial, reference, chosen, 1.0, 1.0)

    if message:
        with pytest.raises(module.FaultError, match=message):
            disturb()
    else:
        assert disturb() == module.Outcome(0.5, "the end of an epoch")


def test_processes_that_do_not_end(module, tmp_path):
    """Another guard: what runs on is ended, and it is a failure."""
    log = tmp_path / "log.txt"
    child = module._fork(tmp_path, str(log), "none", lambda: __import__("time").sleep(60) or 0, {})
    with pytest.raises(module.FaultError, match="1 processes have not ended in time"):
        module.finish([child], tmp_path, 0.0, 0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
