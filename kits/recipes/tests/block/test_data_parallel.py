"""``cntk train --data-parallel``: what it adds to which recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.config import load_recipe
from cntk_kit_recipes.block.data_parallel import overrides
from cntk_kit_recipes.verbs import run as verb
from cntk_kit_recipes.verbs.run import Train

METHOD = "parallelTrain=[parallelizationMethod=DataParallelSGD]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str) -> list[str]:
    Path("r.cntk").write_text(text, encoding="utf-8")
    return ["configFile=r.cntk"]


def added(text: str, *sections: str) -> list[str]:
    config = load_recipe(written(text))
    return overrides(config, [config.section(name) for name in sections or ("T",)])


def methods(text: str, *sections: str) -> list[str]:
    """The strategies of a recipe with what is added."""
    config = load_recipe([*written(text), *added(text, *sections)])
    assert config.boolean("parallelTrain", True)
    blocks = [config.section(name).section("SGD") for name in sections or ("T",)]
    return [block.section("parallelTrain").string("parallelizationMethod") for block in blocks]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("T = [ SGD = [ maxEpochs = 1 ] ]", [f"T=[SGD=[{METHOD}]]"]),
        ("SGD = [ maxEpochs = 1 ]\nT = [ action = train ]", [f"SGD=[{METHOD}]"]),
        ("T = [ SGD = [ parallelTrain = [ parallelizationMethod = none ] ] ]", [f"T=[SGD=[{METHOD}]]"]),
        ("T = [ SGD = [ parallelTrain = [ distributedMBReading = true ] ] ]", [f"T=[SGD=[{METHOD}]]"]),
        ("parallelTrain = false\nT = [ SGD = [ maxEpochs = 1 ] ]", ["parallelTrain=true", f"T=[SGD=[{METHOD}]]"]),
        ("T = [ action = train ]", []),
    ],
)
def test_what_is_added(text: str, wanted: list[str]) -> None:
    assert added(text) == wanted
    if "SGD" in text:
        assert methods(text) == ["DataParallelSGD"]


def test_a_section_that_cannot_be_read_hides_no_other() -> None:
    text = "T = [ SGD = 7 ]\nU = [ SGD = [ maxEpochs = 1 ] ]"
    assert added(text, "T", "U") == [f"U=[SGD=[{METHOD}]]"]


def test_what_a_recipe_says_stays() -> None:
    text = "T = [ SGD = [ ParallelTrain = [ parallelizationMethod = BlockMomentumSGD ] ] ]"
    assert added(text) == []


def test_several_sections() -> None:
    inherited = "SGD = [ maxEpochs = 1 ]\nT = [ action = train ]\nU = [ action = train ]"
    assert added(inherited, "T", "U") == [f"SGD=[{METHOD}]"]
    own = "T = [ SGD = [ maxEpochs = 2 ] ]\nU = [ SGD = [ maxEpochs = 3 ] ]"
    assert methods(own, "T", "U") == ["DataParallelSGD"] * 2


@pytest.mark.parametrize("words", [["--data-parallel"], []])
def test_the_option(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    written("command = T\nT = [ action = train ; SGD = [ maxEpochs = 1 ] ]")
    found: list[list[str]] = []
    monkeypatch.setattr(verb, "run_action", lambda options: found.append(options.overrides) or 0)
    parser = argparse.ArgumentParser()
    Train().add_arguments(parser)
    options = parser.parse_args(["r.cntk", "a=b", *words])
    options.verb, options.plugin = "train", []
    assert Train().run(options) == 0
    assert found == [["a=b", f"T=[SGD=[{METHOD}]]"] if words else ["a=b"]]
    Path("r.cntk").write_text("T = [", encoding="utf-8")
    options.overrides = []
    assert Train().run(options) == 0
    assert found[-1] == []  # what is wrong is told when it runs
