"""The table of operations is that of the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def test_the_page_is_of_today() -> None:
    spec = importlib.util.spec_from_file_location("cntk2_page", ROOT / "tools" / "cntk2_page.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    current = tool.PAGE.read_text(encoding="utf-8")
    assert current == tool.page(current), "docs/cntk2-models.md is out of date: run python tools/cntk2_page.py"
