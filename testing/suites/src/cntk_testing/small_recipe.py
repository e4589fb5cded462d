"""A small recipe with data, for tests of whole actions: import the fixture :func:`recipe` in a ``conftest.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

RECIPE = """\
command = Train
precision = double
modelPath = "run/net.dnn"
Train = [
    action = train
    NDLNetworkBuilder = [
        run = net
        net = [
            features = Input(2)
            labels = Input(2)
            W = Parameter(2, 2, init=fixedValue, value=0.5)
            z = Times(W, features)
            ce = CrossEntropyWithSoftmax(labels, z)
            errs = ClassificationError(labels, z)
            FeatureNodes = (features)
            LabelNodes = (labels)
            CriterionNodes = (ce)
            EvalNodes = (errs)
            OutputNodes = (z)
        ]
    ]
    SGD = [ maxEpochs = 2 ; minibatchSize = 2 ; learningRatesPerSample = 0.1 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        randomize = false
        input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]
    ]
]
Test = [
    action = test
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]
    ]
]
Write = [
    action = write
    outputPath = "run/out"
    format = [ precisionFormat = ".3" ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        input = [ features = [ dim = 2 ; format = dense ] ]
    ]
]
"""

DATA = """\
|features 1 0 |labels 1 0
|features 0 1 |labels 0 1
|features 2 1 |labels 1 0
|features 1 3 |labels 0 1
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``r.cntk`` and ``train.ctf`` in the current directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "CNTK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "r.cntk"
    path.write_text(RECIPE, encoding="utf-8")
    (tmp_path / "train.ctf").write_text(DATA, encoding="utf-8")
    return path
