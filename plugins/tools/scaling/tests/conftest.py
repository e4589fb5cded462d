"""A recipe to simulate, in the folder of each test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cntk_kit_recipes.cli import main

RECIPE = """\
command = Train
modelPath = "m.dnn"
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 20:300:400:10
        trainingCriterion = CrossEntropyWithSoftmax
        evalCriterion = ErrorPrediction
        layerTypes = Sigmoid
        applyMeanVarNorm = false
        needPrior = false
    ]
    SGD = [
        minibatchSize = 64 ; learningRatesPerSample = 0.001 ; maxEpochs = 2
        parallelTrain = [
            parallelizationMethod = DataParallelSGD
            DataParallelSGD = [ gradientBits = 32:1 ]
            BlockMomentumSGD = [ blockSizePerWorker = 96 ]
        ]
    ]
    reader = [
        readerType = CNTKTextFormatReader
        file = train.ctf
        input = [
            features = [ dim = 20 ; format = dense ]
            labels = [ dim = 10 ; format = sparse ]
        ]
    ]
]
"""

VALUES = 20 * 300 + 300 + 300 * 400 + 400 + 400 * 10 + 10
"""Learned values of the network."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "CNTK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")
    random = np.random.default_rng(1)
    with Path("train.ctf").open("w", encoding="ascii") as file:
        for row in random.normal(size=(200, 20)).round(2):
            file.write(f"|features {' '.join(map(str, row))} |labels {random.integers(10)}:1\n")
    return tmp_path


@pytest.fixture
def simulated(folder):
    """Run ``cntk simulate``; return the numbers that it writes, by method and ranks."""

    def run(*arguments, recipe="r.cntk"):
        assert main(["simulate", recipe, *arguments, "-o", "out.json"]) == 0
        found = json.loads(Path("out.json").read_text(encoding="utf-8"))
        return {(one["method"], one["ranks"]): one for one in found}

    return run


@pytest.fixture
def refused(folder, capsys):
    """Run ``cntk``; return the message with which it fails."""

    def run(*arguments):
        assert main(list(arguments)) in (1, 2)
        return capsys.readouterr().err.removeprefix("error: ")

    return run
