"""The model of characters learns, and writes text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from cntk_core.model import Model
from cntk_kit_recipes.cli import main

Example = Callable[[str], Callable[[str], ModuleType]]


def make_data(script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["make_data.py", *arguments])
    script("make_data").main()


def perplexity_of_single_characters() -> float:
    """Of the test data, if the model only knew how frequent each character is."""
    found = [re.findall(r"\|next (\d+)", Path(name).read_text()) for name in ("train.ctf", "test.ctf")]
    train, test = (np.bincount(np.array(numbers, int), minlength=96) for numbers in found)
    chances = (train + 1) / (train + 1).sum()
    return float(np.exp(-(test * np.log(chances)).sum() / test.sum()))


def train(capsys: pytest.CaptureFixture[str], *arguments: str) -> float:
    """Train and test, and return the perplexity of the test data."""
    capsys.readouterr()
    assert main(["configFile=charlm.cntk", *arguments]) == 0
    log = capsys.readouterr().err
    found = re.search(r"Final Results: .*perplexity = ([0-9.]+)", log)
    assert found is not None, log
    return float(found.group(1))


@pytest.mark.slow
def test_a_few_minibatches_help(
    example_scripts: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_data(example_scripts("char_lm"), monkeypatch, "--passages", "60", "--length", "150")
    small = ("hiddenDim=16", "cpuKernels=numpy", "Train=[SGD=[maxEpochs=2;minibatchSize=400;epochSize=2000]]")
    found = train(capsys, *small)
    assert found < 0.5 * train(capsys, *small, "command=Test", "modelPath=run/charlm.dnn.0")


@pytest.mark.thorough
@pytest.mark.slow
def test_text_is_written(
    example_scripts: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = example_scripts("char_lm")
    make_data(script, monkeypatch, "--passages", "30")
    found = train(capsys, "hiddenDim=80", "Train=[SGD=[maxEpochs=6;minibatchSize=400]]")
    assert found < min(8, 0.4 * perplexity_of_single_characters())
    sample, model = script("sample").sample, Model.load("run/charlm.dnn")
    text = sample(model, "The ", 300, 0.3, seed=1)
    assert (text[:4], len(text)) == ("The ", 304)
    assert text == sample(model, "The ", 300, 0.3, seed=1) != sample(model, "The ", 300, 0.3, seed=2)
    words = set(re.findall(r"\w+", "\n".join(script("make_data").passages())))
    written = re.findall(r"\w+", text)
    assert sum(word in words for word in written) > 0.5 * len(written)
