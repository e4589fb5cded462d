"""Tasks of ``srun`` that find each other without MPI, by the variables that Slurm sets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cntk_core.api.recipes import detect
from cntk_testing.ports import free_port

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_tasks_of_srun_without_mpi(tmp_path):
    """A recipe that names no communicator, where that of MPI is not installed."""
    blocks = re.findall(r"```(?:cntk|text)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    samples, recipe = blocks[-2:]
    (tmp_path / "samples.txt").write_text(samples, encoding="utf-8")
    (tmp_path / "r.cntk").write_text(recipe.replace("communicator = sockets\n", ""), encoding="utf-8")
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    common = {**os.environ, **step, "CNTK_PLUGINS": "-cntk-parallel-mpi", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "cntk_core", "train", "r.cntk", "stderr=log"]
    pipe = subprocess.PIPE
    tasks = [
        subprocess.Popen(command, env={**common, "SLURM_PROCID": str(task)}, cwd=tmp_path, stderr=pipe, text=True)
        for task in range(2)
    ]
    said = [task.communicate(timeout=120)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    assert {"log", "log.rank1"} <= {path.name for path in tmp_path.iterdir()}, "they train together"
    assert (tmp_path / "model/net.dnn").is_file()


def test_who_connects_them():
    found = detect({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"})
    assert (found.communicator, found.otherwise) == ("mpi", ("sockets",))
