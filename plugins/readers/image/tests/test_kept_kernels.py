"""Compiled loops on disk: none is believed that is damaged, and a full disk ends nothing."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_image import ImageReader, geometry, resample

from cntk_core.api.engines import kernel_cache
from cntk_testing.kept_kernels import DAMAGES, check_damage, check_full_disk


@pytest.fixture
def kernels() -> Any:
    """The module that needs numba, which takes long to import."""
    return import_module("cntk_reader_image.kernels")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def taps(kernel: Any) -> None:
    places, weights = np.empty((2, 2), np.int32), np.empty((2, 2), np.int32)
    kernel(2, places, weights)
    assert places.tolist() == [[0, 1], [1, 1]]


@pytest.mark.thinned(3)  # the engine's kernels are damaged in all of these ways
@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_loop_is_compiled_anew(kernels: Any, kept: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    check_damage(kernels.linear_taps, taps, name, kept, caplog)


def test_a_full_disk_ends_nothing(
    kernels: Any, kept: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_full_disk(kernels.linear_taps, taps, kept, caplog, monkeypatch)


def test_all_loops_are_kept_like_that(kernels: Any) -> None:
    public = {name: loop for name, loop in vars(kernels).items() if hasattr(loop, "py_func") and name[0] != "_"}
    assert len(public) == 7
    assert {type(loop._cache).__name__ for loop in public.values()} == {"VerifiedKernels"}
    tree = ast.parse(Path(kernels.__file__).read_text(encoding="utf-8"))
    ours = {
        node.module if node.module != "cntk_reader_image" else f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cntk_reader_image")
        for alias in node.names
    }
    assert ours == {geometry.__name__, resample.__name__}
    assert {loop._cache._sources for loop in public.values()} == {
        (kernels.__file__, geometry.__file__, resample.__file__)
    }


def test_where_they_lie(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [cache.state().folder for cache in ImageReader.caches()] == [kept]
    assert list(ImageReader.caches()) == [kernel_cache()]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(ImageReader.caches()) == []
