"""SIMPLERNN and CLASSLM: every node, its inputs and its shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cntk_core.api.builders import FixedValue, Random

Describe = Callable[[str], Any]
CLASSES = "trainingCriterion=classCrossEntropyWithSoftmax\nevalCriterion=classcrossentropywithsoftmax\nnbrClass=2"


def test_simple_recurrent_network(describe: Describe) -> None:
    made = describe("rnnType=SIMPLERNN\nlayerSizes=6:5:4:3\nrecurrentLayer=1\nneedPrior=true")
    assert made.lines == [
        "features = SparseInputValue() [6 x *]",
        "AutoName1 = PastValue(AutoName5) [5 x *]",
        "AutoName2 = Times(W0, AutoName1) [5 x *]",
        "AutoName3 = Times(U0, features) [5 x *]",
        "AutoName4 = Plus(AutoName3, AutoName2) [5 x *]",
        "AutoName5 = Sigmoid(AutoName4) [5 x *]",
        "AutoName6 = Times(U1, AutoName5) [4 x *]",
        "AutoName7 = Plus(AutoName6, B1) [4 x 1 x *]",
        "AutoName8 = Sigmoid(AutoName7) [4 x 1 x *]",
        "labels = InputValue() [3 x *]",
        "AutoName9 = Times(W2, AutoName8) [3 x 1 x *]",
        "criterion = CrossEntropyWithSoftmax(labels, AutoName9) [1]",
        "eval = ClassificationError(labels, AutoName9) [1]",
        "outputs = Times(W2, AutoName8) [3 x 1 x *]",
        "AutoName10 = Mean(labels) [3]",
    ]
    assert made.parameters == ["U0 [5 x 6]", "W0 [5 x 5]", "U1 [4 x 5]", "B1 [4 x 1]", "W2 [3 x 4]"]
    assert made.groups == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": ["criterion"],
        "evaluation": ["eval"],
        "output": ["outputs"],
    }
    assert made.said == []


def test_all_layers_recurrent_with_dropout_and_types(describe: Describe) -> None:
    """The recurrent layers of a plain network all have the first type."""
    made = describe(
        "rnnType=SIMPLERNN\nlayerSizes=6:5:4:3\nrecurrentLayer=1:2\nlayerTypes=RectifiedLinear:Tanh\n"
        "addDropoutNodes=true\napplyMeanVarNorm=true\nevalCriterion=crossEntropyWithSoftmax"
    )
    assert made.lines[1:] == [
        "AutoName1 = Mean(features) [6]",
        "AutoName2 = InvStdDev(features) [6]",
        "AutoName3 = PerDimMeanVarNormalization(features, AutoName1, AutoName2) [6 x *]",
        "AutoName4 = PastValue(AutoName8) [5 x *]",
        "AutoName5 = Times(W0, AutoName4) [5 x *]",
        "AutoName6 = Times(U0, AutoName3) [5 x *]",
        "AutoName7 = Plus(AutoName6, AutoName5) [5 x *]",
        "AutoName8 = RectifiedLinear(AutoName7) [5 x *]",
        "AutoName9 = Dropout(AutoName8) [5 x *]",
        "AutoName10 = PastValue(AutoName14) [4 x *]",
        "AutoName11 = Times(W1, AutoName10) [4 x *]",
        "AutoName12 = Times(U1, AutoName9) [4 x *]",
        "AutoName13 = Plus(AutoName12, AutoName11) [4 x *]",
        "AutoName14 = RectifiedLinear(AutoName13) [4 x *]",
        "AutoName15 = Dropout(AutoName14) [4 x *]",
        "labels = InputValue() [3 x *]",
        "AutoName16 = Times(W2, AutoName15) [3 x *]",
        "criterion = CrossEntropyWithSoftmax(labels, AutoName16) [1]",
        "outputs = Times(W2, AutoName15) [3 x *]",
    ]
    assert made.groups["evaluation"] == ["criterion"]


def test_the_value_before_the_first_frame(describe: Describe) -> None:
    text = "rnnType=SIMPLERNN\nlayerSizes=6:5:3\nrecurrentLayer=1"
    delay = describe(f"{text}\ndefaultHiddenActivity=0.25").network["AutoName1"]
    assert delay.attributes.default_hidden_activation == 0.25
    assert delay.attributes.time_step == 1
    assert describe(text).network["AutoName1"].attributes.default_hidden_activation == 0.1


def test_class_based_recurrent_network(describe: Describe) -> None:
    made = describe(f"rnnType=CLASSLM\nlayerSizes=6:5:6\nrecurrentLayer=1\nvocabSize=6\n{CLASSES}")
    assert made.lines == [
        "features = SparseInputValue() [6 x *]",
        "AutoName1 = PastValue(AutoName5) [5 x *]",
        "AutoName2 = Times(W0, AutoName1) [5 x *]",
        "AutoName3 = Times(U0, features) [5 x *]",
        "AutoName4 = Plus(AutoName3, AutoName2) [5 x *]",
        "AutoName5 = Sigmoid(AutoName4) [5 x *]",
        "labels = InputValue() [4 x *]",
        "ClassPostProb = Times(WeightForClassPostProb, AutoName5) [2 x *]",
        "TrainNodeClassBasedCrossEntropy = ClassBasedCrossEntropyWithSoftmax(labels, AutoName5, W1, ClassPostProb) [1]",
    ]
    assert made.parameters == ["U0 [5 x 6]", "W0 [5 x 5]", "W1 [5 x 6]", "WeightForClassPostProb [2 x 5]"]
    only = ["TrainNodeClassBasedCrossEntropy"]
    assert made.groups == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": only,
        "evaluation": only,
        "output": only,
    }


def test_class_based_network_without_recurrence(describe: Describe) -> None:
    """The original shares the random bias of the first layer among all layers of its size."""
    made = describe(f"rnnType=CLASSLM\nlayerSizes=6:5:5:4:6\nvocabSize=6\n{CLASSES}")
    assert made.parameters == [
        "U0 [5 x 6]", "B0 [5 x 1]", "U1 [5 x 5]", "U2 [4 x 5]", "B2 [4 x 1]", "W3 [4 x 6]",
        "WeightForClassPostProb [2 x 4]",
    ]  # fmt: skip
    assert "AutoName5 = Plus(AutoName4, B0) [5 x 1 x *]" in made.lines
    assert made.network["B0"].initializer == Random("uniform", 1.0)
    assert made.network["B2"].initializer == FixedValue(0.0)


def test_a_layer_above_a_recurrent_one_has_its_own_bias(describe: Describe) -> None:
    made = describe(f"rnnType=CLASSLM\nlayerSizes=6:5:5:5:6\nrecurrentLayer=1\nvocabSize=6\n{CLASSES}")
    assert [line.split()[0] for line in made.parameters] == [
        "U0", "W0", "U1", "B1", "U2", "B2", "W3", "WeightForClassPostProb",
    ]  # fmt: skip
