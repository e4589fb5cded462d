"""Networks from layer sizes: nodes, names, order, groups."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cntk_builder_simple import SimpleNetworkBuilder

from cntk_core.api import BuildContext, CntkError, Network, NetworkBuilder, core_ops
from cntk_core.api.builders import Random, initialize_parameters, parse_text

Build = Callable[..., Network]

CE = "CrossEntropyWithSoftmax"


def described(network: Network) -> list[str]:
    return [
        f"{node.name} = {node.op.name}({', '.join(child.name for child in node.inputs)})"
        for node in network
        if node.op.role != "parameter"
    ]


def groups(network: Network) -> dict[str, list[str]]:
    return {role: [node.name for node in nodes] for role, nodes in network.roots.items()}


def test_it_is_a_builder() -> None:
    assert issubclass(SimpleNetworkBuilder, NetworkBuilder)


def test_all_nodes_of_a_deep_network(build: Build) -> None:
    """The validation listing of the original's Simple2d test, node by node."""
    made = build("layerSizes=2:50*2:2\nlayerTypes=Sigmoid\napplyMeanVarNorm=true\nneedPrior=true")
    assert described(made) == [
        "features = InputValue()",
        "MeanOfFeatures = Mean(features)",
        "InvStdOfFeatures = InvStdDev(features)",
        "MVNormalizedFeatures = PerDimMeanVarNormalization(features, MeanOfFeatures, InvStdOfFeatures)",
        "W0*features = Times(W0, MVNormalizedFeatures)",
        "W0*features+B0 = Plus(W0*features, B0)",
        "H1 = Sigmoid(W0*features+B0)",
        "W1*H1 = Times(W1, H1)",
        "W1*H1+B1 = Plus(W1*H1, B1)",
        "H2 = Sigmoid(W1*H1+B1)",
        "W2*H1 = Times(W2, H2)",
        "HLast = Plus(W2*H1, B2)",
        "labels = InputValue()",
        "CrossEntropyWithSoftmax = CrossEntropyWithSoftmax(labels, HLast)",
        "EvalClassificationError = ClassificationError(labels, HLast)",
        "Prior = Mean(labels)",
        "LogOfPrior = Log(Prior)",
        "ScaledLogLikelihood = Minus(HLast, LogOfPrior)",
        "PosteriorProb = Softmax(HLast)",
    ]
    assert [node.name for node in made.parameters] == ["W0", "B0", "W1", "B1", "W2", "B2"]
    assert groups(made) == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": ["CrossEntropyWithSoftmax"],
        "evaluation": ["EvalClassificationError"],
        "output": ["ScaledLogLikelihood"],
    }
    made.infer()
    assert made["W0"].shape == (2, 50)
    assert made["B1"].shape == (1, 50)
    assert made["H2"].shape == (1, 50)
    assert str(made["Prior"].where) == "r.cntk:5:1"


def test_no_hidden_layer(build: Build) -> None:
    made = build("layerSizes=4:3")
    assert described(made)[:2] == ["features = InputValue()", "W0*H-1 = Times(W0, features)"]
    assert groups(made)["output"] == ["HLast"]


def test_layer_types_and_dropout(build: Build) -> None:
    made = build("layerSizes=4:6:5:4:3\nlayerTypes=RectifiedLinear:tanh\naddDropoutNodes=true")
    assert described(made)[1:13] == [
        "W0*features = Times(W0, features)",
        "W0*features+B0 = Plus(W0*features, B0)",
        "H1 = RectifiedLinear(W0*features+B0)",
        "DropH1 = Dropout(H1)",
        "W1*H1 = Times(W1, DropH1)",
        "W1*H1+B1 = Plus(W1*H1, B1)",
        "H2 = Tanh(W1*H1+B1)",
        "DropH2 = Dropout(H2)",
        "W2*H2 = Times(W2, DropH2)",
        "W2*H2+B2 = Plus(W2*H2, B2)",
        "H3 = Tanh(W2*H2+B2)",
        "DropH3 = Dropout(H3)",
    ]
    assert described(made)[13:15] == ["W3*H2 = Times(W3, DropH3)", "HLast = Plus(W3*H2, B3)"]


