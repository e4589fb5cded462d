"""The contracts of actions, verbs and model formats: what keeps them, and wrong ones that each must be caught."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from cntk_action_classic.print_action import PrintAction

from cntk_core.contract.action import Action
from cntk_core.contract.dataset import Dataset
from cntk_core.contract.initializer import InitializerSettings, ParameterInitializer
from cntk_core.contract.schedule import EpochSchedule
from cntk_core.contract.verb import Verb
from cntk_core.errors import CntkError, ConfigError, DataError, Location, ModelFormatError
from cntk_core.plugins.core_format import CoreFormat
from cntk_kit_builders.first_values.words import FixedNumber, Uniform
from cntk_kit_recipes.block.epoch_schedules import CosineSchedule
from cntk_kit_recipes.verbs.doctor import Doctor
from cntk_kit_recipes.verbs.plugins import Plugins
from cntk_testing import (
    ActionContract,
    DatasetContract,
    InitializerContract,
    ModelFormatContract,
    ScheduleContract,
    VerbContract,
)


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
    command_lines = ((), ("list", "--names"), ("new", "op", "Squash"))


class CountsNodes(Action):
    """Counts the nodes of a model."""

    requires_api = "1.0"

    def run(self, context, section):
        context.log.line(f"{len(context.load_model(section.string('modelPath')))} nodes")


class TestWithModel(ActionContract):
    action_class = CountsNodes
    recipe = "command = P\nP = [ action = contract ; modelPath = m.dnn ]"

    def prepare(self, folder):
        self.write_model(folder / "m.dnn")

    def verify(self, folder, log):
        assert " nodes" in log


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


class TestCosine(ScheduleContract):
    schedule_class = CosineSchedule
    block = "start = 2"
    expected = (2.0, 1 + math.sqrt(0.5), 1.0, 1 - math.sqrt(0.5))


class TestUniform(InitializerContract):
    initializer_class = Uniform


class TestFixed(InitializerContract):
    initializer_class = FixedNumber
    settings = InitializerSettings(value=3.0)


class Counting(EpochSchedule):
    """Counts how often it was asked."""

    requires_api = "1.0"
    asked = 0

    def value(self, epoch, epochs):
        self.asked += 1
        return float(self.asked)


class Short(EpochSchedule):
    """Has no value for a single epoch."""

    requires_api = "1.0"

    def value(self, epoch, epochs):
        return 1.0 if epochs > 1 else math.inf


def test_wrong_schedules():
    suite = type("Suite", (ScheduleContract,), {"schedule_class": Counting, "expected": (1.0, 2.0, 4.0)})()
    with pytest.raises(AssertionError, match=r"epoch 3: 3\.0, not 4\.0"):
        suite.test_values()
    with pytest.raises(AssertionError, match="depends on what was asked for before"):
        suite.test_a_value_does_not_depend_on_those_before()
    suite = type("Suite", (ScheduleContract,), {"schedule_class": Short, "expected": (1.0, 1.0)})()
    with pytest.raises(AssertionError, match="epoch 1 of 1 gives inf"):
        suite.test_every_length_of_training()


class Global(ParameterInitializer):
    """Draws from NumPy's global random numbers."""

    requires_api = "1.0"

    def values(self, shape, dtype, seed):
        return np.random.standard_normal(shape)


class Constant(Global):
    """Does not look at the seed."""

    def values(self, shape, dtype, seed):
        return np.ones(shape)


class Denied(Global):
    """Says that it takes no seed."""

    takes_seed = False

    def values(self, shape, dtype, seed):
        return np.full(shape, seed)


def test_wrong_initializers():
    def suite_for(rule):
        return type("Suite", (InitializerContract,), {"initializer_class": rule})()

    with pytest.raises(AssertionError, match="depend on more than"):
        suite_for(Global).test_the_same_seed_gives_the_same_values()
    with pytest.raises(AssertionError, match="global random numbers: use the seed"):
        suite_for(Global).test_it_leaves_no_trace()
    with pytest.raises(AssertionError, match="does not look at the seed"):
        suite_for(Constant).test_seeds()
    with pytest.raises(AssertionError, match="differ from seed to seed"):
        suite_for(Denied).test_seeds()


class Letters(Dataset):
    """Lines of letters."""

    requires_api = "1.0"
    parts = ("upper", "lower")

    def convert(self, source, target, *, checksum, only, progress):
        file = source / "letters.txt"
        if not file.is_file():
            raise DataError("there is no letters.txt", where=Location(str(source)))
        text = file.read_text(encoding="utf-8")
        (target / "letters.ctf").write_text(text.upper() if only == "upper" else text, encoding="utf-8")
        progress.done("letters.ctf", "letters")


class TestLetters(DatasetContract):
    dataset_class = Letters
    files = ("letters.ctf",)

    def download(self, folder):
        (folder / "letters.txt").write_text("abc\n", encoding="utf-8")


class Hasty(Letters):
    """Writes before it looks, and tells nobody."""

    def convert(self, source, target, *, checksum, only, progress):
        (target / "letters.ctf").write_text(str(next(_NUMBERS)), encoding="utf-8")
        if not list(source.iterdir()):
            raise DataError("nothing is there")
        if only != "lower":
            progress.done("letters.ctf", "letters")


_NUMBERS = count()


def test_wrong_data_sets(tmp_path):
    suite = type("Suite", (TestLetters,), {"dataset_class": Hasty})()
    source = tmp_path / "source"
    source.mkdir()
    suite.download(source)
    with pytest.raises(AssertionError, match=r"letters\.ctf differs from run to run"):
        suite.test_files(source, tmp_path)
    with pytest.raises(AssertionError, match="--only lower writes nothing"):
        suite.test_parts(source, tmp_path)
    with pytest.raises(AssertionError, match=r"files of a data set that is not there: letters\.ctf"):
        suite.test_what_is_missing(tmp_path)
