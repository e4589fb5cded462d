"""The reference page says what the op table says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from cntk_core.ops.table import core_ops, families

ROOT = Path(__file__).parents[2]


def load_tool():
    spec = importlib.util.spec_from_file_location("ops_page", ROOT / "tools" / "ops_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    tool = load_tool()
    current = tool.PAGE.read_text(encoding="utf-8")
    assert current == tool.page(current), "docs/ops.md is out of date: run python tools/ops_page.py"


def test_every_family_is_in_the_table():
    assert [op for family in families() for op in family.OPS] == list(core_ops())
    assert set(load_tool().TITLES) == {family.__name__.rpartition(".")[2] for family in families()}
