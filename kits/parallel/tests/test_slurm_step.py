"""What ``srun`` tells a task: the ranks of a step meet without anything else that says where."""

from __future__ import annotations

import pytest

from cntk_kit_parallel.rendezvous import Rendezvous
from cntk_kit_parallel.slurm_step import first_node, slurm_step

STEP = {
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_JOB_ID": "123456",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NODELIST": "gpu[03-07,9],login",
}


def test_a_task_among_others():
    found = Rendezvous.of(STEP)
    assert (found.rank, found.size, found.address) == (5, 16, "gpu03")
    assert found.port == 20000 + (123456 * 16 + 2) % 20000
    assert Rendezvous.of({**STEP, "SLURM_STEP_ID": "3"}).port == found.port + 1, "steps may run at the same time"
    assert found.secret == b"", "the number of a job is no secret"
    assert Rendezvous.of({**STEP, "CNTK_SECRET": "a"}).secret == b"a"


def test_what_is_said_besides_comes_first():
    there = Rendezvous.of({**STEP, "MASTER_ADDR": "head", "MASTER_PORT": "7"})
    assert (there.rank, there.address, there.port) == (5, "head", 7)
    inside = Rendezvous.of({**STEP, "RANK": "1", "WORLD_SIZE": "2"})
    assert (inside.rank, inside.size) == (1, 2), "torchrun under Slurm"


def test_all_on_one_machine():
    assert Rendezvous.of({**STEP, "SLURM_STEP_NUM_NODES": "1"}).address == "127.0.0.1"
    assert Rendezvous.of({**STEP, "SLURM_STEP_NUM_NODES": "2"}).address == "gpu03"


@pytest.mark.parametrize("tasks", [None, "", "1", "many", "-2", "٣"])
def test_no_task_of_several(tasks):
    """As the script of a job, which has the number of a task and not how many there are in a step."""
    given = {name: text for name, text in STEP.items() if name != "SLURM_STEP_NUM_TASKS"}
    assert (
        slurm_step({**given, "SLURM_NTASKS": "8", **({} if tasks is None else {"SLURM_STEP_NUM_TASKS": tasks})}) is None
    )


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu[03-07,9],login", "gpu03"),
        ("gpu7", "gpu7"),
        ("a,b", "a"),
        ("rack[1,2]-gpu,c", "rack1-gpu"),
        ("10.0.0.1", "10.0.0.1"),
        ("n[12]", "n12"),
    ],
)
def test_lists_of_nodes(nodes, first):
    assert first_node(nodes) == first


def test_the_list_of_the_job_where_the_step_has_none():
    given = {name: text for name, text in STEP.items() if name != "SLURM_STEP_NODELIST"}
    assert Rendezvous.of({**given, "SLURM_JOB_NODELIST": "n[4-5]"}).address == "n4"
    assert Rendezvous.of(given).address == "127.0.0.1"
