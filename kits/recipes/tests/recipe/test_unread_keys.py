"""Keys that nothing reads: noted in one line, errors if they look like others or if the recipe is strict."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

RECIPE = """command = Train:Test
modelPath = "m/net.dnn"
reader = [
    file = "d.txt"
    oldCache = 3
    input = [ features = [ dim = 2 ; format = dense ; shade = 1 ] ; labels = [ dim = 1 ; format = dense ] ]
]
Train = [
    action = train
    SimpleNetworkBuilder = [ layerSizes = 2:1 ; trainingCriterion = SquareError ; paintItBlack = true ]
    SGD = [
        maxEpochs = 1 ; minibatchSize = 4 ; learningRatesPerSample = 0.01
        wobble = 2
    ]
]
Test = [ action = test ]
"""
HINTED = {
    "randomizationSed": "r.cntk:5:5: reader 'CNTKTextFormatReader' has no option 'randomizationSed'; "
    "did you mean 'randomizationSeed'?",
    "learningRatesPerMB": "r.cntk:5:5: reader 'CNTKTextFormatReader' has no option 'learningRatesPerMB', "
    "but the SGD block has\n    Move it there, or remove it.",
    "communicationTimeout": "r.cntk:5:5: reader 'CNTKTextFormatReader' has no option 'communicationTimeout', "
    "but the block parallelTrain has\n    Move it there, or remove it.",
    "layerSizes": "r.cntk:5:5: reader 'CNTKTextFormatReader' has no option 'layerSizes', "
    "but SimpleNetworkBuilder has\n    Move it there, or remove it.",
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.txt").write_text("".join(f"|features {n % 3} {n % 5} |labels {n % 3}\n" for n in range(20)))
    Path("r.cntk").write_text(RECIPE)


def log(capsys: pytest.CaptureFixture[str], *arguments: str, fails: bool = False) -> str:
    assert main(["configFile=r.cntk", *arguments]) == int(fails)
    return capsys.readouterr().err


def test_all_of_a_training_are_noted_in_one_line(capsys):
    told = [line for line in log(capsys).splitlines() if "nothing reads" in line]
    assert told == [
        "Note: nothing reads these keys (with strict=true they are errors): 'wobble' of the SGD block (r.cntk:13:9), "
        "'paintItBlack' of SimpleNetworkBuilder (r.cntk:10:83), 'oldCache' of reader 'CNTKTextFormatReader' "
        "(r.cntk:5:5), 'shade' of stream 'features' of reader 'CNTKTextFormatReader' (r.cntk:6:55)"
    ], "and the test, which reads the same block again, does not say so again"


def test_nothing_is_said_where_all_are_read(capsys):
    recipe = RECIPE.replace("oldCache = 3", "").replace("; shade = 1", "").replace("; paintItBlack = true", "")
    Path("r.cntk").write_text(recipe.replace("wobble = 2", ""))
    assert "nothing reads" not in log(capsys)


@pytest.mark.parametrize("strict", ["strict=true", "Strict=1"])
def test_strict(capsys, strict: str):
    error = log(capsys, strict, fails=True)
    assert "EXCEPTION occurred: r.cntk:13:9: the SGD block has no option 'wobble'\n    Options: " in error
    assert not Path("m").exists(), "nothing was begun"


def test_keys_of_the_top_level_without_effect(capsys):
    """They are noted with the others, once; other keys of the top level may be variables."""
    more = ["lockGPU=false", "excludedDevices=1", "DataDir=there"]
    told = [line for line in log(capsys, *more).splitlines() if "nothing reads" in line]
    assert told[0].startswith(
        "Note: nothing reads these keys (with strict=true they are errors): 'excludedDevices' of the top level "
        "(<command line>:3:1), 'lockGPU' of the top level (<command line>:2:1), "
    )
    assert len(told) == 1
    assert "DataDir" not in told[0]
    assert log(capsys, *more, "strict=true", fails=True).partition("EXCEPTION occurred: ")[2] == (
        "<command line>:3:1: excludedDevices has no effect here\n    Remove it.\n"
        "<command line>:2:1: lockGPU has no effect here\n    Remove it.\n2 problems found\n"
    )


def test_strict_in_the_recipe_and_not_on_the_command_line(capsys):
    Path("r.cntk").write_text(RECIPE + "strict = true\n")
    assert "has no option 'wobble'" in log(capsys, fails=True)
    assert "nothing reads" in log(capsys, "strict=false")


@pytest.mark.parametrize("key", HINTED)
def test_a_key_that_means_something_is_an_error(capsys, key: str):
    Path("r.cntk").write_text(RECIPE.replace("oldCache", key))
    assert f"EXCEPTION occurred: {HINTED[key]}" in log(capsys, fails=True)
    assert not Path("m").exists(), "nothing was begun"


def test_a_key_of_a_block_that_is_read_later(capsys):
    """When the SGD block is read, nobody has loaded the reader."""
    Path("r.cntk").write_text(RECIPE.replace("wobble", "skipSequenceIds"))
    assert (
        "EXCEPTION occurred: r.cntk:13:9: the SGD block has no option 'skipSequenceIds', "
        "but reader 'CNTKTextFormatReader' has\n    Move it there, or remove it." in log(capsys, fails=True)
    )
    assert not Path("m").exists(), "nothing was begun"


def test_check_data_and_config_say_so(capsys):
    assert main(["check-data", "r.cntk"]) == 0
    assert (
        "Note: nothing reads these keys (with strict=true they are errors): 'oldCache' of " in capsys.readouterr().err
    )
    assert main(["config", "check", "r.cntk"]) == 0
    assert "Note: nothing reads these keys (with strict=true they are errors): 'wobble' of " in capsys.readouterr().out
