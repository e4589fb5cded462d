"""Folders of copies of a test's own, and the small recipe with its files elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from cntk_testing.inside import forget_addresses
from cntk_testing.small_recipe import DATA, RECIPE, recipe

__all__ = ["recipe"]


@pytest.fixture
def forget() -> Callable[[], None]:
    """Call it to be like a new process."""
    return forget_addresses


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of copies, with nothing in it; no process before has asked for anything."""
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    forget_addresses()
    yield tmp_path / "cache/addresses"
    forget_addresses()
    memory.store.clear()


@pytest.fixture
def elsewhere(recipe: Path) -> str:
    """The small recipe, whose data and models lie in a memory; returns its address."""
    memory = fsspec.filesystem("memory")
    text = RECIPE.replace('"train.ctf"', '"memory://data/train.ctf"').replace('"run/', '"memory://models/')
    memory.pipe("/recipes/r.cntk", text.encode())
    memory.pipe("/data/train.ctf", DATA.encode())
    recipe.unlink()
    (recipe.parent / "train.ctf").unlink()
    return "memory://recipes/r.cntk"
