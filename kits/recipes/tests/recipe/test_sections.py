"""What is wrong with the section of an action, in the exact words."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

READER = """
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]
    ]
"""


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["configFile=r.cntk", *arguments]) == 1
    return capsys.readouterr().err.partition("EXCEPTION occurred: ")[2]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "action = test" + READER,
            "s.cntk:1:1: required parameter missing: X:modelPath\n    Add modelPath=... to the section X.\n",
        ),
        (
            "action = test ; modelPath = m",
            "s.cntk:1:1: required parameter missing: X:reader\n    Add reader=... to the section X.\n",
        ),
        (
            "action = test ; modelPath = m.dnn" + READER,
            "s.cntk:1:35: the model 'm.dnn' does not exist\n    Train it first, or mend modelPath.\n",
        ),
        (
            "action = write ; modelPath = m" + READER,
            "s.cntk:1:1: write command: You must specify either 'writer' or 'outputPath'\n"
            "    Add outputPath=..., the beginning of the names of the files, or - for standard output.\n",
        ),
        (
            "action = write ; modelPath = m ; writer = [ a = 1 ]" + READER,
            "s.cntk:1:40: required parameter missing: X:writer:writerType\n"
            "    Is 'writer' (s.cntk:1:40) meant for it?\n",
        ),
        (
            "action = write ; modelPath = m ; outputPath = o ; nodeUnitTest = true" + READER,
            "s.cntk:1:57: nodeUnitTest, a test that the original ran of its own nodes, is not there\n"
            "    Leave it out. gradientcheck=true of an SGD block compares gradients with differences.\n",
        ),
        (
            "action = train ; modelPath = m ; optimizer = [ ] ; SimpleNetworkBuilder = [ layerSizes = 2:2 ] ; "
            "SGD = [ maxEpochs = 1 ; learningRatesPerSample = 0.1 ]" + READER,
            "s.cntk:1:40: optimizer=... belongs to recipes that are BrainScript as a whole (cntk -f)\n"
            "    Call the block SGD.\n",
        ),
        (
            "action = cv ; modelPath = m" + READER,
            "s.cntk:1:1: required parameter missing: X:crossValidationInterval\n"
            "    Add crossValidationInterval=... to the section X.\n",
        ),
        (
            "action = cv ; modelPath = m ; crossValidationInterval = 1:3" + READER,
            "s.cntk:1:63: X:crossValidationInterval must be first:step:last, not '1:3'\n"
            "    Accepted: three epoch numbers such as 1:1:10; the step is at least 1.\n",
        ),
        (
            "action = cv ; modelPath = m ; crossValidationInterval = 1:1:3" + READER,
            "s.cntk:1:21: No model is evaluated.\n"
            "    crossValidationInterval names epochs, and modelPath.<epoch> are the files.\n",
        ),
        (
            "action = dumpNodes ; modelPath = m ; printValues = false ; printMetadata = false",
            "s.cntk:1:66: printValues and printMetadata: Since both are set to false, there will be nothing to dump\n"
            "    Set one of them to true.\n",
        ),
        (
            'action = dumpNodes ; modelPath = m ; nodeNameRegex = "W("',
            "s.cntk:1:61: nodeNameRegex is not a regular expression: missing ), unterminated subpattern at position 1\n"
            "    It must match a whole node name, for example W.* for all names that begin with W.\n",
        ),
        (
            "action = train ; modelPath = m ; SGD = [ maxEpochs = 1 ; learningRatesPerSample = 0.1 ]" + READER,
            "s.cntk:1:1: No network builder found in the section X\n"
            "    one of these must be specified: createNetwork, SimpleNetworkBuilder, NDLNetworkBuilder, "
            "BrainScriptNetworkBuilder, ExperimentalNetworkBuilder, PythonNetworkBuilder\n",
        ),
        (
            "action = train ; modelPath = m ; SGD = [ maxEpochs = 1 ; learningRatesPerSample = 1 ] ; "
            "NDLLNetworkBuilder = [ ]" + READER,
            "s.cntk:1:95: No network builder found in the section X: there is none called 'NDLLNetworkBuilder'; "
            "did you mean 'NDLNetworkBuilder'?\n"
            "    one of these must be specified: createNetwork, SimpleNetworkBuilder, NDLNetworkBuilder, "
            "BrainScriptNetworkBuilder, ExperimentalNetworkBuilder, PythonNetworkBuilder\n",
        ),
    ],
)
def test_wrong_sections(section: str, message: str, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.cntk").write_text(f"X = [ {section} ]\n", encoding="utf-8")
    assert main(["configFile=s.cntk", "command=X"]) == 1
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == message


def test_all_that_is_wrong_with_a_training_is_reported_together(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = failed(capsys, "Train=[reader=[readerType=ImageRedaer];SGD=[learningRatesPerMB=1;momentumPerMB=2]]")
    assert [line.partition(": ")[2] for line in text.splitlines() if line.startswith("<command line>")] == [
        "no reader named 'ImageRedaer'; did you mean 'ImageReader'?",
        "'learningRatesPerSample' and 'learningRatesPerMB' are both given",
        "momentumPerMB must be in [0, 1), not 2",
    ]
    assert text.endswith("3 problems found\n")


def test_stream_that_the_reader_lacks(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.cntk").write_text(recipe.read_text(encoding="utf-8").replace("; labels =", "; targets =", 1), "utf-8")
    assert failed(capsys) == (
        "r.cntk:23:5: Could not map input 'labels' to the reader. Reader outputs only: features, targets\n"
        "    Add a stream labels=[ dim=... ; format=... ] to the input of the reader.\n"
    )


def test_truncated_in_the_reader_alone(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "Train=[reader=[truncated=false]]") == (
        "<command line>:2:16: DisableLegacyUsage: setting Truncated only in reader section are not allowed. "
        "Please move Truncated=true/false to the top level section.\n"
    )


def test_nodes_to_evaluate(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["configFile=r.cntk"])
    capsys.readouterr()
    assert failed(capsys, "command=Test", "Test=[evalNodeNames=er:z:ce]") == (
        "<command line>:3:21: the network has no node 'er'; did you mean 'errs'?\n"
        "<command line>:3:24: Criterion nodes to evaluate must have dimension 1x1; 'z' is [2]\n"
        "2 problems found\n"
    )


def test_nodes_to_write(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["configFile=r.cntk"])
    capsys.readouterr()
    assert main(["configFile=r.cntk", "command=Write", "Write=[outputNodeNames=y]"]) == 1
    text = capsys.readouterr().err
    assert "PatchOutputNodes: No node named 'y'; skipping\n" in text
    assert text.partition("EXCEPTION occurred: ")[2] == (
        "<command line>:3:8: none of the outputNodeNames is in the network\n"
        "    Give outputNodeNames=...; the nodes are: features, labels, W, z, ce, errs\n"
    )


def test_verb_that_the_recipe_has_no_command_for(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.cntk").write_text(recipe.read_text(encoding="utf-8").partition("Test = [")[0], encoding="utf-8")
    assert main(["test", "r.cntk"]) == 1
    assert capsys.readouterr().err.endswith(
        "error: r.cntk: no command of the recipe has the action 'test'\n    Commands: Train\n"
    )


def test_an_epoch_of_one_training_and_the_final_model_of_another(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = recipe.read_text(encoding="utf-8")
    train = text[text.index("Train = [") : text.index("Test = [")]
    model = text.partition('modelPath = "')[2].partition('"')[0]
    recipe.write_text(f"{train.replace('Train = [', f'Again = [ modelPath = {model}.1')}{text}", encoding="utf-8")
    assert failed(capsys, "command=Again:Train") == (
        f"r.cntk:1:23: modelPath '{model}.1' is the name of the model after epoch 1 of the training 'Train' of the "
        "same recipe\n    Give another modelPath: neither of the two may write over the other.\n"
    )
    assert not Path(model).parent.exists()
    assert main(["configFile=r.cntk", "command=Again:Train", f"Again=[modelPath={model}.2]"]) == 0


def test_sections_that_tools_are_asked_for(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-data", "r.cntk", "--section", "Trian"]) == 1
    assert capsys.readouterr().err == (
        "error: r.cntk: the recipe has no section 'Trian'; did you mean 'Train'?\n    Commands: Train\n"
    )
