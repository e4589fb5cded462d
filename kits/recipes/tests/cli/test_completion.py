"""``cntk completion``: what shells complete, in a real bash, and scripts that other shells can read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main
from cntk_kit_recipes.verbs.completion import script

VERB = '''
from cntk_core.api import *


class greet(Verb):
    """Greet 100 % of the world."""

    requires_api = "1.0"

    def add_arguments(self, parser):
        parser.add_argument("--loudly", action="store_true")
        parser.add_argument("--from", metavar="DIR")

    def run(self, options):
        return 0
'''

ASK = """
source "$1"; shift
function=$(complete -p cntk | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"
$function cntk "${@: -1}"
echo "${COMPREPLY[@]}"
"""
"""Asks bash what it would write."""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script with a verb from a file, in a folder with a recipe."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    folder = tmp_path_factory.mktemp("completion")
    for name, text in {"greet.py": VERB, "digits.cntk": "", "ask.sh": ASK}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "data").mkdir()
    (folder / "cntk.bash").write_text(script("bash", [str(folder / "greet.py")]), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("tra", "train"),
        ("train --e", "--elastic"),
        ("train di", "digits.cntk"),
        ("plugins sh", "show"),
        ("plugins show --j", "--json"),
        ("plugins new --folder d", "data"),
        ("doctor --plugin gre", "greet.py"),
        ("gre", "greet"),
        ("greet --l", "--loudly"),
        ("greet --from d", "data"),
        ("train --nothing", ""),
    ],
)
def test_bash(bash: Path, words: str, answer: str) -> None:
    done = subprocess.run(
        ["bash", "ask.sh", "./cntk.bash", "cntk", *words.split()],
        cwd=bash,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (f"{answer}\n", "")


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    found = capsys.readouterr().out
    assert "doctor" in found
    assert "clear-cache" in found
    if shutil.which(shell) is not None:
        path = tmp_path / "script"
        path.write_text(found, encoding="utf-8")
        read = [shell, "-f", str(path)] if shell == "tcsh" else [shell, "-n", str(path)]
        assert subprocess.run(read, capture_output=True, check=False, timeout=60).returncode == 0


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zhs"]) == 2
    assert capsys.readouterr().err == (
        "error: there is no completion for the shell 'zhs'; did you mean 'zsh'?\n"
        "    Shells: bash, zsh, tcsh, fish, powershell\n"
    )


def test_a_broken_verb_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.py"
    path.write_text(VERB.replace('requires_api = "1.0"', 'requires_api = "9.0"'), encoding="utf-8")
    text = script("bash", [str(path)])
    assert "greet" not in text
    assert "doctor" in text
    assert capsys.readouterr().err.startswith("the verb 'greet' is left out: ")
