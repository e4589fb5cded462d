"""The acoustic model of examples/acoustic_ctc."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cntk_kit_recipes.cli import main


def test_the_data_is_that_of_its_labels(example, script) -> None:
    folder = example("acoustic_ctc", train=5, test=2)
    names = (folder / "phones.list").read_text(encoding="utf-8").split()
    said = script(folder / "transcribe.py")["read_labels"](folder / "train.mlf")
    assert list(said) == [f"train000{number}" for number in range(5)]
    ends = re.findall(r"^\d+ (\d+) (\w+)$", (folder / "train.mlf").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for _, name in ends} <= set(names[:-1])
    last = int(ends[-1][0])
    header, frames = np.fromfile(folder / "train/train0004.fbank", ">i4", 2), last // 100_000
    assert header.tolist() == [frames, 100_000]
    assert (folder / "train/train0004.fbank").stat().st_size == 12 + frames * 20 * 4
    assert main(["check-data", "acoustic.cntk"]) == 0


def test_the_same_seed_gives_the_same_data(example, script) -> None:
    folder = example("acoustic_ctc", train=2, test=1)
    first = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    script(folder / "make_data.py")["main"](folder, train=2, test=1)
    assert first == {path: path.read_bytes() for path in first}


@pytest.mark.slow
def test_it_runs_on_little_data(example, script, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example("acoustic_ctc", train=6, test=2)
    assert main(["configFile=acoustic.cntk", "Train=[SGD=[maxEpochs=1]]"]) == 0
    assert "phoneError = " in capsys.readouterr().err
    names = (folder / "phones.list").read_text(encoding="utf-8").split()
    assert len(script(folder / "transcribe.py")["read_best"](Path("run/out.p"), names)) == 2
    script(folder / "transcribe.py")["main"](folder)
    assert re.search(r"^\d+ of \d+ phones are wrong: [\d.]+ %$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.thorough  # a recipe of its kind learns in the tests of the other examples
def test_it_learns_the_phones(example, script, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example("acoustic_ctc", train=160, test=20)
    assert main(["configFile=acoustic.cntk", "Train=[SGD=[maxEpochs=12;learningRatesPerSample=0.005*10:0.001]]"]) == 0
    final = re.search(r"Final Results: .*phoneError = ([\d.]+) \* (\d+); ctc = ([\d.]+)", capsys.readouterr().err)
    assert final is not None
    assert float(final[1]) < 0.05
    assert float(final[3]) < 0.03
    script(folder / "transcribe.py")["main"](folder)
    wrong = re.search(r"wrong: ([\d.]+) %", capsys.readouterr().out)
    assert wrong is not None
    assert float(wrong[1]) < 4
