"""Makes the helpers of these tests importable, and compiles the kernels before any test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def _kernels_are_ready() -> None:
    """The deadlines of ranks do not count the compiler."""
    from cntk_parallel_onebit.kernels import prepare

    prepare("float32")
    prepare("float64")
