"""The commands of a page, as they stand.

``cntk`` runs in this process, which saves its start; ``python``, ``pytest`` and ``mpiexec`` are run as they are. So are
the ranks of the first ``cntk train RECIPE -n 2`` of a page, but on pages that are not about processes; further ones of
a page are threads, unless it is the thorough tier. What is only measured longer, or reckoned with more numbers, gets an
option that makes it quick there. What ``make`` would do is looked up.
``pip install`` fetches nothing: the wheels that it names have to be those of the repository, with the extras that they
have, or known others; a project that a page made is installed for the page alone.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import attrs
from packaging.requirements import Requirement

from cntk_core.contract.parallel import Communicator
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

OTHER_WHEELS = ("cupy-cuda12x", "pytest", "tensorboard")
"""What pages install that is not ours."""

_PROGRAMS = {"python": [sys.executable], "pytest": [sys.executable, "-m", "pytest", "-q"]}
_LIMIT = 300

QUICKER = {"bench": ("--seconds", "0"), "simulate": ("--turns", "1", "--values", "100000", "-n", "1,4")}
"""What commands are given besides, so that they measure less and reckon with less; not in the thorough tier."""


class CommandError(Exception):
    """A command failed, or printed something else than the page shows."""


class Shell:
    """A terminal: it has a directory, and runs one line after the other.

    Args:
        root: the repository.
        folder: where it begins.
        processes: whether the ranks of a training are processes, as for a reader, and not threads.
        thorough: all trainings of several ranks start processes then, not the first alone, and nothing is made quicker.
    """

    def __init__(self, root: Path, folder: Path, *, processes: bool = True, thorough: bool = False) -> None:
        self.root = root
        self.processes = processes
        self.thorough = thorough
        self.here = folder
        self.packages: Path | None = None

    def run(self, text: str) -> None:
        """Run lines, all of which have to succeed.

        Raises:
            CommandError: one failed.
        """
        for words in _commands(text):
            status, output = self._do(words)
            if status:
                raise CommandError(f"{shlex.join(words)}: exit status {status}\n{output}")

    def session(self, text: str) -> None:
        """Run the lines after ``$`` and compare what they print with what follows; ``...`` stands for anything.

        Raises:
            CommandError: it is something else.
        """
        parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
        if parts[0].strip() or len(parts) == 1:
            raise CommandError("a session begins with '$ ' and a command")
        for part in parts[1:]:
            line, _, expected = part.partition("\n")
            (words,) = _commands(line)
            status, output = self._do(words)
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            if not expected.strip() and not status:
                continue
            if not doctest.OutputChecker().check_output(expected.strip() + "\n", output.strip() + "\n", flags):
                raise CommandError(f"{line}\nexit status {status}, printed:\n{output}\ninstead of:\n{expected}")

    def _do(self, words: list[str]) -> tuple[int, str]:
        """Run one command; return its exit status and what it printed."""
        program, *arguments = words
        if program == "cd":
            self._enter(arguments[0])
            return 0, ""
        if program == "cntk":
            return self._cntk(arguments)
        if program == "pip":
            return self._pip(arguments)
        if program == "make":
            return self._start(["make", "--dry-run", "--directory", str(self.root), *arguments])
        if program == "mpiexec":
            return self._start([str(Path(sys.executable).with_name(program)), *_MPI, *arguments])
        if program in _PROGRAMS:
            return self._start([*_PROGRAMS[program], *arguments])
        raise CommandError(f"nothing is known of the command '{program}'")

    def _enter(self, name: str) -> None:
        """Change the directory, also to a folder of the repository, of which a copy is made."""
        target = self.here / name
        if not target.is_dir() and (self.root / name).is_dir():
            shutil.copytree(self.root / name, target)
        self.here = target.resolve(strict=True)

    def _cntk(self, arguments: list[str]) -> tuple[int, str]:
        output = io.StringIO()
        with contextlib.chdir(self.here), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                ranks = _Ranks.asked_for(arguments)
                if ranks is not None and not self.processes:
                    train_on_threads(ranks.recipe, ranks.count, ranks.plugin_files)
                    return 0, output.getvalue()
                self.processes &= ranks is None or self.thorough
                status = main([*arguments, *(() if self.thorough else QUICKER.get(arguments[0], ()))])
            except SystemExit as end:  # argparse: the words are wrong, or --help
                status = int(end.code or 0)
        return status, output.getvalue()

    def _start(self, command: list[str]) -> tuple[int, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        packages = {"PYTHONPATH": str(self.packages)} if self.packages else {}
        done = subprocess.run(
            command,
            cwd=self.here,
            env={**os.environ, **_AS_ROOT, **packages, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT,
        )
        return done.returncode, done.stdout

    def _pip(self, arguments: list[str]) -> tuple[int, str]:
        if arguments[:1] != ["install"]:
            raise CommandError("pages only install")
        if arguments[1:2] == ["--editable"]:
            return self._install(self.here / arguments[2].partition("[")[0])
        for argument in arguments[1:]:
            self._check_wheel(Requirement(argument))
        return 0, ""

    def _install(self, project: Path) -> tuple[int, str]:
        """Install a project for what is run later, without what it needs, which is there."""
        self.packages = self.here / ".packages"
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(self.packages)]
        return self._start([sys.executable, "-m", "pip", "install", *options, str(project)])

    def _check_wheel(self, wanted: Requirement) -> None:
        wheels = _wheels(self.root)
        if wanted.name not in wheels and wanted.name not in OTHER_WHEELS:
            raise CommandError(f"there is no wheel '{wanted.name}'")
        unknown = wanted.extras - wheels.get(wanted.name, frozenset())
        if unknown:
            raise CommandError(f"{wanted.name} has no extra {', '.join(sorted(unknown))}")


@attrs.frozen
class _Ranks:
    """What ``cntk train RECIPE [key=value ...] -n COUNT [--plugin FILE]`` asks for."""

    recipe: list[str]
    count: int
    plugin_files: list[str]

    @classmethod
    def asked_for(cls, arguments: list[str]) -> _Ranks | None:
        """None if these are other words, or more."""
        if arguments[:1] != ["train"] or "-n" not in arguments:
            return None
        parser = argparse.ArgumentParser(exit_on_error=False)
        parser.add_argument("recipe")
        parser.add_argument("keys", nargs="*")
        parser.add_argument("-n", type=int)
        parser.add_argument("--plugin", action="append", default=[])
        found, others = parser.parse_known_intermixed_args(arguments[1:])
        return None if others else cls([f"configFile={found.recipe}", *found.keys], found.n, found.plugin)


def train_on_threads(arguments: list[str], ranks: int, plugin_files: Sequence[str] = ()) -> None:
    """Train what a recipe says on ranks of this process, which starts none.

    Raises:
        CntkError: it fails.
    """

    def work(communicator: Communicator) -> None:
        run_recipe(arguments, Log(), only="train", plugin_files=plugin_files, communicator=communicator)

    VirtualRanks(ranks, deadline=600).run(work)


@cache
def _wheels(root: Path) -> dict[str, frozenset[str]]:
    """The wheels of the repository, and their extras."""
    folders = (".", "kits/*", "plugins/*/*", "testing/*", "meta/*")
    files = [file for folder in folders for file in root.glob(f"{folder}/pyproject.toml")]
    projects = [tomllib.loads(file.read_text(encoding="utf-8")).get("project", {"name": ""}) for file in files]
    return {project["name"]: frozenset(project.get("optional-dependencies", {})) for project in projects}


_MPI = ["--oversubscribe", "--bind-to", "none"]
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _commands(text: str) -> list[list[str]]:
    """The words of each command: one in a line, which goes on after a backslash; ``#`` begins a comment.

    Raises:
        CommandError: a shell would take a sign in it for itself.
    """
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        for word in _as_a_shell(line):
            if set(word) <= set(_SIGNS):
                raise CommandError(f"{line.strip()}: a shell takes '{word}' for itself; put the word into quotes")
        if words := shlex.split(line, comments=True):
            found.append(words)
    return found


_SIGNS = ";()<>|&"


def _as_a_shell(line: str) -> shlex.shlex:
    """The words of a line, where signs of a shell that stand in no quotes are words of their own."""
    words = shlex.shlex(line, posix=True, punctuation_chars=_SIGNS)
    words.whitespace_split = True
    return words
