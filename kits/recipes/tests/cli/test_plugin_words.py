"""Plugins on the command line: ``--plugin`` and ``--no-plugin`` with every form of it, and words that mean nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cntk_core.config import parse_text
from cntk_core.contract.parallel import Launcher
from cntk_core.errors import UsageError
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.cli.plugin_words import join_plugins, split_plugins
from cntk_kit_recipes.launch import launcher as launch
from cntk_kit_recipes.recipe.run_plugins import recipe_plugins

RECIPE = "command = P\nP = [ action = PrintAction ; what = hello ]\n"
COUNTER = """
from cntk_core.api import hookimpl

class Counter:
    @hookimpl
    def cntk_job_begin(self, job):
        print("COUNTER", job.name, flush=True)
"""
VERB = """
from cntk_core.api import hookimpl

@hookimpl
def cntk_add_commands(subparsers):
    parser = subparsers.add_parser("door", help="greet")
    parser.add_argument("--loud", action="store_true")
    parser.set_defaults(run=lambda options: print("HELLO" if options.loud else "hello") or 0)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CNTK_PLUGINS", "CNTK_TRACEBACK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")
    Path("p.py").write_text(COUNTER, encoding="utf-8")
    Path("v.py").write_text(VERB, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["configFile=r.cntk", "--plugin", "p.py"],
        ["configFile=r.cntk", "--plugin=p.py", "traceLevel=0"],
        ["--plugin", "p.py", "configFile=r.cntk"],
        ["traceLevel=0", "--plugin", "p.py", "configFile=r.cntk"],
        ["configFile=r.cntk", "plugins=p.py"],
    ],
)
def test_it_stands_anywhere(capsys, arguments):
    assert main(arguments) == 0
    assert capsys.readouterr().out == "COUNTER P\n"


@pytest.mark.parametrize("off", [["--no-plugin", "p.py"], ["disabledPlugins=p.py"]])
@pytest.mark.parametrize("on", [["--plugin", "p.py"], ["plugins=p.py"]])
def test_what_is_switched_off_stays_off(capsys, on, off):
    Path("p.py").write_text("1 / 0\n", encoding="utf-8")  # it is not even loaded
    assert main(["configFile=r.cntk", *on, *off]) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("plugins = mine.py", ("mine.py",)),
        ('plugins = "mine.py, cntk-learner-lion"', ("mine.py", "cntk-learner-lion")),
        ('plugins = ("my file.py":cntk-learner-lion)', ("my file.py", "cntk-learner-lion")),
        ("disabledPlugins = learner:sgd", ("-learner:sgd",)),
        ('disabledPlugins = "cntk-x:y cntk-z" ; plugins = a.py', ("a.py", "-cntk-x:y", "-cntk-z")),
    ],
)
def test_what_a_recipe_says(text, words):
    assert recipe_plugins(parse_text(text)) == words


def test_a_document_of_brainscript(capsys):
    Path("r.bs").write_text('P = [ action = "PrintAction" ; what = "hello" ]\ncommand = "P"\n', encoding="utf-8")
    code = main(["-f", "r.bs", "--plugin", "p.py"])
    captured = capsys.readouterr()
    assert (code, captured.out) == (0, "COUNTER P\n"), captured.err


def test_from_another_folder(capsys, tmp_path):
    (tmp_path / "sub").mkdir()
    assert main(["currentDirectory=sub", "configFile=../r.cntk", "--plugin", "p.py"]) == 0
    assert capsys.readouterr().out == "COUNTER P\n"