def test_linear_layers(build: Build) -> None:
    made = build("layerSizes=4:6:3\nlayerTypes=None")
    assert described(made)[1:4] == [
        "W0*features = Times(W0, features)",
        "H1 = Plus(W0*features, B0)",
        "W1*H0 = Times(W1, H1)",
    ]


@pytest.mark.parametrize(
    ("training", "evaluation", "criteria", "evaluations"),
    [
        ("CrossEntropyWithSoftmax", "errorPrediction", [CE], ["EvalClassificationError"]),
        ("crossentropywithsoftmax", "crossEntropyWithSoftmax", [CE], [CE]),
        ("squareError", "squareError", ["SquareError"], ["SquareError"]),
        ("squareError", "crossEntropyWithSoftmax", ["SquareError"], [CE]),
        ("logistic", "squareError", ["Logistic"], ["SquareError"]),
        ("logistic", "ClassificationError", ["Logistic"], ["EvalClassificationError"]),
    ],
)  # fmt: skip
def test_criteria(build: Build, training: str, evaluation: str, criteria: list[str], evaluations: list[str]) -> None:
    made = build(f"layerSizes=4:3\ntrainingCriterion={training}\nevalCriterion={evaluation}")
    assert groups(made)["criterion"] == criteria
    assert groups(made)["evaluation"] == evaluations
    assert [child.name for child in made[evaluations[0]].inputs] == ["labels", "HLast"]


def test_initial_values(build: Build) -> None:
    made = build("layerSizes=4:5:3\nuniformInit=false\ninitValueScale=2", dtype=np.dtype(np.float64))
    assert made["W1"].initializer == Random("gaussian", 2.0)
    made.infer()
    initialize_parameters(made)
    assert made["W0"].value.dtype == np.float64
    assert np.array_equal(made["W0"].value, Random("gaussian", 2.0)((4, 5), np.dtype(np.float64), 1))
    assert np.array_equal(made["W1"].value, Random("gaussian", 2.0)((5, 3), np.dtype(np.float64), 2))
    assert not made["B0"].value.any()
    assert build("layerSizes=4:3")["W0"].initializer == Random("uniform", 1.0)


def test_keys_without_effect_are_mentioned(build: Build) -> None:
    lines: list[str] = []
    made = build("layerSizes=4:3\nrnnType=SIMPLENET\nrecurrentLayer=1\noutputLayerSize=7", trace=lines.append)
    assert groups(made)["output"] == ["HLast"]
    assert lines == [
        "r.cntk:4:1: recurrentLayer has no effect in a feed-forward network",
        "r.cntk:5:1: outputLayerSize has no effect in a feed-forward network",
    ]


def test_options_of_a_parent_section() -> None:
    table = core_ops()
    text = "layerSizes=4:3\nTrain=[ SimpleNetworkBuilder=[ layerTypes=Tanh ; deviceId=auto ] ]"
    block = parse_text(text).section("Train").own("SimpleNetworkBuilder")
    made = SimpleNetworkBuilder().build(block, BuildContext(table.find, lambda language: ()))
    assert made["features"].shape == (4,)


def test_operations_that_are_missing() -> None:
    table = core_ops()
    block = parse_text("B=[\nlayerSizes=4:5:3\nlayerTypes=Tanh\n]", file="r.cntk").own("B")
    without = {"Tanh", "Softmax"}
    context = BuildContext(lambda language, name: None if name in without else table.find(language, name), table.names)
    with pytest.raises(CntkError) as error:
        SimpleNetworkBuilder().build(block, context)
    assert str(error.value) == (
        "r.cntk:3:1: the operation 'Tanh' is not there yet\n"
        "r.cntk:2:1: the operation 'Softmax' is not there yet\n"
        "2 problems found"
    )
