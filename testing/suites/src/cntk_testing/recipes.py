"""The recipe-level part of all contracts: a recipe that names the plugin is run by the real commands.

A contract that knows only the plugin's class never sees how a block of a recipe becomes its options, how the rest of
the program calls it, nor what a run that was killed leaves behind. So the test file of a wheel says, in one of its
classes, which recipe shows it::

    class TestMyReader(ReaderContract):
        recipe = README             # the first recipe of README.md, as it stands

        def files(self, folder):    # what it needs, unless it lies in the wheel's folder example/
            (folder / "samples.csv").write_text(...)

The recipe is run to its end; a training is also run until it is stopped inside an epoch, and goes on to the same model,
to the last byte.
"""

from __future__ import annotations

import inspect
import io
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar, Final

import attrs
import pytest

from cntk_core.config import Config, load_recipe
from cntk_core.contract.events import Job, MinibatchResult
from cntk_core.errors import CntkError
from cntk_core.plugins.markers import hookimpl
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing.contract import RECIPES, Contract
from cntk_testing.virtual_ranks import VirtualRanks

README: Final = "README.md"
"""As a class's ``recipe``: the first whole recipe of the wheel's README that has the key of its kind."""

FILE = "recipe.cntk"
VERBS = {"train": ("train", "trainrnn"), "test": ("test", "eval"), "write": ("write",)}
"""Commands, and the actions that they run."""

_FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CRASHES = ("this is a defect of the program", "Traceback (most recent call last)")


class Stop(BaseException):
    """Ends a run at once, as a signal does: nobody catches it, and nothing is saved on the way out."""


