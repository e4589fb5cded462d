"""The table of operations, engines and formats is that of today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.mark.thorough
def test_the_table_is_up_to_date(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("models_page", root / "tools" / "models_page.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    current = tool.PAGE.read_text(encoding="utf-8")
    assert current == tool.page(current), "docs/model-operations.md is out of date: run python tools/models_page.py"
