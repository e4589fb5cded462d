"""Environments that have nothing yet, of several Pythons, into which the files of a release are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from releasing.staging import ReleaseError

_OWN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def pythons(wanted: Sequence[str]) -> dict[str, str]:
    """Interpreters that are here, by version.

    Args:
        wanted: versions, such as ``3.12``, or paths of interpreters. uv knows more versions than the shell.
    """
    found = {}
    for one in wanted:
        candidates = (one,) if os.sep in one else (shutil.which(f"python{one}"), *_of_pyenv(one), _known_to_uv(one))
        for path in filter(None, candidates):
            version = _version_of(path)
            if version and (os.sep in one or version == one):
                found[version] = path
                break
    return found


def _of_pyenv(version: str) -> list[str]:
    """The interpreters of pyenv, whose launchers run one of them alone."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    return [str(path) for path in sorted(versions.glob(f"{version}.*/bin/python{version}"))]


def _known_to_uv(version: str) -> str:
    if shutil.which("uv") is None:
        return ""
    command = ["uv", "python", "find", "--no-python-downloads", "--no-project", "--system", version]
    return subprocess.run(command, capture_output=True, check=False, text=True).stdout.strip()


def _version_of(path: str) -> str:
    """The version of an interpreter; empty where it does not run: a launcher may exist and yet fail."""
    command = [path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    try:
        return subprocess.run(command, capture_output=True, check=False, text=True).stdout.strip()
    except OSError:
        return ""


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
        folder.parent.mkdir(parents=True, exist_ok=True)
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
