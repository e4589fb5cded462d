"""The table of functions in the documentation is that of the builder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
TOOL = ROOT / "tools" / "ndl_page.py"


@pytest.mark.skipif(not TOOL.is_file(), reason="the tests are not in the repository")
def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("ndl_page", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    current = tool.PAGE.read_text(encoding="utf-8")
    assert current == tool.page(current), "docs/ndl.md is out of date: run python tools/ndl_page.py"
