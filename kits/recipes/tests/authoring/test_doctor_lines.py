"""What ``cntk doctor`` prints for a finding, and what it finds of this machine."""

from __future__ import annotations

import pytest

from cntk_kit_recipes.authoring.doctor import _THREAD_VARIABLES, Finding, _lines, machine


@pytest.mark.parametrize(
    ("mend", "more"),
    [("", []), ("Do this.", ["      Do this."]), ("Do this,\nor that.", ["      Do this,", "      or that."])],
)
def test_what_mends_a_finding_stands_below_it(mend: str, more: list[str]) -> None:
    first, *others = _lines(Finding("ok", "memory", "8 GiB", mend))
    assert first.split() == ["ok", "memory", "8", "GiB"]
    assert others == more


def test_limits_on_threads_are_told_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "limits on threads" not in [one.name for one in machine()]
    monkeypatch.setenv(_THREAD_VARIABLES[1], "3")
    (found,) = [one for one in machine() if one.name == "limits on threads"]
    assert found.detail == f"{_THREAD_VARIABLES[1]}=3"
