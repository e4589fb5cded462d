"""A reader and a writer of a plugin file: their options stand in the recipe beside the core's keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

PLUGIN = """
import numpy as np
from cntk_core.api import DataWriter, StreamInfo, option, options
from cntk_core.api.readers import Chunk, ChunkedReader, ChunkInfo, ChunkSource, Column, Window

@options
class RowsOptions:
    file: str
    dim: int

class Rows(ChunkSource):
    def __init__(self, rows, dim): self.rows, self.dim = rows, dim
    def index(self): return [ChunkInfo(len(self.rows), len(self.rows))]
    def load(self, chunk):
        labels = np.eye(3, dtype=self.rows.dtype)[self.rows[:, self.dim].astype(int)]
        return Chunk({"features": Column(np.ascontiguousarray(self.rows[:, : self.dim])), "labels": Column(labels)})
    def close(self): pass

class RowsReader(ChunkedReader):
    options = RowsOptions
    def __init__(self, options, context):
        rows = np.loadtxt(options.file, delimiter=",", dtype=context.dtype, ndmin=2)
        streams = (StreamInfo("features", (options.dim,)), StreamInfo("labels", (3,)))
        super().__init__(options, context, source=Rows(rows, options.dim), streams=streams, window=Window())

@options
class TsvOptions:
    file: str
    digits: int = option(default=3)

class TsvWriter(DataWriter):
    options = TsvOptions
    def __init__(self, options, context):
        super().__init__(options, context)
        self.file = open(options.file, "w")
    def write(self, outputs):
        for found in outputs.values():
            for sequence in found:
                for row in sequence.values:
                    self.file.write("\\t".join(f"{x:.{self.settings.digits}f}" for x in row) + "\\n")
    def close(self): self.file.close()
"""
RECIPE = """
command = Train:Write
modelPath = "m/net.dnn"
reader = [ readerType = RowsReader ; file = "rows.csv" ; dim = 2 ; randomizationSeed = 3 ; prefetch = false ]
Train = [
    action = train
    SimpleNetworkBuilder = [ layerSizes = 2:4:3 ; trainingCriterion = CrossEntropyWithSoftmax ]
    SGD = [ maxEpochs = 2 ; minibatchSize = 8 ; learningRatesPerSample = 0.05 ]
]
Write = [
    action = write
    outputNodeNames = features
    writer = [ writerType = TsvWriter ; file = "out.tsv" ; digits = 1 ]
]
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(PLUGIN)
    Path("r.cntk").write_text(RECIPE)
    Path("rows.csv").write_text("".join(f"{n},{n / 2},{n % 3}\n" for n in range(30)))


def test_they_train_and_write():
    assert main(["train", "r.cntk", "--plugin", "mine.py"]) == 0
    assert main(["write", "r.cntk", "--plugin", "mine.py"]) == 0
    lines = [f"{n:.1f}\t{n / 2:.1f}" for n in range(30)]
    assert Path("out.tsv").read_text().splitlines() == lines, "writing keeps the order of the file"


@pytest.mark.parametrize(
    ("verb", "given", "wrong", "message"),
    [
        (
            "write",
            "digits = 1",
            "digit = 1",
            "r.cntk:13:60: writer 'TsvWriter' has no option 'digit'; did you mean 'digits'?\n    Options: file, digits",
        ),
        (
            "train",
            "randomizationSeed = 3",
            "randomizationSeeds = 3",
            "r.cntk:4:68: reader 'RowsReader' has no option 'randomizationSeeds'; did you mean 'randomizationSeed'?\n"
            "    Options: file, dim",
        ),
    ],
)
def test_mistakes_in_their_blocks(capsys, verb, given, wrong, message):
    Path("r.cntk").write_text(RECIPE.replace(given, wrong))
    assert main([verb, "r.cntk", "--plugin", "mine.py"]) == 1
    assert f"error: {message}\n" in capsys.readouterr().err
