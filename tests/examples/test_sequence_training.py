"""Sequence training: examples/sequence_training, over lattices and without them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_htk.denominator import main as write_graph

from cntk_kit_recipes.cli import main

FILES = ["train.said", "phones.tying", "phones.transitions", "states.list", "phones.graph"]


def wrong_phones(script, capsys: pytest.CaptureFixture[str]) -> float:
    capsys.readouterr()
    script(Path("recognise.py"))["main"](Path())
    found = re.search(r"wrong: ([\d.]+) %", capsys.readouterr().out)
    assert found is not None
    return float(found[1])


def values(log: str) -> list[float]:
    return [float(value) for value in re.findall(r"Finished Epoch.*?sequence = (-?[\d.]+)", log)]


@pytest.mark.slow
def test_it_runs_on_little_data(example, script, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.syspath_prepend(example("sequence_training", train=12, test=4))
    assert write_graph([*FILES, "--order", "2"]) == 0
    assert main(["configFile=sequence.cntk", "Train=[SGD=[maxEpochs=2]]", "Sequence=[SGD=[maxEpochs=2]]"]) == 0
    found = values(capsys.readouterr().err)
    assert len(found) == 2 + 8
    assert found[1] < found[0]
    assert found[-1] < found[2]
    assert 0 < wrong_phones(script, capsys) < 100


def test_lattices_have_what_was_said(example, script) -> None:
    folder = example("sequence_training", train=3, test=1)
    data = script(folder / "make_data.py")
    frames = data["means"]()[data["states_of"](0)].repeat(3, axis=0)
    seen = np.concatenate([np.zeros((1, 17)), np.cumsum(-((frames[:, None] - data["means"]()) ** 2).sum(axis=2), 0)])
    fitting = data["fitting"](seen, 0, 6, [7])
    assert {0, 7} <= {*fitting}
    assert len(fitting) <= data["FITTING"] + 1
    assert data["fitting"](seen, 2, 3, []) == [8]  # a phone of two states does not fit into one frame


@pytest.mark.thorough
def test_errors_fall_when_sequence_training_follows_cross_entropy(
    example, script, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.syspath_prepend(example("sequence_training"))
    assert write_graph([*FILES, "--order", "2"]) == 0
    assert main(["configFile=sequence.cntk", "command=Train:WriteFrames:Longer:WriteLonger"]) == 0
    longer = wrong_phones(script, capsys)
    for command in ("Sequence:WriteSequences", "Sequence:WriteSequences risk=true", "LatticeFree:WriteFree"):
        assert main(["configFile=sequence.cntk", *f"command={command}".split()]) == 0
        assert wrong_phones(script, capsys) < 0.9 * longer
