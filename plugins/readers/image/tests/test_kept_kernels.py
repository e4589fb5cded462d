"""Compiled loops on disk: all are kept, verified, and there are none without a compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_image import ImageReader, kernels

from cntk_core.api.engines import byte_loop, kernel_cache
from cntk_testing.kept_kernels import DAMAGES, entry


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def check_taps() -> None:
    """Have the loop as another process has it, and call it."""
    byte_loop.cache_clear()
    places, weights = np.empty((2, 2), np.int32), np.empty((2, 2), np.int32)
    kernels.linear_taps(2, places, weights)
    assert places.tolist() == [[0, 1], [1, 1]]


@pytest.mark.thinned(3)  # the engine's kernels are damaged in all of these ways
@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_loop_is_compiled_anew(kept: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    damage, said = DAMAGES[name]
    check_taps()
    path = entry(kept)
    sound = path.read_bytes()
    damage(path)
    check_taps()
    assert path.read_bytes() == sound
    (line,) = caplog.messages
    assert line.startswith(f"compiled code in '{path}' {said}")
    assert line.endswith("; it is thrown away and compiled anew")
    check_taps()
    assert caplog.messages == [line]


def test_where_they_lie(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [cache.state().folder for cache in ImageReader.caches()] == [kept]
    assert list(ImageReader.caches()) == [kernel_cache()]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(ImageReader.caches()) == []
