"""Compiled kernels on disk: where they lie, verified, and none without a compiler."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_onebit import OneBit, compiled, kernels, portable

from cntk_core.api.engines import byte_loop, kernel_cache
from cntk_testing.kept_kernels import DAMAGES, entry


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def check_unquantize():
    """Have the kernel as another process has it, and call it."""
    byte_loop.cache_clear()
    words, gradients = np.zeros(3, np.uint32), np.empty(4, np.float32)
    words[2] = 0b0110
    words[:2].view(np.float32)[:] = [-2, 2]
    compiled.unquantize(words, words.view(np.float32), gradients, np.array([[0, 0, 0, 4, 1]]), 1, False)
    assert gradients.tolist() == [-1, 1, 1, -1]


@pytest.mark.thinned(3)  # the engine's kernels are damaged in all of these ways
@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_kernel_is_compiled_anew(kept, caplog, name):
    damage, said = DAMAGES[name]
    check_unquantize()
    path = entry(kept)
    sound = path.read_bytes()
    damage(path)
    check_unquantize()
    assert path.read_bytes() == sound
    (line,) = caplog.messages
    assert line.startswith(f"compiled code in '{path}' {said}")
    assert line.endswith("; it is thrown away and compiled anew")


def test_where_they_lie(kept, monkeypatch):
    assert [cache.state().folder for cache in OneBit.caches()] == [kept]
    assert list(OneBit.caches()) == [kernel_cache()]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(OneBit.caches()) == []


def test_without_a_compiler(monkeypatch):
    assert kernels.kernels() is compiled
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    kernels.kernels.cache_clear()
    try:
        assert kernels.kernels() is portable
    finally:
        kernels.kernels.cache_clear()
