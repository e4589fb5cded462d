"""Makes the helpers of these tests importable, and takes away what a launcher of the tests has said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in LOCAL_RANKS:
        monkeypatch.delenv(name, raising=False)
