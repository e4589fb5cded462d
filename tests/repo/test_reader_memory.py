"""Memory of the readers stays bounded by their window, on a corpus ten times its size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

WINDOW = 32
HTK_CHUNK = 23
"""Megabytes of a quarter of an hour of frames, the chunk of an HTK reader whatever the window."""


@pytest.fixture(scope="module")
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("reader_memory")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("form", "limit"),
    [
        ("binary", 3 * WINDOW),  # all of them have the window of the readers' kit
        pytest.param("text", 4 * WINDOW, marks=pytest.mark.thorough),
        pytest.param("htk", WINDOW + 6 * HTK_CHUNK, marks=pytest.mark.thorough),
    ],
)
def test_ten_windows(tool: ModuleType, tmp_path: Path, form: str, limit: int) -> None:
    found = tool.measure(form, WINDOW * tool.MB, 10, tmp_path)
    assert found.corpus > 9.9 * WINDOW * tool.MB
    assert found.samples == found.corpus // 4 // tool.DIM
    assert found.peak - found.before < limit * tool.MB
