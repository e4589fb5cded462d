"""The contracts of actions, verbs and model formats: what keeps them, and wrong ones that each must be caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_action_classic.print_action import PrintAction

from cntk_core.cli.verbs.doctor import Doctor
from cntk_core.cli.verbs.plugins import Plugins
from cntk_core.contract.action import Action
from cntk_core.contract.verb import Verb
from cntk_core.errors import CntkError, ConfigError, ModelFormatError
from cntk_core.plugins.core_format import CoreFormat
from cntk_testing import ActionContract, ModelFormatContract, VerbContract


class TestPrint(ActionContract):
    action_class = PrintAction
    recipe = 'command = P\nP = [ action = "contract" ; what = "the text" ]'

    def verify(self, folder, log):
        assert "the text" in log


class Checked(Action):
    """Needs a key, and writes a file."""

    requires_api = "1.0"

    def check(self, context, section):
        section.require("target")

    def run(self, context, section):
        Path(section.string("target")).write_text("done", encoding="utf-8")


class TestChecked(ActionContract):
    action_class = Checked
    recipe = "command = P\nP = [ action = contract ; target = out.txt ]"
    broken_recipe = "command = P\nP = [ action = contract ]"

    def verify(self, folder, log):
        assert (folder / "out.txt").read_text(encoding="utf-8") == "done"


class TestPlugins(VerbContract):
    verb_class = Plugins
    command_lines = ((), ("list", "--names"), ("new", "op", "Softsign"))


class TestCoreFormat(ModelFormatContract):
    format_class = CoreFormat
    writes = True


class Late(Checked):
    """Finds out too late."""

    def check(self, context, section):
        """Nothing."""


class Careless(Checked):
    """Writes while it checks."""

    def check(self, context, section):
        Path("half.txt").write_text("x", encoding="utf-8")
        section.require("target")


class Placeless(Checked):
    """Does not say where."""

    def check(self, context, section):
        raise ConfigError("wrong")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Late, "DID NOT RAISE"),
        (Careless, r"check\(\) wrote files: half.txt"),
        (Placeless, "does not say where in the recipe it is"),
    ],
)
def test_wrong_actions(action, message, tmp_path, monkeypatch):
    suite = type("Suite", (TestChecked,), {"action_class": action})()
    if action is Late:
        suite.broken_recipe = TestChecked.recipe
    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        suite.test_a_broken_section_is_refused(tmp_path, monkeypatch)


class Mute(Verb):
    requires_api = "1.0"

    def run(self, options):
        return 0


class Wordy(Verb):
    """Does a lot of things that nobody can read in the list of verbs because the line is far longer than it is wide."""

    requires_api = "1.0"

    def add_arguments(self, parser):
        parser.add_argument("--status", type=int, default=1)

    def run(self, options):
        return options.status


@pytest.mark.parametrize(("verb", "message"), [(Mute, "has no docstring"), (Wordy, "is too long for cntk --help")])
def test_wrong_lines(verb, message):
    suite = type("Suite", (VerbContract,), {"verb_class": verb})()
    with pytest.raises(AssertionError, match=message):
        suite.test_one_line_for_the_list()


def test_a_verb_that_fails(tmp_path, monkeypatch):
    suite = type("Suite", (VerbContract,), {"verb_class": Wordy, "command_lines": (("--status", "0"), ())})()
    with pytest.raises(AssertionError, match="gave the exit code 1, not 0"):
        suite.test_command_lines(tmp_path, monkeypatch)
    suite = type("Suite", (VerbContract,), {"verb_class": Doctor, "command_lines": ()})()
    with pytest.raises(AssertionError, match="has no command_lines"):
        suite.test_command_lines(tmp_path, monkeypatch)


class Greedy(CoreFormat):
    """Takes everything."""

    def recognizes(self, begin, path):
        return True


class Shapeless(CoreFormat):
    """Forgets to infer shapes."""

    def load(self, path, find_op, dtype=None):
        network = super().load(path, find_op, dtype)
        next(iter(network)).shape = None
        return network


class Raw(CoreFormat):
    """Lets any error through."""

    def load(self, path, find_op, dtype=None):
        try:
            return super().load(path, find_op, dtype)
        except CntkError:
            raise ModelFormatError("damaged") from None


def suite_of(format_class):
    return type("Suite", (ModelFormatContract,), {"format_class": format_class, "writes": True})()


def test_wrong_formats(tmp_path):
    with pytest.raises(AssertionError, match="a recipe is taken for a model of this format"):
        suite_of(Greedy).test_it_recognizes_no_others("a recipe", tmp_path)
    with pytest.raises(AssertionError, match="has no shape"):
        suite_of(Shapeless).test_loading(None, tmp_path)
    with pytest.raises(AssertionError, match="does not name the file: damaged"):
        suite_of(Raw).test_damaged_files_are_refused(tmp_path)
