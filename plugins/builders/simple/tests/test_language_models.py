"""LBLM and NPLM: every node, its inputs and its shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Describe = Callable[[str], Any]


def test_log_bilinear_model(describe: Describe) -> None:
    made = describe("rnnType=LBLM\nlayerSizes=6:5:4:6\nmaOrder=2\nrecurrentLayer=2\naddDropoutNodes=true")
    assert made.lines == [
        "features = InputValue() [6 x *]",
        "pastValue1 = PastValue(features) [6 x *]",
        "AutoName1 = Times(DD1, pastValue1) [6 x *]",
        "AutoName2 = Plus(features, AutoName1) [6 x *]",
        "pastValue2 = PastValue(features) [6 x *]",
        "AutoName3 = Times(DD2, pastValue2) [6 x *]",
        "AutoName4 = Plus(AutoName2, AutoName3) [6 x *]",
        "AutoName5 = Dropout(AutoName4) [6 x *]",
        "AutoName6 = Times(U0, AutoName5) [5 x *]",
        "AutoName7 = Plus(AutoName6, bi0) [5 x 1 x *]",
        "AutoName8 = Dropout(AutoName7) [5 x 1 x *]",
        "AutoName9 = Times(U1, AutoName8) [4 x 1 x *]",
        "AutoName10 = PastValue(AutoName12) [4 x 1 x *]",
        "AutoName11 = Times(R2, AutoName10) [4 x 1 x *]",
        "AutoName12 = Plus(AutoName11, AutoName9) [4 x 1 x *]",
        "AutoName13 = Plus(AutoName12, bi1) [4 x 1 x *]",
        "AutoName14 = Dropout(AutoName13) [4 x 1 x *]",
        "labels = InputValue() [6 x *]",
        "AutoName15 = Times(W2, AutoName14) [6 x 1 x *]",
        "CrossEntropyWithSoftmax = CrossEntropyWithSoftmax(labels, AutoName15) [1]",
        "EvalClassificationError = ClassificationError(labels, AutoName15) [1]",
        "outputs = Times(W2, AutoName14) [6 x 1 x *]",
    ]
    assert made.parameters == [
        "DD1 [6 x 6]", "DD2 [6 x 6]", "U0 [5 x 6]", "bi0 [5 x 1]", "U1 [4 x 5]", "R2 [4 x 4]", "bi1 [4 x 1]",
        "W2 [6 x 4]",
    ]  # fmt: skip
    assert [made.network[f"pastValue{steps}"].attributes.time_step for steps in (1, 2)] == [1, 2]


def test_log_bilinear_model_with_look_up(describe: Describe) -> None:
    """Two words are looked up for each frame; the name of the node is the original's."""
    made = describe("rnnType=LBLM\nlayerSizes=6:5:4:6\nlookupTableOrder=2\nmaOrder=1\nrecurrentLayer=2\nneedPrior=true")
    assert made.lines == [
        "features = InputValue() [6 x *]",
        "Lookuptatble = LookupTable(E0, features) [10 x *]",
        "pastValue1 = PastValue(Lookuptatble) [10 x *]",
        "AutoName1 = Times(DD1, pastValue1) [10 x *]",
        "AutoName2 = Plus(Lookuptatble, AutoName1) [10 x *]",
        "AutoName3 = Times(U1, AutoName2) [4 x *]",
        "AutoName4 = PastValue(AutoName6) [4 x *]",
        "AutoName5 = Times(R2, AutoName4) [4 x *]",
        "AutoName6 = Plus(AutoName5, AutoName3) [4 x *]",
        "AutoName7 = Plus(AutoName6, bi1) [4 x 1 x *]",
        "labels = InputValue() [6 x *]",
        "AutoName8 = Times(W2, AutoName7) [6 x 1 x *]",
        "CrossEntropyWithSoftmax = CrossEntropyWithSoftmax(labels, AutoName8) [1]",
        "EvalClassificationError = ClassificationError(labels, AutoName8) [1]",
        "outputs = Times(W2, AutoName7) [6 x 1 x *]",
        "AutoName9 = Mean(labels) [6]",
    ]
    assert made.parameters[:3] == ["E0 [5 x 3]", "DD1 [10 x 10]", "U1 [4 x 10]"]
    assert made.groups["output"] == ["outputs"]