@attrs.define
class Watcher:
    """Counts the minibatches of each epoch of a run, and can stop it.

    Attributes:
        stop_at: (epoch, minibatch) after which the run is stopped; None lets it run.
        minibatches: of each epoch, by its index.
        saved: checkpoints that were written.
        resumed: index of the epoch in which the run began.
    """

    stop_at: tuple[int, int] | None = None
    minibatches: dict[int, int] = attrs.field(factory=dict)
    saved: int = 0
    resumed: int = 0

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Note where the run begins."""
        self.resumed = max(self.resumed, job.first_epoch)

    @hookimpl
    def cntk_checkpoint_saved(self) -> None:
        """Count a checkpoint."""
        self.saved += 1

    @hookimpl
    def cntk_minibatch_end(self, job: Job, result: MinibatchResult) -> None:
        """Count a minibatch of a training, or stop after it."""
        if job.action != "train":
            return
        self.minibatches[result.epoch] = max(self.minibatches.get(result.epoch, 0), result.minibatch + 1)
        if (result.epoch, result.minibatch) == self.stop_at:
            raise Stop

    def middle(self) -> tuple[int, int]:
        """Return a minibatch in the middle of the last epoch that has several."""
        epochs = [epoch for epoch, count in self.minibatches.items() if count > 1]
        assert epochs, "each epoch of the recipe has one minibatch only, so that nothing can be stopped inside"
        return epochs[-1], (self.minibatches[epochs[-1]] - 1) // 2


class RecipeContract(Contract):
    """What all contracts ask of a recipe that names the plugin; each kind's contract has these tests.

    Attributes:
        recipe: the text of a whole recipe, or :data:`README`. Without one these tests are left out, and say so.
        recipe_key: what the recipe of a README must have (``readerType``); the contract of a kind says it.
        plugin_files: Python files with plugins that the recipe needs.
        resumes: a training that was stopped goes on to the same model, to the last byte.
        ranks: how many ranks run the recipe together.
    """

    recipe: ClassVar[str] = ""
    recipe_key: ClassVar[str] = "command"
    plugin_files: ClassVar[tuple[str, ...]] = ()
    resumes: ClassVar[bool] = True
    ranks: ClassVar[int] = 1

    def files(self, folder: Path) -> None:
        """Write into a folder what the recipe needs beside installed wheels.

        By default that is the wheel's folder ``example/``, or without one :func:`write_samples`.
        """
        home = wheel_folder(type(self))
        if home is not None and (home / "example").is_dir():
            shutil.copytree(home / "example", folder / "example")
        else:
            write_samples(folder / "samples.txt")

    def recipe_text(self) -> str:
        """Return the recipe; skip the test if there is none."""
        if self.recipe != README:
            if not self.recipe:
                pytest.skip("this class has no recipe; one class of the wheel's tests says recipe = README")
            return self.recipe
        home = wheel_folder(type(self))
        assert home is not None, "the folder above the tests has no README.md with a pyproject.toml beside it"
        return first_recipe((home / README).read_text(encoding="utf-8"), self.recipe_key)

    def prepare(self, folder: Path) -> Path:
        """Make a folder with the recipe and its files, and return it."""
        text = self.recipe_text()
        RECIPES.append(text)
        folder.mkdir(parents=True)
        self.files(folder)
        (folder / FILE).write_text(text, encoding="utf-8")
        return folder

    def command(self, *words: str) -> tuple[int, str]:
        """Run ``cntk`` with these words here; return its exit status and what it printed.

        The test fails if the program calls that a defect of its own, or shows a traceback.
        """
        plugins = [word for file in self.plugin_files for word in ("--plugin", file)]
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            code = main([*words, *plugins])
        output = printed.getvalue()
        for sign in _CRASHES:
            assert sign not in output, f"cntk {' '.join(words)}\n{output}"
        return code, output

    def run_all(self) -> str:
        """Run all actions of the recipe that is here, and return what they printed.

        Each is run by the verb that runs such actions; if there are others, all are run as in ``cntk configFile=``.
        """
        found = {action for action, _ in actions()}
        output = ""
        if found.difference(*VERBS.values()):
            code, output = self.command(f"configFile={FILE}")
            assert code == 0, f"cntk configFile={FILE} ends with {code}:\n{output}"
            return output
        for verb, names in VERBS.items():
            if found.intersection(names):
                code, printed = self.command(verb, FILE)
                assert code == 0, f"cntk {verb} {FILE} ends with {code}:\n{printed}"
                output += printed
        assert output, "the recipe neither trains, tests nor writes"
        return output

    def train(self, watcher: Watcher, *arguments: str) -> None:
        """Train what the recipe says, on all ranks; the first one is watched."""

        def work(communicator: Any = None) -> None:
            first = communicator is None or communicator.rank == 0
            run_recipe(
                [f"configFile={FILE}", *arguments],
                Log(),
                only="train",
                plugin_files=self.plugin_files,
                listeners=[watcher] if first else [],
                communicator=communicator,
            )

        printed = io.StringIO()
        try:
            with redirect_stdout(printed), redirect_stderr(printed):
                work() if self.ranks == 1 else VirtualRanks(self.ranks).run(work)
        except CntkError as error:
            pytest.fail(f"the recipe cannot be trained: {error}\n{printed.getvalue()}", pytrace=False)

    @pytest.mark.recipe
    def test_the_recipe_runs_and_resumes(self, tmp_path: Path) -> None:
        """The recipe runs; stopped inside an epoch, it goes on to the same model."""
        with inside(self.prepare(tmp_path / "straight")):
            model = model_path()
            if model is None or (not self.resumes and self.ranks == 1):
                self.run_all()
                return
            whole = Watcher()
            self.train(whole)
            wanted = model.read_bytes()
            if not self.resumes:
                return
            if self.ranks == 1:
                self.run_all()  # what is trained already is not trained again
                assert model.read_bytes() == wanted, "training again what is trained already changes the model"
        with inside(self.prepare(tmp_path / "stopped")):
            stopped = Watcher(whole.middle())
            with pytest.raises(Stop):
                self.train(stopped, "checkpointEverySamples=1")
            assert not model.exists(), "the model is there although the training was stopped"
            again = Watcher()
            self.train(again)
            learned = sum(again.minibatches.values())
            assert again.resumed or stopped.saved, "the training that was stopped has saved nothing"
            assert learned, "the training that was stopped does not go on"
            assert model.read_bytes() == wanted, (
                f"stopped after minibatch {stopped.stop_at[1] + 1} of epoch {stopped.stop_at[0] + 1} and resumed, "  # type: ignore[index]
                "the training gives another model"
            )


class ReaderRecipe(RecipeContract):
    """What the contract of readers asks of a recipe: ``cntk check-data`` sees whether its data are sound."""

    recipe_key: ClassVar[str] = "readerType"

    def data_files(self, folder: Path) -> list[Path]:
        """Return the files with data of the recipe in a folder; the largest one first."""
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != FILE]
        return sorted(files, key=lambda path: (-path.stat().st_size, path.name))

    def break_data(self, folder: Path) -> None:
        """Damage the data of the recipe; by default the second half of the largest file becomes other bytes."""
        file = self.data_files(folder)[0]
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2] + b"\n?broken?\n" * (len(data) // 20 + 1))

    @pytest.mark.recipe
    def test_sound_data_of_the_recipe_pass_check_data(self, tmp_path: Path) -> None:
        """``cntk check-data`` finds nothing wrong with the data of the recipe."""
        with inside(self.prepare(tmp_path / "sound")):
            code, output = self.command("check-data", FILE)
            assert (code, output.splitlines()[-1:]) == (0, ["no problems found"]), output

    @pytest.mark.recipe
    def test_broken_data_of_the_recipe_are_found(self, tmp_path: Path) -> None:
        """``cntk check-data`` says what is wrong with data that were damaged."""
        folder = self.prepare(tmp_path / "broken")
        self.break_data(folder)
        with inside(folder):
            code, output = self.command("check-data", FILE)
            assert code == 1, f"cntk check-data does not see that the data are broken:\n{output}"
            assert "no problems found" not in output, output

    @pytest.mark.recipe
    def test_missing_data_of_the_recipe_are_told(self, tmp_path: Path) -> None:
        """A file that is not there is told by its name, before and in a training."""
        folder = self.prepare(tmp_path / "missing")
        gone = self.data_files(folder)[0]
        gone.unlink()
        with inside(folder):
            for verb in ("check-data", "train"):
                code, output = self.command(verb, FILE)
                assert code == 1, f"cntk {verb} does not mind that '{gone.name}' is missing:\n{output}"
                assert gone.name in output, f"cntk {verb} does not say that '{gone.name}' is missing:\n{output}"


def write_samples(file: Path, count: int = 64) -> None:
    """Write samples of two features and three classes in CNTK's text format, always the same."""
    rows = []
    for number in range(count):
        x, y = (number * 37 % 101) / 50 - 1, (number * 53 % 97) / 48 - 1
        label = 0 if x + y < -0.4 else 1 if x - y < 0.2 else 2
        rows.append(f"|features {x:.2f} {y:.3f} |labels {' '.join('1' if k == label else '0' for k in range(3))}\n")
    file.write_text("".join(rows), encoding="utf-8")


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def wheel_folder(suite: type) -> Path | None:
    """Return the folder of the wheel whose ``tests/`` a class stands in; None if it is no wheel's.

    In an installed wheel that is the folder ``contract`` of its package, with the same files.
    """
    try:
        home = Path(inspect.getfile(suite)).resolve().parents[1]
    except (OSError, TypeError, IndexError):
        return None
    is_wheel = home.name == "contract" or (home / "pyproject.toml").is_file()
    return home if (home / README).is_file() and is_wheel else None


def first_recipe(text: str, key: str) -> str:
    """Return the first recipe of a README that has a key; the test fails if there is none or it is no whole recipe."""
    blocks: list[str] = [match[1] for match in _FENCE.finditer(text)]
    named = [block for block in blocks if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", block)]
    assert named, f"the README shows no recipe with '{key}', in lines between ``` and ```"
    whole = [block for block in named if re.search(r"^\s*command\s*=", block, re.MULTILINE)]
    assert whole, f"no recipe of the README with '{key}' is whole, with command=...:\n{named[0]}"
    return whole[0]


def model_path() -> Path | None:
    """Return where the recipe that is here writes its model; None if it trains none."""
    return next((Path(section.string("modelPath")) for action, section in actions() if action in VERBS["train"]), None)


def actions() -> list[tuple[str, Config]]:
    """Return the actions of the recipe that is here, in lower case, each with its section."""
    config = load_recipe([f"configFile={FILE}"])
    sections = [config.section(command) for command in config.strings("command")]
    return [(action.lower(), section) for section in sections for action in section.strings("action")]
