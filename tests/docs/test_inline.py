"""Commands within sentences: their verbs and options exist."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main
from cntk_kit_recipes.cli.words import installed
from tests.docs.conftest import ROOT
from tests.docs.test_pages import PAGES

_COMMAND = re.compile(r"`cntk ([a-z][a-z-]*)((?: [^`]*)?)`")
_OPTION = re.compile(r"(?<= )--?[a-z][\w-]*")


def commands(path: Path) -> Iterator[tuple[int, str, str]]:
    """The commands in the sentences of a page: line, verb, and what follows."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            yield from ((number, found[1], found[2]) for found in _COMMAND.finditer(line))


@functools.cache
def help_of(capture: object, *words: str) -> str:
    """What ``cntk WORDS --help`` prints; nothing if there is no such command."""
    assert isinstance(capture, pytest.CaptureFixture)
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    printed = capture.readouterr().out
    return printed if end.value.code == 0 else ""


@pytest.mark.slow
def test_verbs_and_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    seen = 0
    for name in PAGES:
        for number, verb, rest in commands(ROOT / name):
            seen += 1
            if verb not in installed():
                wrong.append(f"{name}:{number}: there is no verb '{verb}'")
                continue
            known = help_of(capsys, verb)
            part = re.match(r" ([a-z][a-z-]*)(?=[ |\]]|$)", rest)
            if part and re.search(rf"[{{,]{part[1]}[,}}]|^    {part[1]}\b", known, re.MULTILINE):
                known += help_of(capsys, verb, part[1])
            options = [option for option in _OPTION.findall(rest) if not re.search(rf"{option}\b", known)]
            wrong += [f"{name}:{number}: cntk {verb} has no option '{option}'" for option in options]
    assert wrong == []
    assert seen > 50
