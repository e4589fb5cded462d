"""``cntk plot`` and ``cntk dump``, with their exact output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import Input, Network, Node, Parameter, core_ops
from cntk_core.api.builders import Block
from cntk_kit_recipes.cli import main
from cntk_testing.inside import TIMES, save_model

RECIPE = """\
command = T:S
T = [ action = train ; NDLNetworkBuilder = [ run = n ; n = [
 x = Input($dim$) ; s = Sigmoid(x) ; FeatureNodes = (x) ; OutputNodes = (s) ] ] ]
S = [ action = train ; NDLNetworkBuilder = [ run = n ; n = [
 x = Input(7) ; t = Tanh(x) ; FeatureNodes = (x) ; OutputNodes = (t) ] ] ]
dim = 3
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = Network(np.float64)
    features = network.add(Input.make("x", (2,)))
    weights = network.add(Parameter.make("W", (2, 1), value=np.array([[1.0], [2.5]])))
    z = network.add(Node("z", TIMES, [weights, features], attributes=TIMES.attributes()))
    network.mark(z, "output")
    network.infer()
    save_model(network, "m.dnn")
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")


def test_plot_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "m.dnn"]) == 0
    assert capsys.readouterr().out == "m.dnn.svg: 3 nodes\n"
    assert Path("m.dnn.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_plot_as_dot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "m.dnn", "-o", "new/net.dot"]) == 0
    assert '"W" -> "z" ; \n' in Path("new/net.dot").read_text(encoding="utf-8")


def test_plot_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "r.cntk", "dim=5", "-o", "-"]) == 0
    assert ">Sigmoid [5 x *]<" in capsys.readouterr().out
    assert main(["plot", "r.cntk", "--section", "S", "-o", "-"]) == 0
    assert ">Tanh [7 x *]<" in capsys.readouterr().out


def test_plot_in_another_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "m.dnn", "-o", "net.png"]) == 2
    assert capsys.readouterr().err == (
        "error: 'net.png' cannot be drawn: the suffix of the file says what is written\n"
        "    .svg, .dot, .gv; for a bitmap give the .dot file to graphviz: dot -Tpng net.dot -o net.png\n"
    )


def test_dump(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "m.dnn"]) == 0
    assert capsys.readouterr().out == (
        "W=LearnableParameter [1,2]   learningRateMultiplier=1.000000  NeedsGradient=true"
        f" \n 1 2.5 \n {'#' * 68} \nx=InputValue [ 2 ] \nz=Times ( W , x )\n"
    )


def test_dump_some_nodes_without_values_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "m.dnn", "--node", "[Wx]", "--no-values", "-o", "out/d.txt"]) == 0
    assert Path("out/d.txt").read_text(encoding="utf-8") == (
        " \nW=LearnableParameter [1,2]   learningRateMultiplier=1.000000  NeedsGradient=true \nx=InputValue [ 2 ]"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["dump", "m.dn"], 1, "the model 'm.dn' does not exist; did you mean 'm.dnn'?\n"),
        (
            ["dump", "r.cntk"],
            1,
            "'r.cntk' is no model: no format recognizes it\n    Formats: CNTK-1, DBN (cntk-model-cntk1 0.1.0), "
            "CNTK-2 (cntk-model-cntk2 0.1.0), cntk-core (cntk-core 0.1.0), nnet1 (cntk-reader-kaldi 0.1.0), "
            "ONNX (cntk-model-onnx 0.1.0), weights (cntk-model-weights 0.1.0)\n",
        ),
        (["dump", "m.dnn", "--node", "Z."], 2, "no node matches 'Z.'; did you mean 'z'?\n    Nodes: x, W, z\n"),
        (
            ["dump", "m.dnn", "--node", "W("],
            2,
            "'W(' is not a regular expression: missing ), unterminated subpattern at position 1\n",
        ),
        (
            ["plot", "m.dn"],
            1,
            "<command line>:1:12: cannot read the config file 'm.dn': No such file or directory; "
            "did you mean 'm.dnn'?\n"
            "    Relative paths count from currentDirectory, or from where the command was started.\n",
        ),
    ],
)
def test_mistakes(arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == status
    assert capsys.readouterr().err == f"error: {message}"


def test_recipe_without_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.cntk").write_text("command = D\nD = [ action = dumpNodes ; modelPath = m.dnn ]\n", encoding="utf-8")
    assert main(["plot", "s.cntk"]) == 1
    assert capsys.readouterr().err == "error: s.cntk: no section of the recipe describes a network\n"


@pytest.fixture
def layered() -> None:
    """``b.dnn``: a layer of two nodes as a block."""
    network = Network(np.float64)
    x = network.add(Input.make("x", (2,)))
    weights = network.add(Parameter.make("W", (2, 1), value=np.array([[1.0], [2.5]])))
    times = network.add(Node("times", TIMES, [weights, x], attributes=TIMES.attributes()))
    total = network.add(Node("out", core_ops().find("", "Tanh"), [times]))
    network.add_block(Block("layer", "Dense", {times: None, total: None}, [total], {"x": [(times, 1)]}))
    network.infer()
    save_model(network, "b.dnn")


@pytest.mark.usefixtures("layered")
def test_blocks_are_closed_unless_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "b.dnn", "-o", "-"]) == 0
    closed = capsys.readouterr().out
    assert main(["plot", "b.dnn", "-o", "-", "--depth", "1"]) == 0
    opened = capsys.readouterr().out
    assert (">Dense [1 x *]<" in closed, ">times<" in closed) == (True, False)
    assert (">Dense [1 x *]<" in opened, ">times<" in opened) == (False, True)
    assert main(["plot", "b.dnn", "-o", "b.dot"]) == 0
    assert '"layer" [ label = "layer [1 x *]\\nDense" ]' in Path("b.dot").read_text(encoding="utf-8")


@pytest.mark.usefixtures("layered")
def test_a_dump_has_blocks_as_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "b.dnn", "--no-values"]) == 0
    head = "W=LearnableParameter [1,2]   learningRateMultiplier=1.000000  NeedsGradient=true"
    assert capsys.readouterr().out == f"layer=Dense ( x , W ) \n{head} \nx=InputValue [ 2 ]\n"
    assert main(["dump", "b.dnn", "--no-values", "--depth=-1"]) == 0
    assert "out=Tanh ( times ) \ntimes=Times ( W , x ) \n" in capsys.readouterr().out
    assert main(["dump", "b.dnn", "--node", "times"]) == 0  # a name is looked for inside
    assert capsys.readouterr().out == "times=Times ( W , x )\n"


PYTHON = """\
from cntk_builder_python import Dense, Sequential, cross_entropy_with_softmax, sigmoid


def build(graph):
    z = Sequential(Dense(3, sigmoid), Dense(2, name="last"))(graph.input("x", 4))
    graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2)), "ce")
    graph.output(z, "z")
"""


def test_explain_lists_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.py").write_text(PYTHON, encoding="utf-8")
    Path("p.cntk").write_text('command=T\nT=[ action=train\nPythonNetworkBuilder=[ file="net.py" ] ]', encoding="utf-8")
    assert main(["explain", "p.cntk"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "T: 12 nodes, 2 blocks"
    assert "  dense = Dense (x, dense.W, dense.b) : [3 x *]" in lines
    assert "  z = Dense (dense, last.W, last.b) : [2 x *]" in lines
    assert main(["explain", "p.cntk", "--depth", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  dense = Dense (x) : [3 x *]" in lines
    assert "    Sigmoid = Sigmoid (Plus) : [3 x *]" in lines