class TestVerbs:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["door", "--plugin", "v.py"], "hello\n"),
            (["door", "--loud", "--plugin=v.py"], "HELLO\n"),
            (["--plugin", "v.py", "door", "--loud"], "HELLO\n"),
        ],
    )
    def test_of_a_file(self, capsys, arguments, said):
        assert main(arguments) == 0
        assert capsys.readouterr().out == said

    def test_a_file_that_cannot_be_used(self, capsys):
        assert main(["door", "--plugin", "w.py"]) == 1
        assert capsys.readouterr().err == "error: there is no plugin file 'w.py'; did you mean 'v.py'?\n"

    def test_one_that_is_not_in_it(self, capsys):
        with pytest.raises(SystemExit) as caught:
            main(["dor", "--plugin", "v.py"])
        assert caught.value.code == 2
        assert "there is no verb 'dor'; did you mean 'door'?; see cntk --help" in capsys.readouterr().err

    def test_one_that_fails(self, capsys):
        Path("v.py").write_text(VERB.replace('print("HELLO" if', '1 / 0 or print("HELLO" if'), encoding="utf-8")
        assert main(["door", "--plugin", "v.py"]) == 1
        error = capsys.readouterr().err
        told = "cntk_add_commands.<lambda> of the plugin file 'v.py' failed: ZeroDivisionError: division by zero"
        assert f"\nerror: {told}\n" in error
        assert "/v.py:8\n" in error


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nonsense", "3"], "<command line>:2:1: '--nonsense' means nothing beside configFile="),
        (["--plugn", "p"], "<command line>:2:1: '--plugn' means nothing beside configFile=; did you mean '--plugin'?"),
        (["word"], "<command line>:2:1: 'word' means nothing beside configFile="),
        (["--verbose=3"], "<command line>:2:1: '--verbose=3' means nothing beside configFile="),
        (["-n", "4"], "<command line>:2:1: '-n' means nothing beside configFile="),
    ],
)  # fmt: skip
def test_a_word_that_means_nothing(capsys, words, text):
    assert main(["configFile=r.cntk", *words]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"\nEXCEPTION occurred: {text}\n"
        "    cntk configFile=recipe.cntk [key=value ...] [--plugin FILE] [--no-plugin NAME] [--safe]\n"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--plugin"], "<command line>:2:1: --plugin needs a file"),
        (["--plugin", "--no-plugin", "x"], "<command line>:2:1: --plugin needs a file"),
        (["--no-plugin="], "<command line>:2:1: --no-plugin needs the name of a plugin"),
    ],
)
def test_an_option_without_a_value(capsys, words, text):
    assert main(["configFile=r.cntk", *words]) == 2
    assert capsys.readouterr().err == f"\nEXCEPTION occurred: {text}\n"


def test_they_are_taken_apart_and_put_together():
    words, plugins = split_plugins(["a=1", "--plugin", "p.py", "--no-plugin=learner:sgd", "b=2", "--plugin=q.py"])
    assert words == ["a=1", "b=2"]
    assert plugins == ["p.py", "-learner:sgd", "q.py"]
    assert join_plugins(plugins) == ["--plugin", "p.py", "--no-plugin", "learner:sgd", "--plugin", "q.py"]
    assert split_plugins(join_plugins(plugins)) == ([], plugins)
    with pytest.raises(UsageError):
        split_plugins(["--no-plugin"])


def test_ranks_get_them(monkeypatch):
    class Ranks:
        @classmethod
        def launcher(cls, ranks, **how):
            return Launcher((sys.executable,), {}, "Python")

    seen = []

    def run(command, environment, watch, *, elastic=False, shown=None):
        seen.append(command)
        (watch.folder / launch.DONE).write_text("")
        return 0

    monkeypatch.setattr(launch, "_find_launcher", lambda registry, ranks, **how: Ranks.launcher(ranks))
    monkeypatch.setattr(launch, "_run", run)
    assert main(["train", "r.cntk", "-n", "2", "--plugin", "p.py", "--no-plugin", "cntk-hook-tensorboard"]) == 0
    (command,) = seen
    assert command[-6:] == [
        "train",
        "configFile=r.cntk"[11:],
        "--plugin",
        "p.py",
        "--no-plugin",
        "cntk-hook-tensorboard",
    ]
