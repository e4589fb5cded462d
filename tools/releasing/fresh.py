"""Environments that have nothing yet, of several Pythons, into which the files of a release are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from releasing.staging import ReleaseError

_OWN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def pythons(versions: Sequence[str]) -> dict[str, str]:
    """Interpreters of these versions that are here, by version; uv knows more of them than the shell."""
    found = {version: shutil.which(f"python{version}") or _known_to_uv(version) for version in versions}
    return {version: path for version, path in found.items() if path and _runs(path, version)}


def _known_to_uv(version: str) -> str:
    if shutil.which("uv") is None:
        return ""
    command = ["uv", "python", "find", "--no-python-downloads", "--no-project", "--system", version]
    return subprocess.run(command, capture_output=True, check=False, text=True).stdout.strip()


def _runs(path: str, version: str) -> bool:
    """Whether it is a Python of this version: a launcher may exist and yet fail."""
    command = [path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    return subprocess.run(command, capture_output=True, check=False, text=True).stdout.strip() == version


class Environment:
    """An environment of its own, with uv where it is installed, otherwise with ``venv`` and pip.

    Args:
        folder: where it lies; what was there is removed.
        python: the interpreter.
        links: the folder with the files of the release.

    Raises:
        ReleaseError: it cannot be made.
    """

    def __init__(self, folder: Path, python: str, links: Path) -> None:
        self.folder = folder
        self.links = links
        shutil.rmtree(folder, ignore_errors=True)
        self.python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self._uv = shutil.which("uv")
        if self._uv:
            self._must([self._uv, "venv", "--quiet", "--python", python, str(folder)])
        else:
            self._must([python, "-m", "venv", str(folder)])

    def install(self, *requirements: str) -> None:
        """Install what is required; ours from the folder of the release.

        Raises:
            ReleaseError: it cannot be installed, or what it needs contradicts.
        """
        words = ["--quiet", "--find-links", str(self.links), *requirements]
        if self._uv:
            self._must([self._uv, "pip", "install", "--python", str(self.python), *words])
            self._must([self._uv, "pip", "check", "--quiet", "--python", str(self.python)])
        else:
            self._must([str(self.python), "-m", "pip", "install", "--disable-pip-version-check", *words])
            self._must([str(self.python), "-m", "pip", "check"])

    def run(self, *words: str, folder: Path | None = None) -> str:
        """Run this Python with some words, and return what it said.

        Args:
            words: for example ``-c`` and a program.
            folder: where; the environment's own if it is not said.

        Raises:
            ReleaseError: it failed.
        """
        return self._must([str(self.python), *words], folder)

    def remove(self) -> None:
        """Make room."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _must(self, command: Sequence[str], folder: Path | None = None) -> str:
        clean = {name: value for name, value in os.environ.items() if name not in _OWN}
        clean["PATH"] = f"{self.python.parent}{os.pathsep}{clean.get('PATH', '')}"
        done = subprocess.run(
            command,
            cwd=folder or self.folder.parent,
            env=clean,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        )
        if done.returncode:
            raise ReleaseError(f"{' '.join(command)}:\n{done.stdout}")
        return done.stdout
