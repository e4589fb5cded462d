"""The comparison of learning rates of examples/rate_search."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

# Importing it takes seconds: not where tests are only collected.
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="sklearn is not installed")


def result(entropy: list[float], trials: int = 0, searching: float = 0.0) -> dict[str, object]:
    times = {"searching": searching, "learning": float(len(entropy))}
    return {"entropy": entropy, "rate": [0.1] * len(entropy), "trials": trials, **times}


@pytest.fixture
def results() -> dict[str, object]:
    return {
        "proposed": [result([1.0, 0.05, 0.01], 9, 0.33)],
        "fixedSearch": [result([1.0, 0.3, 0.04])],
        "bestRate": [result([1.0, 0.3, 0.2], 30, 3.0)],
        "overUnchanged": [result([1.0, 0.4, 0.3], 9, 0.3)],
        "noSearch": [result([1.0, 0.5, 0.4])],
    }


def test_the_tables(example, script, results) -> None:
    figure = script(example("rate_search") / "figure.py")
    assert figure["epochs_to"]([1.0, 0.05, 0.01]) == 2
    assert figure["epochs_to"]([1.0]) is None
    assert figure["overhead"](results) == pytest.approx(0.11)
    text = figure["tables"](results)
    assert "| proposed search | 0.01000 |" in text
    assert "| best rate | never |" in text
    assert text.endswith("Trials per epoch: 3.0. Searching takes 11 % of the time of learning.")


@pytest.mark.thorough  # delay_compensation draws its table and its figure
@pytest.mark.slow
def test_the_figure(example, script, results) -> None:
    pytest.importorskip("matplotlib")
    folder = example("rate_search")
    script(folder / "figure.py")["draw"](results, folder / "figure.svg")
    text = (folder / "figure.svg").read_text(encoding="utf-8")
    assert text.lstrip().startswith("<?xml")
    assert len(text) > 10_000


OTHERS = ("bestRate", "overUnchanged", "fixedSearch", "noSearch")


@pytest.mark.parametrize("strategy", ["proposed", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_every_strategy_runs(example, strategy, capsys: pytest.CaptureFixture[str]) -> None:
    example("rate_search")
    small = ["maxEpochs=2", "epochSize=256", "numSamples4Search=64"]
    assert main(["configFile=digits.cntk", f"strategy={strategy}", *small]) == 0
    log = capsys.readouterr().err
    assert log.count("[Training] ce = ") == 2
    assert ("Finished Mini-Epoch" in log) == (strategy not in ("fixedSearch", "noSearch"))


@pytest.mark.slow
def test_files_like_those_of_mnist(example, capsys: pytest.CaptureFixture[str]) -> None:
    example("rate_search", idx=True, train=300, t10k=50)
    assert main(["data", "mnist", "--from", ".", "--no-checksum", "--only", "text"]) == 0
    small = ["maxEpochs=2", "epochSize=300", "numSamples4Search=64"]
    assert main(["configFile=digits.cntk+mnist.cntk", "strategy=proposed", *small]) == 0
    found = re.findall(r"\[Validate\] ce = ([\d.]+) \* 50; errs", capsys.readouterr().err)
    assert len(found) == 2
    assert float(found[1]) < float(found[0]) < 2.5


@pytest.mark.thorough
@pytest.mark.slow
def test_the_proposed_search_ends_lowest(example, script) -> None:
    """One seed, and fewer and shorter epochs than on the page."""
    pytest.importorskip("matplotlib")
    folder = example("rate_search")
    script(folder / "figure.py")["main"](["--seeds", "1", "maxEpochs=5", "epochSize=4041", "numSamples4Search=300"])
    runs = json.loads(Path("run/results.json").read_text(encoding="utf-8"))
    last = {name: run[0]["entropy"][-1] for name, run in runs.items()}
    assert min(last, key=last.__getitem__) == "proposed"
    assert (folder / "figure.svg").is_file()
