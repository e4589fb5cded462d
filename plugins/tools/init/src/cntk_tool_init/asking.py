"""Questions on a terminal, with an answer that Enter gives."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cntk_core.api import UsageError


def can_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str, default: str = "") -> str:
    """Ask for a text.

    Raises:
        UsageError: the input has ended.
    """
    shown = f"{question} [{default}]: " if default else f"{question}: "
    try:
        return input(shown).strip() or default
    except EOFError:
        raise UsageError("the input has ended", hint="Say everything on the command line: cntk init --help") from None


def choose(question: str, choices: Sequence[str], explained: Sequence[str] = ()) -> str:
    """Ask for one of several, by number or by name; the first is what Enter gives."""
    print(question)
    for number, choice in enumerate(choices, 1):
        print(f"  {number}  {choice:{max(map(len, choices))}}  {explained[number - 1] if explained else ''}".rstrip())
    while True:
        said = ask("which", "1")
        if said in choices:
            return said
        if said.isdigit() and 1 <= int(said) <= len(choices):
            return choices[int(said) - 1]
        print(f"'{said}' is none of them")
