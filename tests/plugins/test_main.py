"""`python -m cntk_core` is the command that a wheel brings."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from cntk_core import __main__ as module


def scripts(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    found = [EntryPoint("cntk", value, "console_scripts") for value in values]
    monkeypatch.setattr(module, "entry_points", lambda **_: found)


def done() -> int:
    return 3


def nothing() -> None:
    """A command that has nothing to say."""


def test_the_command_is_that_of_a_wheel_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cntk_some_kit", sys.modules[__name__])
    monkeypatch.setitem(sys.modules, "other", sys.modules[__name__])
    scripts(monkeypatch, "other:nothing", "cntk_some_kit:done")
    assert module.main() == 3
    scripts(monkeypatch, "cntk_some_kit:nothing")
    assert module.main() == 0


@pytest.mark.parametrize("values", [(), ("other:done",)])
def test_without_it_the_message_says_what_to_install(
    values: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts(monkeypatch, *values)
    assert module.main() == 1
    assert capsys.readouterr().err == (
        "error: the command is not installed: pip install cntk-toolkit, or cntk-kit-recipes alone\n"
    )