def test_neural_probabilistic_model(describe: Describe) -> None:
    made = describe("rnnType=NPLM\nlayerSizes=6:5:4:4:6\nrecurrentLayer=1:2\nlayerTypes=Sigmoid:Tanh")
    assert made.lines == [
        "features = SparseInputValue() [6 x *]",
        "AutoName1 = PastValue(features) [6 x *]",
        "AutoName2 = PastValue(features) [6 x *]",
        "AutoName3 = PastValue(features) [6 x *]",
        "AutoName4 = PastValue(features) [6 x *]",
        "AutoName5 = Times(WXI, features) [5 x *]",
        "AutoName6 = Times(WXI1, AutoName1) [5 x *]",
        "AutoName7 = Plus(AutoName6, AutoName5) [5 x *]",
        "AutoName8 = Times(WXI2, AutoName2) [5 x *]",
        "AutoName9 = Plus(AutoName8, AutoName7) [5 x *]",
        "AutoName10 = Times(WXI3, AutoName3) [5 x *]",
        "AutoName11 = Plus(AutoName10, AutoName9) [5 x *]",
        "AutoName12 = Times(WXI4, AutoName4) [5 x *]",
        "AutoName13 = Plus(AutoName12, AutoName11) [5 x *]",
        "AutoName14 = Tanh(AutoName13) [5 x *]",
        "AutoName15 = Plus(AutoName14, bi0) [5 x 1 x *]",
        "AutoName16 = PastValue(AutoName20) [4 x 1 x *]",
        "AutoName17 = Times(W1, AutoName16) [4 x 1 x *]",
        "AutoName18 = Times(U1, AutoName15) [4 x 1 x *]",
        "AutoName19 = Plus(AutoName18, AutoName17) [4 x 1 x *]",
        "AutoName20 = Tanh(AutoName19) [4 x 1 x *]",
        "AutoName21 = Times(U2, AutoName20) [4 x 1 x *]",
        "AutoName22 = Plus(AutoName21, B2) [4 x 1 x *]",
        "AutoName23 = Tanh(AutoName22) [4 x 1 x *]",
        "labels = SparseInputValue() [6 x *]",
        "AutoName24 = Times(W3, AutoName23) [6 x 1 x *]",
        "CrossEntropyWithSoftmax = CrossEntropyWithSoftmax(labels, AutoName24) [1]",
        "EvalClassificationError = ClassificationError(labels, AutoName24) [1]",
        "AutoName25 = Times(W3, AutoName23) [6 x 1 x *]",
    ]
    assert made.parameters == [
        "bi0 [5 x 1]", "WXI2 [5 x 6]", "WXI3 [5 x 6]", "WXI4 [5 x 6]", "WXI1 [5 x 6]", "WXI [5 x 6]",
        "U1 [4 x 5]", "W1 [4 x 4]", "U2 [4 x 4]", "B2 [4 x 1]", "W3 [6 x 4]",
    ]  # fmt: skip
    assert [made.network[f"AutoName{steps}"].attributes.time_step for steps in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert made.groups["output"] == ["AutoName25"]


def test_neural_probabilistic_model_without_history(describe: Describe) -> None:
    made = describe("rnnType=NPLM\nlayerSizes=6:5:6")
    assert made.lines[1:4] == [
        "AutoName1 = Times(U0, features) [5 x *]",
        "AutoName2 = Plus(AutoName1, B0) [5 x 1 x *]",
        "AutoName3 = Sigmoid(AutoName2) [5 x 1 x *]",
    ]
