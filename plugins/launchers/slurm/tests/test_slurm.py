"""The launcher of Slurm: with programs that do what ``srun`` and ``scontrol`` do, in processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from cntk_launcher_slurm import SlurmLauncher

from cntk_core.api import UnsupportedError
from cntk_testing import LauncherContract, PackagingContract
from cntk_testing.launcher_contract import write_recipe
from cntk_testing.ports import free_port

SRUN = f"""#!{sys.executable}
import os, subprocess, sys
from pathlib import Path
words = sys.argv[1:]
ranks = int(words[0].removeprefix("--ntasks="))
command = words[next(place for place, word in enumerate(words) if not word.startswith("--")):]
step = {{"SLURM_STEP_NUM_TASKS": str(ranks), "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_ID": "0"}}
tasks = [subprocess.Popen(command, env={{**os.environ, **step, "SLURM_PROCID": str(n)}}) for n in range(ranks)]
Path("options").write_text(" ".join(words[: len(words) - len(command)]))
Path("tasks").write_text(" ".join(str(task.pid) for task in tasks))
codes = [task.wait() for task in tasks]
sys.exit(max(code if code >= 0 else 128 - code for code in codes))
"""
"""Starts tasks as a step of one node has them, and leaves which options it got and which processes these are."""

SCONTROL = """#!/bin/sh
echo "$@" >> requeued
[ -z "$REFUSE" ] || { echo "slurm_requeue error: $REFUSE" >&2; exit 1; }
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A folder with a recipe, in a job of Slurm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        program = tmp_path / "bin" / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    write_recipe(tmp_path)
    return tmp_path


def start(*words):
    command = [sys.executable, "-m", "cntk_core", "train", "recipe.cntk", "-n", "2", "--on", "slurm", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class TestSlurm(LauncherContract):
    launcher_class = SlurmLauncher

    @pytest.fixture
    def place(self, cluster):
        return cluster


@pytest.mark.slow
@pytest.mark.parametrize("to_tasks", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_job_whose_time_is_up_is_put_back_and_goes_on(cluster, to_tasks):
    """Slurm signals the tasks, or with ``--signal=B:USR1`` the command."""
    run = start("Train=[SGD=[maxEpochs=100000]]")
    end = time.monotonic() + 120
    while not (cluster / "model/net.dnn.2").exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    told = map(int, (cluster / "tasks").read_text(encoding="utf-8").split()) if to_tasks else [run.pid]
    for process in told:
        os.kill(process, signal.SIGUSR1)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 138, said
    assert (cluster / "requeued").read_text(encoding="utf-8") == "requeue 4711\n"
    assert said.endswith("the time of job 4711 is up: it is put back, and goes on from what was saved\n")
    log = (cluster / "log").read_text(encoding="utf-8")
    again = start("Train=[SGD=[maxEpochs=1]]")
    said_then = again.communicate(timeout=120)
    assert again.returncode == 0, said_then
    assert (cluster / "model/net.dnn").is_file()
    assert "told to end (SIGUSR1)" in log + said


def test_only_a_job_whose_time_is_up_is_put_back(cluster, monkeypatch):
    for code in (0, 1, 129, 143):
        SlurmLauncher().ended(code)
    monkeypatch.setenv("CNTK_SLURM_REQUEUE", "0")
    SlurmLauncher().ended(138)
    monkeypatch.delenv("CNTK_SLURM_REQUEUE")
    monkeypatch.delenv("SLURM_JOB_ID")
    SlurmLauncher().ended(138)
    assert not (cluster / "requeued").exists()


def test_a_job_that_cannot_be_put_back(cluster, monkeypatch, capsys):
    monkeypatch.setenv("REFUSE", "Access denied")
    SlurmLauncher().ended(138)
    warning = "Warning: scontrol has refused: slurm_requeue error: Access denied; submit the script again\n"
    assert capsys.readouterr().err.endswith(warning)
    (cluster / "bin/scontrol").unlink()
    monkeypatch.setenv("PATH", str(cluster / "bin"))
    SlurmLauncher().ended(138)
    warning = "Warning: scontrol cannot be run: No such file or directory; submit the script again\n"
    assert capsys.readouterr().err.endswith(warning)


def test_the_options_of_srun(cluster):
    program = str(cluster / "bin/srun")
    assert SlurmLauncher().launcher(3).command == (program, "--ntasks=3", "--kill-on-bad-exit=1")
    going_on = SlurmLauncher().launcher(3, elastic=True).command
    assert going_on == (program, "--ntasks=3", "--no-kill", "--kill-on-bad-exit=0", "--wait=0")


def test_the_secret_of_the_job_is_kept(cluster, monkeypatch):
    monkeypatch.setenv("CNTK_SECRET", "of the batch script")
    assert SlurmLauncher().launcher(2).environment == {"CNTK_SECRET": "of the batch script"}


def test_no_cluster(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError) as caught:
        SlurmLauncher().launcher(2)
    assert str(caught.value) == (
        "there is no srun here: this is no machine of a Slurm cluster\n"
        "    Give the command in a script to sbatch, or leave --on slurm away to train on this machine."
    )


class TestPackaging(PackagingContract):
    distribution = "cntk-launcher-slurm"
    kind = "launcher"
