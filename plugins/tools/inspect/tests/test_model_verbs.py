"""``cntk plot`` and ``cntk dump``, with their exact output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import Input, Network, Node, Parameter
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
            "cntk-core (cntk-core 0.1.0)\n",
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
