"""``cntk doctor --json``."""

from __future__ import annotations

import json

import pytest

from cntk_kit_recipes.authoring import doctor as rooms
from cntk_kit_recipes.authoring.doctor import Finding
from cntk_kit_recipes.cli import main

CPU = Finding("ok", "engine cpu", "cntk-engine-cpu 0.1.0")
NONE = Finding("broken", "no engine is installed", mend="pip install it")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at but engines."""
    for name in ("machine", "numbers", "extras"):
        monkeypatch.setattr(rooms, name, lambda: iter(()))
    for name in ("compiled_code", "ranks", "gpu"):
        monkeypatch.setattr(rooms, name, lambda manager: iter(()))


@pytest.mark.parametrize(("engine", "code"), [(CPU, 0), (NONE, 1)])
def test_all_that_is_said(
    engine: Finding, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rooms, "components", lambda manager, word: iter([engine] if word == "engine" else []))
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out) == {
        "schema": 1,
        "usable": code == 0,
        "findings": [
            {
                "section": "engines",
                "state": engine.state,
                "name": engine.name,
                "detail": engine.detail,
                "mend": engine.mend,
            }
        ],
    }
