"""The action SVD: from a model to a smaller one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import Input, Network, Node, Parameter
from cntk_core.api.builders import parse_text
from cntk_core.api.recipes import Log
from cntk_kit_recipes.cli import main
from cntk_testing.inside import TIMES, ActionContext, save_model


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = Network(np.float64)
    features = network.add(Input.make("features", (4,)))
    inner = features
    for name, shape in (("W0", (4, 6)), ("W1", (6, 3))):
        value = np.random.default_rng(len(name)).standard_normal(shape)
        matrix = network.add(Parameter.make(name, shape, value=value))
        inner = network.add(Node(f"{name}*", TIMES, [matrix, inner], attributes=TIMES.attributes()))
    network.mark(inner, "output")
    network.infer()
    save_model(network, "m.dnn")


def run(keys: str, status: int = 0) -> None:
    Path("r.cntk").write_text(
        "command = X\nprecision = double\n"
        f"X = [ action = SVD ; modelPath = m.dnn ; outputmodelPath = s.dnn ; {keys} ]\n",
        encoding="utf-8",
    )
    assert main(["configFile=r.cntk"]) == status


def reduced() -> Network:
    return ActionContext.create(parse_text("precision = double"), Log(quiet=True)).load_model("s.dnn")


def test_log_is_that_of_the_original(capsys: pytest.CaptureFixture[str]) -> None:
    run('KeepRatio = 0.5 ; AlignedSize = 2 ; NodeNameRegex = "W.*"')
    text = re.sub(r"time +[0-9.]+ secs", "time 0.00 secs", capsys.readouterr().err)
    assert f"{'-' * 92}\nParameterSVD: start to process group 0 with KeepRatio=0.50\n{'-' * 92}\n" in text
    assert (
        "Performing SVD for a     6-by-4     matrix (node name: W0                  ) ---  computation time 0.00 secs ;"
        "  keep 50.0% energy ===> keep     2 svd values (reduce to 83.3% parameters) \n"
    ) in text


def test_all_parameters_and_all_singular_values() -> None:
    run("KeepRatio = 1")
    network = reduced()
    assert [parameter.name for parameter in network.parameters] == ["W0_U", "W0_V", "W1_U", "W1_V"]
    assert [parameter.shape for parameter in network.parameters] == [(4, 6), (4, 4), (3, 3), (6, 3)]


def test_file_of_ratios() -> None:
    Path("ratios.txt").write_text("W1\t1.0\n\nW0   0\n", encoding="utf-8")
    run("SVDConfig = ratios.txt ; AlignedSize = 1")
    assert [parameter.shape for parameter in reduced().parameters] == [(1, 6), (4, 1), (3, 3), (6, 3)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            "KeepRatio = 1.5",
            "r.cntk:3:68: a KeepRatio is a number from 0 to 1, not '1.5'\n"
            "    It is the share of the sum of the singular values that is kept; 1 keeps all.\n",
        ),
        ("AlignedSize = 0", "r.cntk:3:68: AlignedSize must be at least 1, not 0\n"),
        (
            'NodeNameRegex = "W("',
            "r.cntk:3:68: 'W(' is not a regular expression: missing ), unterminated subpattern at position 1\n"
            "    It must match a whole parameter name, for example W.* for all names that begin with W.\n",
        ),
        ("SVDConfig = no.txt", "r.cntk:3:68: the SVDConfig 'no.txt' cannot be read: No such file or directory\n"),
        (
            "SVDConfig = bad.txt",
            "bad.txt:2: the line has 1 words, not 2\n    Each line has a regular expression for names of parameters, "
            "a blank or a tab, and a ratio, such as: W[1-5]  0.4\n",
        ),
    ],
)
def test_mistakes(keys: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.txt").write_text("W0 0.5\nW1\n", encoding="utf-8")
    run(keys, status=1)
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == message


def test_training_goes_on_from_a_reduced_model(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As recipes of the original do: the reduced model is the initial one of a training without a description."""
    assert main(["configFile=r.cntk", "Train=[modelPath=run/net.dnn]"]) == 0
    extra = "X = [ action = SVD ; modelPath = run/net.dnn ; outputmodelPath = run/small.dnn.0 ; KeepRatio = 1 ]\n"
    Path("more.cntk").write_text(extra, encoding="utf-8")
    arguments = ["configFile=r.cntk+more.cntk", "command=X:Train", "Train=[modelPath=run/small.dnn]"]
    assert main([*arguments, "Train=[NDLNetworkBuilder=[networkDescription=no.ndl;run=net]]"]) == 0
    text = capsys.readouterr().err
    assert "Starting from checkpoint. Loading network from 'run/small.dnn.0'.\n" in text
    assert "Warning: the description of the network is not used, 'run/small.dnn.0' is: " in text
    assert Path("run/small.dnn").exists()
