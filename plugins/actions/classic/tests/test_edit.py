"""The action edit and the verb of that name: scripts, builders, one model on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import Network, core_ops
from cntk_kit_recipes.cli import main
from cntk_testing.inside import load_model

PRETRAINING = """\
precision = double
command = One:Add2:Two:Add3:Three
ndlMacros = "macros.ndl"
SGD = [ maxEpochs = 2 ; minibatchSize = 2 ; learningRatesPerSample = 0.5 ]
reader = [
    readerType = CNTKTextFormatReader
    file = "train.ctf"
    randomize = false
    input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]
]
One = [ action = train ; modelPath = "one/net.dnn" ; NDLNetworkBuilder = [ networkDescription = "one.ndl" ] ]
Add2 = [ action = edit ; editPath = "add.mel" ; below = 1 ; layer = 2
         old = "one/net.dnn" ; new = "two/net.dnn.0" ]
Two = [ action = train ; modelPath = "two/net.dnn" ; NDLNetworkBuilder = [ networkDescription = "one.ndl" ] ]
Add3 = [ action = edit ; editPath = "add.mel" ; below = 2 ; layer = 3
         old = "two/net.dnn" ; new = "three/net.dnn.0" ]
Three = [ action = train ; modelPath = "three/net.dnn" ; NDLNetworkBuilder = [ networkDescription = "one.ndl" ] ]
"""
MACROS = """\
Affine(x, rows, cols) { W = Parameter(rows, cols, init=uniform) ; b = Parameter(rows, 1, init=fixedValue, value=0)
    t = Times(W, x) ; z = Plus(t, b) }
Hidden(x, rows, cols) { A = Affine(x, rows, cols) ; y = Sigmoid(A.z) }
"""
ONE = """\
features = Input(2, tag=feature)
labels = Input(2, tag=label)
L1 = Hidden(features, 3, 2)
Out = Affine(L1.y, 2, 3)
ce = CrossEntropyWithSoftmax(labels, Out.z, tag=criterion)
OutputNodes = (Out.z)
"""
ADD = """\
m = LoadModel("$old$", format=cntk)
SetDefaultModel(m)
Dim = 3
L$layer$ = Hidden(L$below$.y, Dim, Dim)   # the new layer
SetInput(Out.t, 1, L$layer$.y)
SaveModel(m, "$new$", format=cntk)
Dump(m, "$new$.txt")
"""


def read(path: str) -> Network:
    return load_model(path, core_ops().find)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text


@pytest.fixture
def trained(recipe: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The recipe, and ``run/net.dnn`` that it trained."""
    run(capsys, "configFile=r.cntk")
    return recipe


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def test_layer_by_layer_training(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("p.cntk", PRETRAINING), ("macros.ndl", MACROS), ("one.ndl", ONE), ("add.mel", ADD)):
        write(name, text)
    log = run(capsys, "configFile=p.cntk")
    losses = [float(loss) for loss in re.findall(r"Finished Epoch\[.*?ce = ([0-9.]+)", log)]
    assert len(losses) == 6
    one, two, three = read("one/net.dnn"), read("two/net.dnn"), read("three/net.dnn")
    assert [len(network) for network in (one, two, three)] == [12, 17, 22]
    assert [child.name for child in three["Out.t"].inputs] == ["Out.W", "L3.y"]
    assert [child.name for child in three["L3.A.t"].inputs] == ["L3.A.W", "L2.y"]
    begun = read("two/net.dnn.0")
    np.testing.assert_array_equal(begun["L1.A.W"].value, one["L1.A.W"].value)
    assert not np.array_equal(begun["L2.A.W"].value, two["L2.A.W"].value)
    assert not np.array_equal(begun["L2.A.W"].value, read("three/net.dnn.0")["L3.A.W"].value)
    assert "L2.A.W=LearnableParameter" in Path("two/net.dnn.0.txt").read_text(encoding="utf-8")


def test_the_page_names_every_command_and_function() -> None:
    from cntk_builder_ndl.mel.commands import COMMANDS

    from cntk_kit_builders import edit

    page = (Path(__file__).parents[4] / "docs/mel.md").read_text(encoding="utf-8")
    names = {name for command in COMMANDS for name in (command.name, *command.aliases)} - {
        "DumpNetwork",
        "SaveModelWithName",
    }
    functions = {name for name, item in vars(edit).items() if getattr(item, "__module__", "") == edit.__name__}
    functions -= {name for name in functions if name.startswith("_")} | {"holds"}
    assert {name for name in names if f"`{name}" not in page and f" {name}(" not in page} == set()
    assert {name for name in functions if name not in page} == set()


