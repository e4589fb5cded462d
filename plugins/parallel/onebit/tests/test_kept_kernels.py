"""Compiled kernels on disk: none is believed that is damaged, and a full disk ends nothing."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cntk_parallel_onebit import OneBit
from cntk_parallel_onebit import format as layout

from cntk_core.api.engines import kernel_cache
from cntk_testing.kept_kernels import DAMAGES, check_damage, check_full_disk

pytestmark = pytest.mark.skipif(find_spec("numba") is None, reason="needs numba")


@pytest.fixture
def compiled():
    """The module that needs numba, which takes long to import."""
    return import_module("cntk_parallel_onebit.compiled")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def unquantize(kernel):
    words, gradients = np.zeros(3, np.uint32), np.empty(4, np.float32)
    words[2] = 0b0110
    words[:2].view(np.float32)[:] = [-2, 2]
    kernel(words, words.view(np.float32), gradients, np.array([[0, 0, 0, 4, 1]]), 1, False)
    assert gradients.tolist() == [-1, 1, 1, -1]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("empty", "one bit of the code") else pytest.mark.thorough)
        for name in DAMAGES
    ],
)
def test_a_damaged_kernel_is_compiled_anew(compiled, kept, caplog, name):
    check_damage(compiled.unquantize, unquantize, name, kept, caplog)


def test_a_full_disk_ends_nothing(compiled, kept, caplog, monkeypatch):
    check_full_disk(compiled.unquantize, unquantize, kept, caplog, monkeypatch)


def test_all_kernels_are_kept_like_that(compiled):
    public = [compiled.quantize, compiled.unquantize]
    assert {type(kernel._cache).__name__ for kernel in public} == {"VerifiedKernels"}
    tree = ast.parse(Path(compiled.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in modules if name.startswith("cntk_parallel")} == {"cntk_parallel_onebit", layout.__name__}
    assert {kernel._cache._sources for kernel in public} == {(compiled.__file__, layout.__file__)}


def test_where_they_lie(kept, monkeypatch):
    assert [cache.state().folder for cache in OneBit.caches()] == [kept]
    assert list(OneBit.caches()) == [kernel_cache()]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(OneBit.caches()) == []
