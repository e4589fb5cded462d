"""traceNodeNamesReal, ...Category, ...Sparse: values of nodes in the log of train, test and cv."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.node_traces import NodeTraces
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import sequence_layout

TRACED = "traceNodeNamesReal=z:nowhere;traceNodeNamesCategory=labels"


def blocks(log: str) -> list[list[str]]:
    """The blocks of traces, each with its lines."""
    found: list[list[str]] = []
    for line in log.splitlines():
        if "Trace --> " in line:
            found.append([line.partition("Trace --> ")[2]])
        elif found and line.startswith("  "):
            found[-1].append(line)
    return found


def test_a_training_prints_values(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=r.cntk", "command=Train", f"Train=[SGD=[maxEpochs=1;{TRACED}]]"]) == 0
    log = capsys.readouterr().err
    assert log.count("EnableNodeTracing: No node named 'nowhere'; skipping") == 1
    found = blocks(log)
    heads = {block[0] for block in found}
    assert heads == {
        "labels = InputValue() :  -> [2 x *]",
        "z = Times (W, features) : [2 x 2], [2 x *] -> [2 x *]",
    }
    steps = [block for block in found if block[0].startswith("z ")]
    numbers = [float(word) for line in steps[0][1:] for word in line.split()]
    assert numbers == [0.5] * len(numbers), "the weights are 0.5, and one feature of two is 1"
    assert len(steps) == len(found) // 2 > 1


def test_what_is_printed_is_no_part_of_what_is_learned(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def learned(*words: str) -> list[str]:
        assert main(["configFile=r.cntk", "command=Train", "makeMode=false", *words]) == 0
        lines = capsys.readouterr().err.splitlines()
        return [line.partition("; total")[0] for line in lines if line.startswith("Finished Epoch")]

    plain = learned()
    assert len(plain) == 2
    assert learned(f"Train=[SGD=[{TRACED}]]") == plain


def test_a_validation_prints_values(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe.read_text(encoding="utf-8")
    reader = text[text.index("    reader = [") : text.index("]\nTest = [")]
    recipe.write_text(text.replace(reader, reader + reader.replace("reader", "cvReader", 1), 1), encoding="utf-8")
    assert main(["configFile=r.cntk", "command=Train", "Train=[SGD=[maxEpochs=1;traceNodeNamesReal=errs]]"]) == 0
    log = capsys.readouterr().err
    assert len(blocks(log.partition("[Training]")[2])) == 2, "two minibatches of the validation set"


def test_an_evaluation_prints_values(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=r.cntk", "command=Train"]) == 0
    capsys.readouterr()
    words = ["Test=[minibatchSize=2 ; traceNodeNamesSparse=labels:ce ; evalNodeNames=errs]"]
    assert main(["configFile=r.cntk", "command=Test", *words]) == 0
    found = blocks(capsys.readouterr().err)
    assert [block[0].partition(" ")[0] for block in found] == ["labels"] * 2, "ce is not computed for errs"
    assert [line for block in found for line in block[1:]] == ["  [0]", "  [1]", "  [0]", "  [1]"]


def test_the_form() -> None:
    made = Sketch("float32")
    x = made.input("x", 3)
    y = made.op("Tanh", x, name="y")
    network = made.finish(None, y).network
    said: list[str] = []
    traces = NodeTraces({"X": "real", "y": "category"}, said.append)
    roots = traces.nodes(network, [y])
    program = ReferenceEngine().compile(make_plan(network, roots), ParameterStore(network.parameters, network.dtype))
    rows = np.array([[1, 0, 2], [0.5, 3, 1], [0, 0, -0.0]], np.float32)
    program.evaluate(Minibatch({"x": StreamData(rows, sequence_layout([2, 1]))}, 3))
    traces.show(program)
    assert said == [
        "Trace --> x = InputValue() :  -> [3 x *]\n"
        "   1.0000000000  0.0000000000\n   0.0000000000  0.0000000000\n   2.0000000000  0.0000000000\n"
        "   0.5000000000\n   3.0000000000\n   1.0000000000",
        "Trace --> y = Tanh (x) : [3 x *] -> [3 x *]\n   2.0000000000  2.0000000000\n   1.0000000000",
    ]
