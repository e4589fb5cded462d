"""Commands in specifiers, ``ark:ali-to-pdf ... |``: run only where a recipe says ``allowCommands=true``.

What a command writes is kept in a temporary file, since readers come back to their data: each reader runs it once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from cntk_core.api import DataError, Location, UnsupportedError, ask_to_run

Tell = Callable[[str], None]
ALLOW = "allowCommands=true in the reader's block runs it for each reader; `cntk kaldi-prepare RECIPE` once for all."
"""How a command of a recipe can be run."""

_SHOWN = 60
_LINES = 5
_TOLD = 40
_CUT_OFF = 141
"""Status of a program that wrote when the next one of a pipe had read enough."""


def is_command(path: str) -> bool:
    """Tell whether what a specifier names is a command to read from or to write to."""
    return path.endswith("|") or path.startswith("|")


def shown(command: str) -> str:
    """Return a command for a message: its first characters."""
    return command if len(command) <= _SHOWN else command[:_SHOWN] + "..."


def shell(command: str) -> list[str]:
    """Return the words that run a command of a recipe, so that no program of a pipe fails unnoticed if that can be."""
    bash = shutil.which("bash")
    return [bash, "-o", "pipefail", "-c", command] if bash else ["/bin/sh", "-c", command]


def run_command(command: str, target: BinaryIO, where: Location, tell: Tell, *, key: str = "") -> None:
    """Run a command, and write what it gives to a file.

    Args:
        command: of a specifier, with the ``|`` at its end.
        target: an open file.
        where: the command's place in the recipe or list.
        tell: is told what the command says on its standard error stream.
        key: of the recipe, which names it.

    Raises:
        RefusedError: ``--safe``.
        DataError: it cannot be run, or fails.
    """
    ask_to_run(command, key=key, where=where)
    words = shell(command.strip().removesuffix("|").strip())
    with tempfile.TemporaryFile() as said:
        try:
            target.flush()
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=target, stderr=said, check=False)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DataError(f"the command '{shown(command)}' cannot be run: {reason}", where=where) from None
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").splitlines()
    if done.returncode not in (0, _CUT_OFF):
        text = f"the command '{shown(command)}' failed with status {done.returncode}"
        raise DataError(text, where=where, hint="\n".join(lines[-_LINES:]) or "It says nothing.")
    for line in lines[:_TOLD]:
        tell(line)
    if len(lines) > _TOLD:
        tell(f"... and {len(lines) - _TOLD} more lines of '{shown(command)}'")


class Spool:
    """Runs commands and keeps what they give until it is closed.

    Args:
        allowed: whether commands may be run.
        tell: is told what they say.
    """

    def __init__(self, allowed: bool, tell: Tell) -> None:
        self.allowed = allowed
        self._tell = tell
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._made = 0

    def check(self, command: str, where: Location, message: str) -> None:
        """Make sure that a command may be run.

        Raises:
            UnsupportedError: with this message; the recipe does not allow it.
            RefusedError: ``--safe``.
        """
        if not self.allowed:
            raise UnsupportedError(message, where=where, hint=ALLOW)
        ask_to_run(command, where=where)

    def run(self, command: str, where: Location, into: Path | None = None) -> tuple[Path, int]:
        """Run a command; return the file with what it gave and where that begins there.

        Args:
            command: with the ``|`` at its end.
            where: its place.
            into: a file of this spool that goes on; None begins one.

        Raises:
            DataError: it fails.
        """
        path = into or self.new_file()
        with path.open("ab") as file:
            begin = file.seek(0, os.SEEK_END)
            run_command(command, file, where, self._tell)
        return path, begin

    def new_file(self) -> Path:
        """Return the name of a file that goes when the spool is closed."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="cntk-kaldi-", ignore_cleanup_errors=True)
        self._made += 1
        return Path(self._folder.name) / f"{self._made}.ark"

    def close(self) -> None:
        """Remove the files. May be called more than once."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
