"""The slot tagger learns its slots, in every spelling."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from cntk_core.model import Model
from cntk_kit_recipes.cli import main

Example = Callable[[str], Callable[[str], ModuleType]]
SMALL = ["embeddingDim=20", "hiddenDim=30", "hiddenDim2=60", "hiddenDim3=90", "hiddenDim4=120"]


def make_data(script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, train: int) -> list[str]:
    """Write the data, and return what the command line has to say about it."""
    monkeypatch.setattr("sys.argv", ["make_data.py", "--train", str(train), "--test", "100"])
    script("make_data").main()
    words, tags = (len(Path(name).read_text().split()) for name in ("words.txt", "tags.txt"))
    return [f"words={words}", f"tags={tags}"]


def error_of_test(log: str) -> float:
    found = re.search(r"Final Results: .*?errs = ([0-9.]+)%", log)
    assert found is not None, log
    return float(found.group(1))


def f1(script: Callable[[str], ModuleType], model: str) -> float:
    show_tags = script("show_tags")
    test = show_tags.read_sentences(Path("test.ctf"))
    found = show_tags.tag_sentences(Model.load(model), [[word for word, _ in sentence] for sentence in test])
    return float(show_tags.f1([[tag for _, tag in sentence] for sentence in test], found))


@pytest.mark.parametrize("train", ["Train", "TrainNDL", "TrainBoth"])
@pytest.mark.thinned(3)  # networks in NDL and both ways are built and trained by the wheels' own tests
def test_a_few_minibatches_help(
    train: str, example_scripts: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = make_data(example_scripts("slot_tagger"), monkeypatch, 80)
    rest = ["configFile=tagger.cntk", "cpuKernels=numpy", "SGD=[maxEpochs=2;minibatchSize=100]", *sizes, *SMALL]
    entropies = []
    for arguments in ([f"command={train}"], ["command=Test", "modelPath=run/tagger.dnn.0"], ["command=Test"]):
        capsys.readouterr()
        assert main([*rest, *arguments]) == 0
        entropies += re.findall(r"Final Results: .*; ce = ([0-9.]+)", capsys.readouterr().err)
    first, last = map(float, entropies)
    assert last < 0.6 * first


@pytest.mark.thorough  # a few minibatches help, above
@pytest.mark.slow
@pytest.mark.parametrize("train", ["Train", "TrainNDL", "TrainBoth"])
def test_the_tagger_finds_nearly_all_slots(
    train: str, example_scripts: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = example_scripts("slot_tagger")
    sizes = make_data(script, monkeypatch, 600)
    capsys.readouterr()
    rates = "SGD=[maxEpochs=10;minibatchSize=60;learningRatesPerSample=0.03]"
    assert main(["configFile=tagger.cntk", f"command={train}:Test", rates, *sizes, *SMALL]) == 0
    assert error_of_test(capsys.readouterr().err) < 3
    assert f1(script, "run/tagger.dnn") > 0.93


def test_slots_are_counted_as_conll_counts_them(example_scripts: Example) -> None:
    show_tags = example_scripts("slot_tagger")("show_tags")
    tags = ["O", "B-a", "I-a", "B-a", "O", "I-b", "I-c", "B-c"]
    assert show_tags.slots(tags) == {(1, 3, "a"), (3, 4, "a"), (5, 6, "b"), (6, 7, "c"), (7, 8, "c")}
    assert show_tags.show(list("uvwxyzst"), tags) == "u [a: v w] [a: x] y [b: z] [c: s] [c: t]"
    assert show_tags.f1([tags, ["B-a"]], [tags, ["O"]]) == pytest.approx(10 / 11)
    assert show_tags.f1([["B-a", "I-a"]], [["B-a", "O"]]) == 0
