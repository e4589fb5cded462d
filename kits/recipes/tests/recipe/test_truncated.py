"""Truncated training carries the state over: with a rate of nearly nothing it sees what whole sequences see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

RECIPE = """
command = Train
precision = double
modelPath = "net.dnn"
Train = [
    action = train
    NDLNetworkBuilder = [
        run = net
        net = [
            features = Input(1)
            labels = Input(1)
            W = Parameter(1, 1, init=fixedValue, value=0.5)
            R = Parameter(1, 1, init=fixedValue, value=0.9)
            h = Tanh(Plus(Times(W, features), Times(R, d)))
            d = PastValue(1, h, timeStep=1)
            sq = SquareError(labels, h)
            FeatureNodes = (features)
            LabelNodes = (labels)
            CriterionNodes = (sq)
        ]
    ]
    SGD = [ maxEpochs=1 ; minibatchSize=8 ; learningRatesPerSample=2e-9 ; momentumPerMB=0 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "s.ctf"
        randomize = false
        input = [ features=[ dim=1 ; format=dense ] ; labels=[ dim=1 ; format=dense ] ]
    ]
]
"""


def criterion(capsys: pytest.CaptureFixture[str], *arguments: str) -> float:
    Path("net.dnn").unlink(missing_ok=True)
    assert main(["configFile=r.cntk", *arguments]) == 0
    told = capsys.readouterr().err
    found = re.search(r"Finished Epoch.*? sq = ([0-9.e+-]+) \* 23;", told)
    assert found is not None, told
    return float(found.group(1))


def test_the_state_is_carried_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE)
    lengths = (7, 1, 4, 11)
    rows = [f"{s} |features {(s + t) % 3} |labels 0\n" for s, n in enumerate(lengths) for t in range(n)]
    Path("s.ctf").write_text("".join(rows))
    whole = criterion(capsys)
    for size, length in ((8, 4), (6, 3), (2, 1), (3, 3)):
        sgd = f"Train=[SGD=[minibatchSize={size}]]"
        found = criterion(capsys, "truncated=true", sgd, f"Train=[reader=[truncationLength={length}]]")
        assert found == pytest.approx(whole, abs=2e-8), (size, length)
