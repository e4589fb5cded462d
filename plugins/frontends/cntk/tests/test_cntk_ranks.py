"""Two ranks that train together, beside two of the original 2.7 with an MPI: data/ranks.json, of rank_cases.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_testing.ports import free_port

HERE = Path(__file__).parent
RECORDED: list[dict[str, Any]] = json.loads((HERE / "data" / "ranks.json").read_text())

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what each rank has, two processes that find each other by the environment."""
    file = tmp_path_factory.mktemp("ranks") / "found"
    port = str(free_port())
    processes = []
    for rank in ("0", "1"):
        given = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-W", "ignore", str(HERE / "rank_cases.py"), str(file)]
        processes.append(subprocess.Popen(command, env={**os.environ, **given}))
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    return [json.loads(Path(f"{file}.{rank}").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("case", sorted(RECORDED[0]))
def test_ranks_train_as_the_original_s(case: str, found: list[dict[str, Any]]) -> None:
    for rank in (0, 1):
        ours, theirs = found[rank][case], RECORDED[rank][case]
        np.testing.assert_allclose(ours["steps"], theirs["steps"], rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(ours["weights"], theirs["weights"], rtol=2e-6, atol=1e-6)


def test_every_case_is_recorded(found: list[dict[str, Any]]) -> None:
    assert [each.keys() for each in found] == [each.keys() for each in RECORDED]
