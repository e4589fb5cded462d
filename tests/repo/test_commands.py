"""The commands of the README: their targets exist, and setting up fails with one clear line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SYSTEM_TOOLS = ("dirname", "sed", "sh")


def make_targets(root: Path) -> set[str]:
    return set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_named_make_targets_exist(root: Path, page: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", (root / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named <= make_targets(root)


def test_ci_runs_existing_targets(root: Path) -> None:
    script = (root / ".ci/run").read_text(encoding="utf-8")
    listed = re.search(r"targets=\(([a-z ]+)\)", script)
    assert listed is not None
    assert {"lint", "types", "imports", "docs"} <= set(listed[1].split()) <= make_targets(root)


def setup_with(root: Path, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the set-up script where no tool but the shell's own is found."""
    tools = folder / "tools"
    tools.mkdir()
    shutil.copy(root / "tools/setup.sh", tools)
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    for name in SYSTEM_TOOLS:
        (commands / name).symlink_to(shutil.which(name) or pytest.skip(f"no {name}"))
    return subprocess.run(
        ["sh", str(tools / "setup.sh"), *words],
        env={"PATH": str(commands), "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(os.name != "posix", reason="the script is for a POSIX shell")
class TestSetup:
    @pytest.mark.parametrize(("word", "status"), [("--help", 0), ("-h", 0), ("--no-such-option", 2)])
    def test_help_sets_nothing_up(self, root: Path, tmp_path: Path, word: str, status: int) -> None:
        result = setup_with(root, tmp_path, word)
        assert result.returncode == status
        assert result.stdout.startswith("Make or bring up to date the environment .venv")
        assert "  tools/setup.sh WHEEL  only this wheel" in result.stdout
        assert not (tmp_path / ".venv").exists()

    def test_no_python(self, root: Path, tmp_path: Path) -> None:
        result = setup_with(root, tmp_path)
        assert result.returncode == 1
        assert result.stderr == (
            "setup: Python 3.11 or newer is needed, and none of python3.13, python3.12, python3.11, python3 is. "
            "Install one, or name it: make PYTHON=/path/to/python3\n"
        )

    def test_named_python_is_too_old(self, root: Path, tmp_path: Path) -> None:
        old = tmp_path / "old-python"
        old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        old.chmod(0o755)
        result = setup_with(root, tmp_path, PYTHON=str(old))
        assert result.returncode == 1
        assert result.stderr == (
            f"setup: Python 3.11 or newer is needed, and {old} is not. "
            "Install one, or name it: make PYTHON=/path/to/python3\n"
        )

    def test_launchers_that_fail_are_passed_over(self, root: Path, tmp_path: Path) -> None:
        commands = tmp_path / "bin"
        commands.mkdir()
        for name, script in {"python3.13": "exit 127", "python3": '[ "$1" = -c ] || echo "$0 $*" && exit 0'}.items():
            (commands / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (commands / name).chmod(0o755)
        result = setup_with(root, tmp_path)
        assert "setup: .venv with python3 -m venv and pip" in result.stdout
        assert "python3 -m venv --clear .venv" in result.stdout


def test_hooks_are_commands_of_the_environment(root: Path) -> None:
    settings = (root / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"- repo: (.*)", settings)) == {"local"}
    entries = re.findall(r"entry: (.*)", settings)
    assert entries
    for entry in entries:
        program, *arguments = entry.split()
        assert (Path(sys.prefix) / program.removeprefix(".venv/")).exists(), entry
        assert all((root / word).exists() for word in arguments if word.endswith(".py")), entry
