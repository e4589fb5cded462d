"""From letters to phones: examples/g2p."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

EVALUATED = r"Final Results: .*errors = +([\d.]+)%"


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("robe", "R OW B"),
        ("rob", "R AA B"),
        ("cel", "S EH L"),
        ("col", "K AA L"),
        ("gess", "JH EH S"),
        ("quighng", "K W AY NG"),
        ("tasa", "T AE Z AX"),
        ("yathy", "Y AE TH IY"),
        ("natchaine", "N AE CH EY N"),
        ("boxeck", "B AA K S AX K"),
    ],
)
def test_rules_of_the_language(example, script, word: str, phones: str) -> None:
    folder = example("g2p", train=3, test=2)
    assert script(folder / "make_data.py")["pronounce"](word) == phones.split()


def test_words_of_the_test_are_not_trained(example) -> None:
    folder = example("g2p", train=300, test=50)
    letters = (folder / "letters.txt").read_text(encoding="utf-8").split()
    words: dict[str, str] = {}
    for line in (folder / "train.ctf").read_text(encoding="utf-8").splitlines():
        key, _, rest = line.partition(" ")
        for letter in re.findall(r"\|letters (\d+):1", rest):
            words[key] = words.get(key, "") + letters[int(letter)]
    tested = [line.split("\t")[0] for line in (folder / "test.txt").read_text(encoding="utf-8").splitlines()]
    assert len(set(words.values())) == 300
    assert len(set(tested)) == 50
    assert not set(tested) & {word.removesuffix("</s>") for word in words.values()}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["attention", "thought"])
def test_it_runs_on_little_data(example, script, capsys: pytest.CaptureFixture[str], model: str) -> None:
    """Train, test and decode; a decoder needs no label but the first."""
    folder = example("g2p", train=20, test=6)
    command = "Train:Test:Greedy:Beam" + ":Window" * (model == "attention")
    assert main(["configFile=g2p.cntk", f"model={model}", f"command={command}", "Train=[SGD=[maxEpochs=1]]"]) == 0
    assert re.search(EVALUATED, capsys.readouterr().err)
    script(folder / "accuracy.py")["main"](folder)
    assert f"{model}, beam" in capsys.readouterr().out
    if model == "attention":
        windows = script(folder / "draw_attention.py")["windows_of"](folder)
        assert len(windows) == 6
        for word, (phones, rows) in windows.items():
            assert len(rows) == len(phones)
            assert all(len(row) == len(word) + 1 and abs(sum(row) - 1) < 0.02 for row in rows)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(900)  # half a minute of one core
def test_attention_learns_to_spell(example, script, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    folder = example("g2p", train=1200, test=60)
    rates = "Train=[SGD=[maxEpochs=5;minibatchSize=400;learningRatesPerSample=0.008]]"
    assert main(["configFile=g2p.cntk", rates]) == 0
    found = re.search(EVALUATED, capsys.readouterr().err)
    assert found is not None
    assert float(found[1]) < 35
    script(folder / "accuracy.py")["main"](folder)
    right = dict(re.findall(r"attention, (\w+) +([\d.]+) %", capsys.readouterr().out))
    assert float(right["greedy"]) > 5
    assert float(right["beam"]) >= float(right["greedy"]) - 3
    assert script(folder / "draw_attention.py")["draw"](folder, []).stat().st_size > 1000
    assert Path("run/attention/window.png").exists()
