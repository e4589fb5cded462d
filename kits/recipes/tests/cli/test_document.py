"""``cntk -f``: recipes that are BrainScript as a whole, from the command line to the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.errors import Location
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.document import is_document, split_document

NETWORK = """{
    x = Input {2}
    y = Input {1, tag = 'label'}
    z = Sequential (DenseLayer {3, activation = Tanh} : LinearLayer {1}) (x)
    ce = SquareError (y, z, tag = 'criterion')
    outputNodes = (z)
}"""

WHOLE = f"""\
# the same recipe twice: this is the one that is BrainScript
dir = 'run'
streams = [ x = [ dim = 2 ; format = 'dense' ] ; y = [ dim = 1 ; format = 'dense' ] ]
actions = new PrintAction [ what = 'epochs: ' + epochs ] : train : write
epochs = 2
precision = 'double'
train = new TrainAction [
    modelPath = dir + '/whole.dnn'
    optimizer = new SGDOptimizer [
        maxEpochs = epochs ; minibatchSize = 2 ; learningRatesPerSample = 0.1 : 0.05
    ]
    reader = new DataReaderPlugin [
        readerType = 'CNTKTextFormatReader' ; file = 'd.ctf' ; randomize = false ; input = streams
    ]
    BrainScriptNetworkBuilder = {NETWORK}
]
write = [ action = 'write' ; modelPath = train.modelPath ; outputPath = dir + '/out'
          reader = [ readerType = 'CNTKTextFormatReader' ; file = 'd.ctf' ; input = [ x = streams.x ] ] ]
"""

USAGE = 'cntk -f recipe.bs [-f more.bs] [-D "name = value"] [-I folder] [--cd folder]'

ORDINARY = f"""\
command = train
precision = double
train = [
    action = train
    modelPath = "run/ordinary.dnn"
    SGD = [ maxEpochs = 2 ; minibatchSize = 2 ; learningRatesPerSample = 0.1 : 0.05 ]
    reader = [
        readerType = CNTKTextFormatReader ; file = d.ctf ; randomize = false
        input = [ x = [ dim = 2 ; format = dense ] ; y = [ dim = 1 ; format = dense ] ]
    ]
    BrainScriptNetworkBuilder = {NETWORK}
]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "CNTK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    Path("w.bs").write_text(WHOLE, encoding="utf-8")
    Path("d.ctf").write_text("".join(f"|x {i} 1 |y {i % 2}\n" for i in range(6)), encoding="utf-8")
    return tmp_path


def failed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    assert main(list(arguments)) == code
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text.partition("EXCEPTION occurred: ")[2]


def test_a_whole_recipe_trains_as_the_ordinary_one_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-f", "w.bs"]) == 0
    log = capsys.readouterr().err
    assert "\nepochs: 2\n" in log
    assert "# train command (train action)" in log
    assert len(Path("run/out.z").read_text(encoding="utf-8").split()) == 6
    Path("r.cntk").write_text(ORDINARY, encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert Path("run/whole.dnn").read_bytes() == Path("run/ordinary.dnn").read_bytes()


def test_definitions_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc/more.bs").write_text("epochs = 7\n", encoding="utf-8")
    text = WHOLE.replace("epochs = 2\n", "include 'more.bs'\n")
    (tmp_path / "w.bs").write_text(text, encoding="utf-8")
    (tmp_path / "other").mkdir()
    line = ["--cd", "other", "-I", "../inc", "-f", "../w.bs", "-D", "actions = new PrintAction [ what = epochs + 1 ]"]
    assert main(line) == 0
    log = capsys.readouterr().err
    assert "Changed current directory to other\n" in log
    assert "\n8\n" in log
    assert Path.cwd() == tmp_path / "other"


def test_a_fail_action_comes_after_what_stands_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    actions = "actions = new PrintAction [ what = 'first' ] : new FailAction [ what = 'enough of ' + dir ] : train"
    assert main(["-f", "w.bs", "-D", actions]) == 1
    log = capsys.readouterr().err
    assert "\nfirst\n" in log
    assert log.endswith("EXCEPTION occurred: <command line>:4:48: enough of run\n")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("actions = 'nothing'", "<command line>:4:1: required parameter missing: nothing\n"),
        ("train = [ modelPath = dri ]", "<command line>:4:23: unknown identifier 'dri'; did you mean 'dir'?\n"),
        (
            "train = [ optimizer = [ maxEpochs = 'x' ] ]",
            "<command line>:4:37: train:SGD:maxEpochs must be a whole number, not 'x'\n",
        ),
        (
            "train = [ optimizer = [ minibatchSize = -1 ] ]",
            "<command line>:4:41: minibatchSize must be at least 1, not -1\n",
        ),
        ("deviceId = 0", "<command line>:4:12: deviceId=0 asks for a GPU, and no engine can compute on one here\n"),
        ("precision = 'half'", '<command line>:4:1: Invalid precision string: "half"'),
        ("type = 'float'", "<command line>:4:1: the parameter 'type' is called 'precision' now\n"),
        (
            "train = [ reader = [ readerType = 'CNTKTextFormatReadr' ] ]",
            "<command line>:4:35: no reader named 'CNTKTextFormatReadr'; did you mean 'CNTKTextFormatReader'?\n",
        ),
        (
            "train = [ BrainScriptNetworkBuilder = 1 ]",
            "<command line>:4:39: 'BrainScriptNetworkBuilder' must give a network, not the number 1\n",
        ),
        (
            "train = [ BrainScriptNetworkBuilder = [ z = 2 * ] ]",
            "<command line>:4:49: a value expected, not ']'\n",
        ),
        (
            "train = [ BrainScriptNetworkBuilder = [ x = Input {2, 1} ] ]",
            "<command line>:4:45: 'Input' takes 1 argument (dims), not 2\n"
            "    Write several dimensions as one argument: Input (m : n).\n",
        ),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], definition: str, message: str) -> None:
    assert failed(capsys, "-f", "w.bs", "-D", definition).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-f", "w.bs", "epochs=3"],
            "<command line>:3:1: 'epochs=3' belongs to no option\n"
            '    Values of a recipe\'s members are given as -D "epochs=3".\n',
        ),
        (["-f"], "<command line>:1:1: -f needs a value\n"),
        (["-D", "n = 1"], "no file is named\n"),
        (["-f", "w.bs", "-X"], "<command line>:3:1: unknown option '-X'\n"),
        (["-I", "a", "b"], "<command line>:3:1: 'b' belongs to no option\n"),
    ],
)
def test_command_lines_that_are_wrong(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    usage = "" if "epochs" in message else f"    {USAGE}\n"
    assert failed(capsys, *arguments, code=2) == message + usage


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "-f", "w.bs", "--cd", "nowhere") == (
        "<command line>:4:1: the folder 'nowhere' cannot be entered: No such file or directory\n"
    )


def test_a_command_line_taken_apart() -> None:
    line = split_document(["-f", "a.bs;b.bs", "c.bs", "-I", "x;y", "-D", "-1", "--file", "d.bs", "--cd", "z"])
    assert [path for path, _ in line.document.files] == ["a.bs", "b.bs", "c.bs", "d.bs"]
    assert line.document.folders == ("x", "y")
    assert line.document.definitions == (("-1", Location("<command line>", 7, 1)),)
    assert line.directory == ("z", Location("<command line>", 11, 1))


def test_which_command_lines_are_meant() -> None:
    assert is_document(["--cd", "x", "-f", "a.bs"])
    assert not is_document(["configFile=a.cntk", "-f"])
    assert not is_document(["n=1"])
