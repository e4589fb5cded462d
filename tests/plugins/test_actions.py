"""Actions of plugins: from a wheel, from a file, from a hook; wrong ones stay alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.contract.action import Action
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.markers import hookimpl
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.actions import same_action
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log

pytestmark = pytest.mark.usefixtures("tools")

ACTION = """
from cntk_core.api import *


class Greet(Action):
    requires_api = "1.0"

    def check(self, context, section):
        section.require("whom")

    def run(self, context, section):
        context.log.line(f"Hello {section.string('whom')} of rank {context.rank} in {context.dtype}")
"""

RECIPE = 'command = A\nA = [ action = "%s" ; whom = "World" ]\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def run(name: str, *arguments: str) -> int:
    Path("r.cntk").write_text(RECIPE % name, encoding="utf-8")
    return main(["configFile=r.cntk", *arguments])


def test_from_a_wheel(install, capsys):
    install("my-greeting", {"cntk.actions": {"greet": "my_greeting:Greet", "hail": "my_greeting:Greet"}}, ACTION)
    assert run("greet") == 0
    assert "Hello World of rank 0 in float32" in capsys.readouterr().err
    assert run("HAIL") == 0
    assert "Hello World" in capsys.readouterr().err


def test_from_a_file_as_the_only_action(capsys):
    Path("p.py").write_text(ACTION, encoding="utf-8")
    Path("r.cntk").write_text('command = A\nA = [ action = "Greet" ; whom = "World" ]\n', encoding="utf-8")
    log = Log()
    run_recipe(["configFile=r.cntk"], log, plugin_files=["p.py"])
    log.close()
    assert "Hello World" in capsys.readouterr().err


class Silent(Action):
    """Notes that it ran, and where."""

    requires_api = "1.0"
    name = "quiet"
    seen: list[str]

    def run(self, context, section):
        self.seen.append(section.name)


class Offers:
    def __init__(self):
        self.jobs = []

    @hookimpl
    def cntk_register(self, registry):
        registry.actions.add("whisper", Silent)

    @hookimpl
    def cntk_job_begin(self, job):
        self.jobs.append((job.name, job.action))


def test_from_a_hook_and_what_listeners_hear():
    Silent.seen = []
    offers = Offers()
    Path("r.cntk").write_text("command = A:B\nA = [ action = whisper ]\nB = [ action = whisper ]\n", encoding="utf-8")
    log = Log(quiet=True)
    run_recipe(["configFile=r.cntk"], log, listeners=[offers])
    log.close()
    assert Silent.seen == ["A", "B"]
    assert offers.jobs == [("A", "quiet"), ("B", "quiet")]


def test_its_check_is_asked_before_anything_runs(install, capsys):
    install("my-greeting", {"cntk.actions": {"greet": "my_greeting:Greet"}}, ACTION)
    text = "command = P:A\nP = [ action = PrintAction ; what = x ]\nA = [ action = greet ]\n"
    Path("r.cntk").write_text(text, encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 1
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == (
        "r.cntk:3:1: required parameter missing: A:whom\n    Add whom=... to the section A.\n"
    )


def test_unknown_names(install, capsys):
    install("my-greeting", {"cntk.actions": {"greet": "my_greeting:Greet"}}, ACTION)
    assert run("greeet") == 1
    names = ", ".join(PluginManager(load_hooks=False).registry.actions.names())
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == (
        f"r.cntk:2:17: unknown action: greeet  in command set: A; did you mean 'greet'?\n    Actions: {names}\n"
    )


def test_a_broken_one_is_an_error_only_for_who_asks(install, capsys):
    install("my-greeting", {"cntk.actions": {"greet": "my_greeting:Greet"}}, "import missing_library\n")
    Path("r.cntk").write_text("command = P\nP = [ action = PrintAction ; what = fine ]\n", encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert "fine" in capsys.readouterr().err
    assert run("greet") == 1
    text = capsys.readouterr().err.partition("EXCEPTION occurred: ")[2]
    assert text.startswith("r.cntk:2:17: action 'greet' from my-greeting 0.1.0 could not be imported: ")
    assert "pip uninstall my-greeting" in text


def test_the_cores_own_are_there_without_plugins(monkeypatch):
    monkeypatch.setenv("CNTK_PLUGINS", "off")
    assert PluginManager().registry.actions.names() == ("eval", "test", "train", "trainRNN", "write")


def test_names_of_one_action():
    registry = PluginManager(load_hooks=False).registry
    assert set(same_action("trainrnn", registry)) == {"trainrnn", "train"}
    assert same_action("nothing", registry) == ("nothing",)
