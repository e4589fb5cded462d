"""LSTM, CLASSLSTM, CLSTM, NCELSTM and CRF: nodes, inputs and shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cntk_core.api.builders import FixedValue, Random, initialize_parameters

Describe = Callable[[str], Any]
CLASSES = "trainingCriterion=classCrossEntropyWithSoftmax\nevalCriterion=classCrossEntropyWithSoftmax\nnbrClass=2"
NOISE = "trainingCriterion=noiseContrastiveEstimation\nevalCriterion=noiseContrastiveEstimation\nnoise_number=3"
WITHOUT_GATES = "constInputGateValue=true\nconstForgetGateValue=true\nconstOutputGateValue=true"

CELL = """\
AutoName1 = PastValue(AutoName38) [5 x 1 x *]
AutoName2 = PastValue(AutoName38) [5 x 1 x *]
AutoName3 = PastValue(AutoName38) [5 x 1 x *]
AutoName4 = PastValue(AutoName38) [5 x 1 x *]
AutoName5 = PastValue(AutoName29) [5 x 1 x *]
AutoName6 = PastValue(AutoName29) [5 x 1 x *]
AutoName7 = PastValue(AutoName29) [5 x 1 x *]
AutoName8 = DiagTimes(WCI0, AutoName5) [5 x 1 x *]
AutoName9 = Times(WHI0, AutoName1) [5 x 1 x *]
AutoName10 = Times(WXI0, features) [5 x *]
AutoName11 = Plus(AutoName10, bi0) [5 x 1 x *]
AutoName12 = Plus(AutoName11, AutoName9) [5 x 1 x *]
AutoName13 = Plus(AutoName12, AutoName8) [5 x 1 x *]
AutoName14 = Sigmoid(AutoName13) [5 x 1 x *]
AutoName15 = Times(WHC0, AutoName4) [5 x 1 x *]
AutoName16 = Plus(AutoName15, bc0) [5 x 1 x *]
AutoName17 = Times(WXC0, features) [5 x *]
AutoName18 = Plus(AutoName17, AutoName16) [5 x 1 x *]
AutoName19 = Tanh(AutoName18) [5 x 1 x *]
AutoName20 = ElementTimes(AutoName14, AutoName19) [5 x 1 x *]
AutoName21 = DiagTimes(WCF0, AutoName6) [5 x 1 x *]
AutoName22 = Times(WHF0, AutoName2) [5 x 1 x *]
AutoName23 = Times(WXF0, features) [5 x *]
AutoName24 = Plus(AutoName23, bf0) [5 x 1 x *]
AutoName25 = Plus(AutoName24, AutoName22) [5 x 1 x *]
AutoName26 = Plus(AutoName25, AutoName21) [5 x 1 x *]
AutoName27 = Sigmoid(AutoName26) [5 x 1 x *]
AutoName28 = ElementTimes(AutoName27, AutoName7) [5 x 1 x *]
AutoName29 = Plus(AutoName28, AutoName20) [5 x 1 x *]
AutoName30 = DiagTimes(WCO0, AutoName29) [5 x 1 x *]
AutoName31 = Times(WHO0, AutoName3) [5 x 1 x *]
AutoName32 = Times(WXO0, features) [5 x *]
AutoName33 = Plus(AutoName32, bo0) [5 x 1 x *]
AutoName34 = Plus(AutoName33, AutoName31) [5 x 1 x *]
AutoName35 = Plus(AutoName34, AutoName30) [5 x 1 x *]
AutoName36 = Sigmoid(AutoName35) [5 x 1 x *]
AutoName37 = Tanh(AutoName29) [5 x 1 x *]
AutoName38 = ElementTimes(AutoName36, AutoName37) [5 x 1 x *]
"""
"""Nodes of a layer of LSTM cells with the names that the original gives them."""


def cell_parameters(layer: int, size: int, width: int) -> list[str]:
    return [
        *(f"WX{part}{layer} [{size} x {width}]" for part in "OIFC"),
        *(f"b{part}{layer} [{size} x 1]" for part in "ocif"),
        *(
            f"{name}{layer} [{size} x {columns}]"
            for name, columns in [
                ("WHI", size), ("WCI", 1), ("WHF", size), ("WCF", 1), ("WHO", size), ("WCO", 1), ("WHC", size),
            ]
        ),
    ]  # fmt: skip


def test_lstm_network(describe: Describe) -> None:
    made = describe("rnnType=LSTM\nlayerSizes=6:5:3\nneedPrior=true")
    assert made.lines == [
        "features = InputValue() [6 x *]",
        *CELL.splitlines(),
        "labels = InputValue() [3 x *]",
        "AutoName39 = Times(W1, AutoName38) [3 x 1 x *]",
        "CrossEntropyWithSoftmax = CrossEntropyWithSoftmax(labels, AutoName39) [1]",
        "EvalClassificationError = ClassificationError(labels, AutoName39) [1]",
        "outputs = Times(W1, AutoName38) [3 x 1 x *]",
        "AutoName40 = Mean(labels) [3]",
        "LogOfPrior = Log(AutoName40) [3]",
        "ScaledLogLikelihood = Minus(outputs, LogOfPrior) [3 x 1 x *]",
        "PosteriorProb = Softmax(outputs) [3 x 1 x *]",
    ]
    assert made.parameters == [*cell_parameters(0, 5, 6), "W1 [3 x 5]"]
    assert made.groups == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": ["CrossEntropyWithSoftmax"],
        "evaluation": ["EvalClassificationError"],
        "output": ["ScaledLogLikelihood"],
    }


def test_gates_that_are_left_out(describe: Describe) -> None:
    made = describe(f"rnnType=LSTM\nlayerSizes=6:5:3\nsparseinput=true\n{WITHOUT_GATES}")
    assert made.lines[:15] == [
        "features = SparseInputValue() [6 x *]",
        *(f"AutoName{number} = PastValue(AutoName14) [5 x 1 x *]" for number in (1, 2, 3, 4)),
        *(f"AutoName{number} = PastValue(AutoName13) [5 x 1 x *]" for number in (5, 6, 7)),
        "AutoName8 = Times(WHC0, AutoName4) [5 x 1 x *]",
        "AutoName9 = Plus(AutoName8, bc0) [5 x 1 x *]",
        "AutoName10 = Times(WXC0, features) [5 x *]",
        "AutoName11 = Plus(AutoName10, AutoName9) [5 x 1 x *]",
        "AutoName12 = Tanh(AutoName11) [5 x 1 x *]",
        "AutoName13 = Plus(AutoName7, AutoName12) [5 x 1 x *]",
        "AutoName14 = Tanh(AutoName13) [5 x 1 x *]",
    ]
    assert made.parameters == [*cell_parameters(0, 5, 6), "W1 [3 x 5]"]


def test_first_values_of_the_gates(describe: Describe) -> None:
    text = "rnnType=LSTM\nlayerSizes=6:5:3"
    made = describe(f"{text}\ninputGateInitVal=1\nforgetGateInitVal=2\noutputGateInitVal=3").network
    assert [made[name].initializer for name in ("bi0", "bf0", "bo0", "bc0")] == [
        FixedValue(1.0), FixedValue(2.0), FixedValue(3.0), FixedValue(0.0),
    ]  # fmt: skip
    made = describe(text).network
    assert [made[name].initializer for name in ("bi0", "bf0", "bo0")] == [FixedValue(-1.0)] * 3


def test_seeds_count_the_random_parameters(describe: Describe) -> None:
    made = describe("rnnType=LSTM\nlayerSizes=6:5:3\ninitValueScale=6").network
    initialize_parameters(made)
    order = ("WXO0", "WXI0", "WXF0", "WXC0", "WHI0", "WCI0", "WHF0", "WCF0", "WHO0", "WCO0", "WHC0", "W1")
    for seed, name in enumerate(order, start=1):
        node = made[name]
        assert np.array_equal(node.value, Random("uniform", 6.0)(node.shape, np.dtype(np.float32), seed)), name


def test_layers_above_the_first(describe: Describe) -> None:
    """The look-up counts as a layer, and the first LSTM layer has number 0 all the same."""
    made = describe("rnnType=LSTM\nlayerSizes=6:2:5:4:3:3\nlookupTableOrder=3\nrecurrentLayer=2:3:4\nlayerTypes=Tanh")
    assert made.parameters == [
        "E0 [2 x 2]",
        *cell_parameters(0, 5, 6),
        *cell_parameters(2, 4, 5),
        *cell_parameters(3, 3, 4),
        "W4 [3 x 3]",
    ]
    assert made.lines[1] == "LookupTable = LookupTable(E0, features) [6 x *]"
    assert "AutoName14 = Tanh(AutoName13) [5 x 1 x *]" in made.lines
    assert made.said == [
        "r.cntk:5:1: recurrentLayer 4 chooses no layer; can be chosen: 2, 3, in ascending order; "
        "the first LSTM layer is there anyway"
    ]


def test_layers_that_are_not_chosen_are_plain(describe: Describe) -> None:
    made = describe("rnnType=LSTM\nlayerSizes=6:5:4:3\naddDropoutNodes=true\nlayerTypes=Sigmoid:Tanh")
    assert made.parameters == [*cell_parameters(0, 5, 6), "U1 [4 x 5]", "B1 [4 x 1]", "W2 [3 x 4]"]
    assert made.lines[39:44] == [
        "AutoName39 = Dropout(AutoName38) [5 x 1 x *]",
        "AutoName40 = Times(U1, AutoName39) [4 x 1 x *]",
        "AutoName41 = Plus(AutoName40, B1) [4 x 1 x *]",
        "AutoName42 = Tanh(AutoName41) [4 x 1 x *]",
        "AutoName43 = Dropout(AutoName42) [4 x 1 x *]",
    ]


def test_layer_one_above_the_first_counts_from_zero(describe: Describe) -> None:
    made = describe("rnnType=LSTM\nlayerSizes=6:5:4:3\nrecurrentLayer=1")
    assert made.parameters == [*cell_parameters(0, 5, 6), *cell_parameters(1, 4, 5), "W2 [3 x 4]"]


def test_class_based_lstm(describe: Describe) -> None:
    made = describe(f"rnnType=CLASSLSTM\nlayerSizes=6:5:4:4:6\nlookupTableOrder=1\naddDropoutNodes=true\n{CLASSES}")
    assert made.named() == [
        "features = SparseInputValue() [6 x *]",
        "LookupTable = LookupTable(E0, features) [5 x *]",
        "labels = InputValue() [4 x *]",
        "ClassPostProb = Times(WeightForClassPostProb, AutoName80) [2 x 1 x *]",
        "TrainNodeClassBasedCrossEntropy = "
        "ClassBasedCrossEntropyWithSoftmax(labels, AutoName80, W3, ClassPostProb) [1]",
        "outputs = TransposeTimes(W3, AutoName80) [6 x 1 x *]",
        "PosteriorProb = Softmax(outputs) [6 x 1 x *]",
    ]
    # Behind the second layer there are two, as in the original.
    assert [line for line in made.lines if "Dropout" in line] == [
        "AutoName1 = Dropout(LookupTable) [5 x *]",
        "AutoName40 = Dropout(AutoName39) [4 x 1 x *]",
        "AutoName79 = Dropout(AutoName78) [4 x 1 x *]",
        "AutoName80 = Dropout(AutoName79) [4 x 1 x *]",
    ]
    assert made.parameters == [
        "E0 [5 x 6]", *cell_parameters(0, 4, 5), *cell_parameters(2, 4, 4), "W3 [4 x 6]",
        "WeightForClassPostProb [2 x 4]",
    ]  # fmt: skip
    assert made.groups["output"] == ["outputs"]
    assert made.groups["evaluation"] == made.groups["criterion"] == ["TrainNodeClassBasedCrossEntropy"]


def test_conditional_lstm(describe: Describe) -> None:
    made = describe(f"rnnType=CLSTM\nlayerSizes=6:5:4:6\nlookupTableOrder=2\nauxfeatdim=3\n{CLASSES}")
    assert made.lines[1] == "LookupTable = LookupTable(E0, features) [10 x *]"
    assert made.lines[40:] == [
        "binaryFeature = InputValue() [3 x *]",
        "AutoName39 = Times(AuxTrans0, binaryFeature) [4 x *]",
        "TimesToGetGlobalBias = Sigmoid(AutoName39) [4 x *]",
        "PlusGlobalBias = Plus(AutoName38, TimesToGetGlobalBias) [4 x 1 x *]",
        "labels = InputValue() [4 x *]",
        "ClassPostProb = Times(WeightForClassPostProb, PlusGlobalBias) [2 x 1 x *]",
        "TrainNodeClassBasedCrossEntropy = "
        "ClassBasedCrossEntropyWithSoftmax(labels, PlusGlobalBias, W2, ClassPostProb) [1]",
        "outputs = TransposeTimes(W2, PlusGlobalBias) [6 x 1 x *]",
        "PosteriorProb = Softmax(outputs) [6 x 1 x *]",
    ]
    assert made.parameters == [
        "E0 [5 x 3]", *cell_parameters(0, 4, 10), "AuxTrans0 [4 x 3]", "W2 [4 x 6]", "WeightForClassPostProb [2 x 4]",
    ]  # fmt: skip
    assert made.groups["feature"] == ["features", "binaryFeature"]


def test_conditional_lstm_with_linear_layers(describe: Describe) -> None:
    text = f"rnnType=CLSTM\nlayerSizes=6:5:4:6\nlookupTableOrder=1\nlayerTypes=Sigmoid:Sigmoid:None\n{CLASSES}"
    made = describe(text)
    assert "TimesToGetGlobalBias = Times(AuxTrans0, binaryFeature) [4 x *]" in made.lines
    assert made.network["binaryFeature"].shape == (20,)


def test_noise_contrastive_lstm(describe: Describe) -> None:
    made = describe(
        f"rnnType=NCELSTM\nlayerSizes=6:5:4:7\nlookupTableOrder=1\ndirectConnect=2:1\nneedPrior=true\n{NOISE}\n"
        f"{WITHOUT_GATES}\nlayerTypes=Sigmoid:Tanh"
    )
    assert made.lines[16:] == [
        "AutoName15 = Times(D1, LookupTable) [4 x *]",
        "AutoName16 = Tanh(AutoName15) [4 x *]",
        "S1 = ElementTimes(SV1, AutoName16) [4 x 1 x *]",
        "AutoName17 = Plus(AutoName14, S1) [4 x 1 x *]",
        "AutoName18 = Times(D0, AutoName14) [4 x 1 x *]",
        "AutoName19 = Sigmoid(AutoName18) [4 x 1 x *]",
        "S0 = ElementTimes(SV0, AutoName19) [4 x 1 x *]",
        "AutoName20 = Plus(AutoName17, S0) [4 x 1 x *]",
        "labels = InputValue() [8 x *]",
        "TrainNodeNCEBasedCrossEntropy = NoiseContrastiveEstimation(labels, AutoName20, W2, BiasVector) [1]",
        "AutoName21 = Mean(labels) [8]",
    ]
    assert made.parameters[16:] == [
        "D1 [4 x 5]", "SV1 [1 x 1]", "D0 [4 x 4]", "SV0 [1 x 1]", "W2 [4 x 7]", "BiasVector [1 x 7]",
    ]  # fmt: skip
    assert made.network["SV0"].initializer == FixedValue(0.01)
    assert made.network["BiasVector"].initializer == FixedValue(-math.log(7))
    assert made.groups["output"] == ["TrainNodeNCEBasedCrossEntropy"]


def test_direct_links_of_the_input_and_of_two_words(describe: Describe) -> None:
    made = describe(f"rnnType=NCELSTM\nlayerSizes=6:5:4\ndirectConnect=0:1\n{NOISE}")
    assert made.parameters[15:19] == ["D0 [5 x 6]", "SV0 [1 x 1]", "D1 [5 x 5]", "SV1 [1 x 1]"]
    made = describe(f"rnnType=NCELSTM\nlayerSizes=6:5:4:7\nlookupTableOrder=2\ndirectConnect=1\n{NOISE}")
    assert "D0 [4 x 10]" in made.parameters


def test_crf(describe: Describe) -> None:
    made = describe("rnnType=CRF\nlayerSizes=6:5:4:3\nrecurrentLayer=2\ntrainingCriterion=CRF")
    assert made.lines[:4] == [
        "features = InputValue() [6 x *]",
        "AutoName1 = Times(U0, features) [5 x *]",
        "AutoName2 = Plus(AutoName1, B0) [5 x 1 x *]",
        "AutoName3 = Sigmoid(AutoName2) [5 x 1 x *]",
    ]
    assert made.lines[42:] == [
        "outputsBeforeSoftmax = Times(TimesBeforeSoftMax2, AutoName41) [3 x 1 x *]",
        "labels = InputValue() [3 x *]",
        "CRFTrainCriterion = CRF(labels, outputsBeforeSoftmax, TransProb2) [1]",
        "CRFEvalCriterion = ClassificationError(labels, outputsBeforeSoftmax) [1]",
        "outputs = SequenceDecoder(labels, outputsBeforeSoftmax, TransProb2) [3 x 1 x *]",
        "PosteriorProb = Softmax(outputsBeforeSoftmax) [3 x 1 x *]",
    ]
    assert made.parameters == [
        "U0 [5 x 6]", "B0 [5 x 1]", *cell_parameters(1, 4, 5), "TimesBeforeSoftMax2 [3 x 4]", "TransProb2 [3 x 3]",
    ]  # fmt: skip
    assert made.network["TransProb2"].initializer == FixedValue(1 / 3)


def test_crf_with_look_up(describe: Describe) -> None:
    made = describe("rnnType=CRF\nlayerSizes=6:5:4:3\nlookupTableOrder=2\nevalCriterion=CRF\nrecurrentLayer=2")
    assert made.parameters == [
        "E0 [5 x 3]", *cell_parameters(1, 4, 10), "TimesBeforeSoftMax2 [3 x 4]", "TransProb2 [3 x 3]",
    ]  # fmt: skip
    assert "CRFTrainCriterion = CrossEntropyWithSoftmax(labels, outputsBeforeSoftmax) [1]" in made.lines
    assert made.groups["evaluation"] == ["CRFEvalCriterion"]
