"""Ranks that are tasks of a step of Slurm."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys

from cntk_core.api import UnsupportedError
from cntk_core.api.parallel import Launcher, RankLauncher

TIME_IS_UP = 128 + getattr(signal, "SIGUSR1", 10)
"""Exit code of a training that was saved because Slurm has said that its time is up (``--signal=USR1@120``)."""

AGAIN = "CNTK_SLURM_REQUEUE"
"""Variable: 0 lets the job end when its time is up."""


class SlurmLauncher(RankLauncher):
    """A step of the job in which the command runs; outside of a job ``srun`` asks for one."""

    requires_api = "1.0"
    communicator = "sockets"

    def launcher(self, ranks: int, *, elastic: bool = False) -> Launcher:
        """``srun`` with so many tasks. All end when one fails, unless losses are tolerated."""
        srun = shutil.which("srun")
        if srun is None:
            raise UnsupportedError(
                "there is no srun here: this is no machine of a Slurm cluster",
                hint="Give the command in a script to sbatch, or leave --on slurm away to train on this machine.",
            )
        losses = ("--no-kill", "--kill-on-bad-exit=0", "--wait=0") if elastic else ("--kill-on-bad-exit=1",)
        command = (srun, f"--ntasks={ranks}", *losses)
        return Launcher(command, {"CNTK_SECRET": os.environ.get("CNTK_SECRET") or secrets.token_hex(16)}, "srun")

    def ended(self, code: int) -> None:
        """Put the job back where the time was up: its script goes on from what was saved."""
        job = os.environ.get("SLURM_JOB_ID")
        if code != TIME_IS_UP or not job or os.environ.get(AGAIN) == "0":
            return
        _tell(f"the time of job {job} is up: it is put back, and goes on from what was saved")
        try:
            done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, check=False)
        except OSError as error:
            _tell(f"Warning: scontrol cannot be run: {error.strerror}; submit the script again")
            return
        if done.returncode:
            _tell(f"Warning: scontrol has refused: {done.stderr.strip()}; submit the script again")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
