"""Pages that tools write are those of today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def page_of(root: Path, name: str) -> tuple[str, str]:
    """Return a page as it is, and as its tool writes it."""
    spec = importlib.util.spec_from_file_location(name, root / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    current = tool.PAGE.read_text(encoding="utf-8")
    return current, tool.page(current)


@pytest.mark.thorough
def test_the_table_of_operations_is_up_to_date(root: Path) -> None:
    current, written = page_of(root, "models_page")
    assert current == written, "docs/model-operations.md is out of date: run python tools/models_page.py"


def test_the_names_of_cntk_are_up_to_date(root: Path) -> None:
    current, written = page_of(root, "cntk_names_page")
    assert current == written, "docs/cntk-python-names.md is out of date: run python tools/cntk_names_page.py"


def test_the_drawings_are_up_to_date(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("drawings", root / "tools/drawings.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    files = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs/drawings").glob("*.svg")}
    assert files == {name: draw() for name, draw in tool.DRAWINGS.items()}, "run python tools/drawings.py"
