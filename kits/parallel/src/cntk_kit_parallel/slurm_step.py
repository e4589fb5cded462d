"""What ``srun`` tells each task of a step of Slurm: which rank it is, and where rank 0 can be found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_LOOPBACK = "127.0.0.1"


class SlurmStep(NamedTuple):
    """A task of ``srun`` among the others.

    Attributes:
        rank, size: this task, from 0, and how many there are.
        address: of the machine with task 0.
        port: the same for all tasks of the step; other steps of the job have another one.
    """

    rank: int
    size: int
    address: str
    port: int


def slurm_step(environment: Mapping[str, str]) -> SlurmStep | None:
    """Return what Slurm says; None for a process that is no task of several.

    The script of a job has ``SLURM_PROCID``, too, but not the number of tasks of a step.
    """
    size = _count(environment, "SLURM_STEP_NUM_TASKS")
    if size < 2:
        return None
    job, step = _count(environment, "SLURM_JOB_ID"), _count(environment, "SLURM_STEP_ID")
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST") or _LOOPBACK
    here = _count(environment, "SLURM_STEP_NUM_NODES") == 1
    address = environment.get("MASTER_ADDR") or (_LOOPBACK if here else first_node(nodes))
    return SlurmStep(_count(environment, "SLURM_PROCID"), size, address, 20000 + (job * 16 + step) % 20000)


def first_node(nodes: str) -> str:
    """Return the first name of Slurm's list of nodes: ``gpu03`` of ``gpu[03-07,9],login``."""
    found = re.match(r"([^,\[]*)(?:\[([^\],-]+)[^\]]*\]([^,\[]*))?", nodes)
    return "".join(part or "" for part in found.groups()) if found is not None else nodes


def _count(environment: Mapping[str, str], name: str) -> int:
    """Return a number that Slurm sets; 0 if there is none."""
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0
