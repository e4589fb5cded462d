"""Transcripts: data, what ``cntk init`` says of them, and the files that it writes, in one text.

A transcript begins with files, each after a line ``== NAME``, and binary ones that functions of `binary_data.py` make,
``== made by NAME``. Then comes a command after ``$ ``, its answers to questions after ``> ``, and what it prints. All
files that it has written follow, but for the check, which is always the same. Everything behind the command is found by

    python plugins/tools/init/tests/transcripts.py

which writes all transcripts anew. Then look at what has changed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from pathlib import Path
from unittest import mock

import attrs
import binary_data

from cntk_kit_recipes.cli import main

FOLDER = Path(__file__).with_name("transcripts")
HEAD = re.compile(r"^== (.*)\n", re.MULTILINE)


@attrs.frozen
class Begun:
    """What a transcript begins with."""

    text: str
    files: dict[str, str]
    makers: list[str]
    command: str
    answers: list[str]


def begun(text: str) -> Begun:
    """Read the first part of a transcript."""
    before, command, after = re.split(r"^(\$ .*\n)", text, maxsplit=1, flags=re.MULTILINE)
    _, *parts = HEAD.split(before)
    named = dict(zip(parts[::2], parts[1::2], strict=True))
    makers = [name.removeprefix("made by ") for name in named if name.startswith("made by ")]
    files = {name: content for name, content in named.items() if not name.startswith("made by ")}
    answers = re.match(r"(> .*\n)*", after)
    said = answers[0] if answers else ""
    return Begun(before + command + said, files, makers, command[2:], [line[2:] for line in said.splitlines()])


def transcript(text: str) -> str:
    """Run the command of a transcript in the current folder; return the whole of it, as it is now."""
    first = begun(text)
    for name, content in first.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    for maker in first.makers:
        getattr(binary_data, maker)()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    printed = _printed(first)
    written = [
        path
        for path in sorted(Path().rglob("*"))
        if path.is_file() and path.name != "check.py" and path.read_bytes() != before.get(path)
    ]
    shown = [f"== {path.as_posix()}\n{path.read_text(encoding='utf-8')}" for path in written]
    return first.text + printed + "".join(shown)


def _printed(first: Begun) -> str:
    answers = iter(first.answers)

    def answered(question: str) -> str:
        print(question, end="")
        answer = next(answers)
        print(answer)
        return answer

    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(out),
        mock.patch("cntk_tool_init.init.can_ask", return_value=bool(first.answers)),
        mock.patch("builtins.input", answered),
    ):
        status = main(shlex.split(first.command)[1:])
    return out.getvalue() + (f"[status {status}]\n" if status else "")


def write_anew() -> None:
    """Write all transcripts as they are now."""
    for path in sorted(FOLDER.glob("*.txt")):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            text = path.read_text(encoding="utf-8")
            path.write_text(transcript(text), encoding="utf-8")
            os.chdir(FOLDER)


if __name__ == "__main__":
    write_anew()
