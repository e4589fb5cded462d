"""The statistics of batch normalization, node by node."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from cntk_action_classic.bnstat import Statistics, as_rows, normalizations, set_statistics
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import Input, Network, NetworkError, Node, Op, Parameter, Shape, core_ops
from cntk_kit_recipes.cli import main
from cntk_testing.inside import BatchNormalizationAttributes, load_model, save_model


def first(shapes: list[Shape], attributes: object) -> Shape:
    return shapes[0]


def normalization(name: str, data: Node, shape: Shape, network: Network) -> Node:
    parameters = [
        network.add(Parameter.make(f"{name}.{part}", size, value=np.zeros(size), learning_rate_multiplier=0))
        for part, size in (("scale", shape), ("bias", shape), ("mean", shape), ("variance", shape), ("count", (1,)))
    ]
    op = Op("BatchNormalization", (5, 6), first, attributes=BatchNormalizationAttributes, updates=frozenset({3, 4, 5}))
    return network.add(Node(name, op, [data, *parameters], attributes=BatchNormalizationAttributes()))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_statistics_over_minibatches(sizes: list[int]) -> None:
    values = np.random.default_rng(sum(sizes)).standard_normal((sum(sizes), 3))
    parts = np.split(values, np.cumsum(sizes)[:-1])
    found = Statistics()
    for part in parts:
        found.add(part)
    assert found.samples == len(values)
    if len(values):
        np.testing.assert_allclose(found.mean, values.mean(axis=0), atol=1e-12)
        spreads = [len(part) * part.var(axis=0, ddof=1) for part in parts if len(part) > 1]
        np.testing.assert_allclose(found.variance, np.sum(spreads, axis=0) / len(values), atol=1e-12)


def test_rows_of_channels() -> None:
    value = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)  # frames, channels, height, width
    rows = as_rows(value, 3)
    assert rows.shape == (8, 3)
    assert rows[:, 1].tolist() == [*value[0, 1].ravel(), *value[1, 1].ravel()]
    assert as_rows(value, 12).shape == (2, 12)


def test_node_is_frozen_with_its_statistics() -> None:
    network = Network(np.float64)
    node = normalization("bn", network.add(Input.make("x", (2,))), (2,), network)
    set_statistics(node, Statistics(7, np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    values = [network[f"bn.{part}"].value for part in ("scale", "mean", "variance", "count")]
    assert [value.tolist() for value in values if value is not None] == [[0, 0], [1, 2], [3, 4], [7]]
    assert node.attributes == BatchNormalizationAttributes(False, math.inf, math.inf)


def test_statistics_must_be_parameters() -> None:
    network = Network(np.float64)
    features = network.add(Input.make("x", (2,)))
    node = normalization("bn", features, (2,), network)
    node.inputs[3] = features
    with pytest.raises(NetworkError) as caught:
        set_statistics(node, Statistics(1, np.zeros(2), np.zeros(2)))
    assert caught.value.message == "input 4 of BatchNormalization 'bn' is no parameter but 'x'"


def test_order_of_evaluation() -> None:
    network = Network(np.float64)
    features = network.add(Input.make("x", (2,)))
    below = normalization("below", features, (2,), network)
    above = normalization("above", below, (2,), network)
    assert normalizations(network, [above]) == [below, above]


RECIPE = """\
command = Stat
precision = double
Stat = [
    action = bnstat
    modelPath = m.dnn
    itersPerNode = 2
    minibatchSize = 2
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        input = [ x = [ dim = 2 ; format = dense ] ]
    ]
]
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    """Data, a recipe, and a network with one normalization, to be saved as ``m.dnn``."""
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")
    Path("train.ctf").write_text("|x 1 0\n|x 3 4\n|x 5 2\n|x 1 2\n|x 100 100\n", encoding="utf-8")
    network = Network(np.float64)
    doubled = network.add(Node("doubled", find("Plus"), [features := network.add(Input.make("x", (2,))), features]))
    network.mark(real_normalization("bn", doubled, network), "evaluation")
    return network


def find(name: str) -> Op:
    op = core_ops().find("", name)
    assert op is not None
    return op


def real_normalization(name: str, data: Node, network: Network) -> Node:
    node = normalization(name, data, (2,), network)
    node.op, node.attributes = find("BatchNormalization"), find("BatchNormalization").attributes()
    return node


def run(network: Network, status: int = 0) -> None:
    network.infer()
    save_model(network, "m.dnn")
    assert main(["configFile=r.cntk"]) == status


def test_a_model_gets_statistics(model: Network, capsys: pytest.CaptureFixture[str]) -> None:
    run(model)
    found = load_model("m.dnn.PBN", core_ops().find)
    values = [found[f"bn.{part}"].value for part in ("mean", "variance", "count")]
    # The first four samples, in minibatches of two: 2x is 2 0, 6 8 and 10 4, 2 4.
    assert [value.tolist() for value in values if value is not None] == [[5, 4], [20, 16], [4]]
    assert found["bn"].attributes.normalization_time_constant == math.inf
    assert "Estimating Statistics --> bn\n" in capsys.readouterr().err


def test_a_model_without_normalization(model: Network, capsys: pytest.CaptureFixture[str]) -> None:
    model.roots["evaluation"] = [model["doubled"]]
    run(model, status=1)
    assert capsys.readouterr().err.endswith(
        "EXCEPTION occurred: r.cntk:5:17: the model 'm.dnn' has no BatchNormalization to evaluate\n"
    )
