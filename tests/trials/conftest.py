"""The modules of `tools/trials`, which are no package: they are imported from their folder, and forgotten again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "trials"


@pytest.fixture
def trial(monkeypatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of the tool by its name."""
    monkeypatch.syspath_prepend(str(TOOL))
    own = {path.stem for path in TOOL.glob("[a-z]*.py")}
    for name in own & set(sys.modules):
        monkeypatch.delitem(sys.modules, name)

    def find(name: str) -> ModuleType:
        found = importlib.import_module(name)
        for one in own & set(sys.modules):
            monkeypatch.setitem(sys.modules, one, sys.modules[one])
        return found

    yield find
    for name in own:
        sys.modules.pop(name, None)