def test_precision_is_kept_unless_the_recipe_asks_for_one(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("e.mel", "LoadModel(run/net.dnn)\nSaveDefaultModel($to$)\n")
    write("e.cntk", "command=E\nE=[ action=edit ; editPath=e.mel ]\n")
    run(capsys, "configFile=e.cntk", "to=a.dnn")
    run(capsys, "configFile=e.cntk", "to=b.dnn", "precision=float")
    assert read("a.dnn").dtype == np.float64
    assert read("b.dnn").dtype == np.float32


def test_mistakes_of_a_script_are_found_before_anything_runs(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("e.mel", "m=LoadModel(run/net.dnn)\nRenam(z\nSavModel(m)\n")
    text = run(capsys, "configFile=r.cntk", "command=Train:E", "E=[action=edit;editPath=e.mel]", code=1)
    assert text.partition("EXCEPTION occurred: ")[2] == (
        "e.mel:2:6: no closing ')' for this '('\n"
        "e.mel:3:1: there is no command 'SavModel'; did you mean 'SaveModel'?\n"
        "    Commands: CreateModel, CreateModelWithName, LoadModel, LoadModelWithName, LoadNDLSnippet, "
        "SaveDefaultModel, SaveModel, SetDefaultModel, UnloadModel, DumpModel, DumpNode, CopyNode, CopySubTree, "
        "CopyNodeInputs, SetNodeInput, SetNodeInputs, SetProperty, SetPropertyForSubTree, RemoveNode, Rename, "
        "ReviseParameter\n2 problems found\n"
    )
    assert not Path("run").exists()


def test_a_builder_makes_the_model(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("configFile=r.cntk", "command=E", "E=[action=edit;outputModelPath=new/m.dnn]")
    builder = "NDLNetworkBuilder=[run=n;n=[x=Input(2,tag=feature);W=Parameter(3,0);z=Times(W,x,tag=output)]]"
    log = run(capsys, *arguments, builder)
    assert "\nModel with 3 nodes saved as 'new/m.dnn'.\n" in log
    assert read("new/m.dnn")["W"].shape == (2, 3)
    log = run(capsys, *arguments, builder.replace("3,0", "4,0"))
    assert "'new/m.dnn' exists, skipping. Specify makeMode=false to force executing the action.\n" in log
    assert read("new/m.dnn")["W"].shape == (2, 3)
    run(capsys, *arguments, builder.replace("3,0", "4,0"), "makeMode=false")
    assert read("new/m.dnn")["W"].shape == (2, 4)


def test_a_script_and_an_output(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("e.mel", "LoadModel(run/net.dnn)\nRename(z, y)\n")
    run(capsys, "configFile=r.cntk", "command=E", "E=[action=edit;editPath=e.mel;outputModelPath=m.dnn]")
    assert "y" in read("m.dnn")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "a=b",
            "the edit action of E has neither a script nor a network builder\n"
            '    Give editPath="script.mel", or BrainScriptNetworkBuilder=[ ... ] with outputModelPath="model.dnn".\n',
        ),
        ("editPath=nix.mel", "cannot read the file 'nix.mel': No such file or directory"),
        ("NDLNetworkBuilder=[run=n;n=[x=Input(2,tag=feature)]]", "required parameter missing: E:outputModelPath"),
    ],
)
def test_sections_that_are_wrong(recipe: Path, capsys: pytest.CaptureFixture[str], section: str, message: str) -> None:
    write("e.cntk", f"command=E\nE=[\n action=edit\n {section}\n]\n")
    text = run(capsys, "configFile=e.cntk", code=1)
    assert message in text.partition("EXCEPTION occurred: ")[2]


# -- the verb ---------------------------------------------------------------------------------------------


def test_verb_with_a_script(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("e.mel", "m = LoadModel($from$)\nRename(z, $name$)\nSaveModel(m, m.dnn)\n")
    assert run(capsys, "edit", "e.mel", "from=run/net.dnn", "name=y") == "Model m with 6 nodes saved as 'm.dnn'.\n"
    assert "y" in read("m.dnn")
    assert run(capsys, "edit", "e.mel", "from=run/net.dnn", code=1) == (
        "error: e.mel:2:11: unknown variable $name$\n"
        "    Set it at the top level of the recipe or on the command line: name=...\n"
    )


def test_verb_with_commands(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("first.mel", "Rename(z, y)\n")
    text = run(
        capsys, "edit", "run/net.dnn", "-s", "first.mel", "-c", "h=Tanh(y) ; SetProperty(h, output, true)",
        "-c", "SetProperty(W, needGradient, $flag$)", "-o", "new/m.dnn", "flag=false",
    )  # fmt: skip
    assert text == "Model with 7 nodes saved as 'new/m.dnn'.\n"
    found = read("new/m.dnn")
    assert found.dtype == np.float64
    assert [node.name for node in found.roots["output"]] == ["y", "h"]
    assert not found.parameters[0].learned


def test_verb_without_output_saves_nothing(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("run/net.dnn").read_bytes()
    text = run(capsys, "edit", "run/net.dnn", "-c", "Rename(z, y)")
    assert text == "Give -o FILE to save the edited model.\n"
    assert Path("run/net.dnn").read_bytes() == before


def test_verb_runs_the_edit_actions_of_a_recipe(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("e.mel", "LoadModel(run/net.dnn)\nSaveDefaultModel(m.dnn)\n")
    run(capsys, "edit", "r.cntk", "command=Train:E", "E=[action=edit;editPath=e.mel]")
    assert Path("m.dnn").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run/net.dnn"],
            "error: 'run/net.dnn' is a model; say what is to be done with it\n"
            '    cntk edit run/net.dnn -c "SetProperty(z, output, true)" -o edited.dnn\n',
        ),
        (["nix.dnn", "-c", "Rename(a, b)"], "error: the model 'nix.dnn' does not exist\n"),
        (
            ["run/net.dnn", "-c", "Rename(zz, b)", "-o", "m.dnn"],
            "error: <command line>:1:8: the network has no node 'zz'; did you mean 'z'?\n",
        ),
        (
            ["run/net.dnn", "-c", "Remove(W)", "-c", "", "-o", "m.dnn"],
            "error: input 0 of Times 'z' leads nowhere: 'W' is not in the network any more\n"
            "    Link input 0 of 'z' to another node, or remove 'z' too.\n",
        ),
    ],
)
def test_verb_with_mistakes(
    trained: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code = 2 if "is a model" in message else 1
    assert run(capsys, "edit", *arguments, code=code) == message
    assert not Path("m.dnn").exists()
