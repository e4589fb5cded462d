"""The recipe-level part of the contracts sees what goes wrong between a plugin and a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_testing.recipes import ReaderRecipe, RecipeContract, first_recipe, wheel_folder

READER = """
import numpy as np
from pathlib import Path
from cntk_core.api import *
from cntk_core.api.readers import *

@options
class RowsOptions:
    file: Path
    dim: int

class Rows(ChunkSource):
    def __init__(self, file, dim, dtype): self.file, self.dim, self.dtype = file, dim, dtype
    def __str__(self): return str(self.file)
    def index(self):
        count = len(self.load(0).columns["labels"].data)
        return [ChunkInfo(count, count)]
    def load(self, chunk):
        try:
            rows = np.loadtxt(self.file, delimiter=",", dtype=self.dtype, ndmin=2)
        except OSError as error:
            raise DataError(f"'{self.file}' cannot be read: {error}") from None
        return Chunk({"features": Column(np.ascontiguousarray(rows[:, : self.dim])),
                      "labels": Column(np.eye(3, dtype=self.dtype)[rows[:, self.dim].astype(int)])})
    def close(self): pass

class MyReader(ChunkedReader):
    options, requires_api = RowsOptions, "1.0"
    def __init__(self, options, context):
        streams = (StreamInfo("features", (options.dim,)), StreamInfo("labels", (3,)))
        source = Rows(options.file, options.dim, context.dtype)
        super().__init__(options, context, source=source, streams=streams, window=Window(EXTRA))
"""

RECIPE = """
command = Train
modelPath = "m/net.dnn"
Train = [
    action = "train"
    SimpleNetworkBuilder = [ layerSizes = 2:4:3 ; trainingCriterion = CrossEntropyWithSoftmax ]
    SGD = [ minibatchSize = 8 ; learningRatesPerSample = 0.05 ; maxEpochs = 2 ]
    reader = [ readerType = MyReader ; file = "rows.csv" ; dim = 2 ; randomizationSeed = 3 ]
]
"""


class Recipe(ReaderRecipe):
    recipe = RECIPE

    def files(self, folder: Path) -> None:
        (folder / "rows.csv").write_text("".join(f"{n % 7},{n % 5},{n % 3}\n" for n in range(40)))


@pytest.fixture
def suite(tmp_path: Path):
    """A function that makes the suite of a reader whose source is changed."""

    def make(old: str = "EXTRA", new: str = "") -> Recipe:
        file = tmp_path / "mine.py"
        file.write_text(READER.replace(old, new).replace("EXTRA", ""))
        return type("Mine", (Recipe,), {"plugin_files": (str(file),)})()

    return make


def test_a_sound_reader_of_a_file(suite, tmp_path):
    sound = suite()
    sound.test_the_recipe_runs_and_resumes(tmp_path / "run")
    sound.test_sound_data_of_the_recipe_pass_check_data(tmp_path / "check")
    sound.test_broken_data_of_the_recipe_are_found(tmp_path / "broken")
    sound.test_missing_data_of_the_recipe_are_told(tmp_path / "missing")


@pytest.mark.parametrize(
    ("old", "new", "test", "message"),
    [
        ("dim: int", "dims: int", "test_the_recipe_runs_and_resumes", "required parameter missing: Train:reader:dims"),
        (
            'np.loadtxt(self.file, delimiter=",", dtype=self.dtype, ndmin=2)',
            "np.random.default_rng().integers(0, 3, size=(40, 3)).astype(self.dtype)",
            "test_the_recipe_runs_and_resumes",
            "gives? another model|changes the model",
        ),
        (
            'np.loadtxt(self.file, delimiter=",", dtype=self.dtype, ndmin=2)',
            "np.ones((40, 3), self.dtype)",
            "test_broken_data_of_the_recipe_are_found",
            "does not see that the data are broken",
        ),
        (
            'np.loadtxt(self.file, delimiter=",", dtype=self.dtype, ndmin=2)',
            "np.ones((40, 3), self.dtype)",
            "test_missing_data_of_the_recipe_are_told",
            "does not mind that 'rows.csv' is missing",
        ),
    ],
)
def test_faults_are_noticed(suite, tmp_path, old, new, test, message):
    faulty = suite(old, new)
    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        getattr(faulty, test)(tmp_path / "run")


def test_a_recipe_that_has_nothing_to_stop(tmp_path):
    class Short(Recipe):
        recipe = RECIPE.replace("minibatchSize = 8", "minibatchSize = 100").replace("MyReader", "CNTKTextFormatReader")
        recipe = recipe.replace('file = "rows.csv" ; dim = 2', 'file = "samples.txt" ; INPUT').replace(
            "INPUT", "input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ]"
        )

        def files(self, folder: Path) -> None:
            RecipeContract.files(self, folder)

    with pytest.raises(AssertionError, match="each epoch of the recipe has one minibatch only"):
        Short().test_the_recipe_runs_and_resumes(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# mine\n", "the README shows no recipe with 'readerType'"),
        ("```\nreader = [ readerType = X ]\n```\n", "no recipe of the README with 'readerType' is whole"),
    ],
)
def test_readmes_without_a_recipe(text, message):
    with pytest.raises(AssertionError, match=message):
        first_recipe(text, "readerType")


def test_the_first_whole_recipe_is_taken():
    text = (
        "```sh\ncntk train readerType\n```\n```\nreader = [ readerType = X ]\n```\n"
        "```\ncommand = A\nA = [ readerType = X ]\n```\n```\ncommand = B\nB = [ readerType = Y ]\n```\n"
    )
    assert first_recipe(text, "readerType") == "command = A\nA = [ readerType = X ]\n"


def test_only_wheels_have_readmes():
    assert wheel_folder(Recipe) == Path(__file__).parents[1]
    assert wheel_folder(Path) is None
    with pytest.raises(pytest.skip.Exception, match="this class has no recipe"):
        RecipeContract().recipe_text()
