"""The operations of CNTK 2 by number: how each is called, which of ours computes it, and in what order it reads.

What an operation's attributes become is said in :mod:`cntk_model_cntk2.attributes`; what takes more than one node, in
:mod:`cntk_model_cntk2.parts`.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Operation:
    """One operation of the original.

    Attributes:
        name: the original's.
        ours: the name of our op.
        order: for each input of our op the index of the original's; empty if they are the same.
        scalar: its value is a single number without axes, which is a vector of one element here.
    """

    name: str
    ours: str
    order: tuple[int, ...] = ()
    scalar: bool = False

    def arranged(self, count: int) -> list[int]:
        """Return for each of ``count`` inputs of our op the index of the original's."""
        return [self.order[index] if index < len(self.order) else index for index in range(count)]


_SAME = {
    0: "Negate", 1: "Sigmoid", 2: "Tanh", 4: "Exp", 5: "Log", 6: "Sqrt", 7: "Floor", 8: "Abs", 9: "Reciprocal",
    10: "Softmax", 11: "Hardmax", 14: "Slice", 15: "Dropout", 16: "Reshape", 17: "Pooling", 19: "Plus", 20: "Minus",
    21: "ElementTimes", 22: "Equal", 23: "NotEqual", 24: "Less", 25: "LessEqual", 26: "Greater", 27: "GreaterEqual",
    31: "Times", 32: "TransposeTimes", 33: "Convolution", 37: "PastValue", 38: "FutureValue", 39: "ReduceElements",
    40: "BatchNormalization", 45: "RandomSample", 46: "RandomSampleInclusionFrequency", 47: "ROIPooling",
    50: "ReconcileDynamicAxis", 51: "LogSoftmax", 52: "LogPlus", 54: "Sin", 56: "Pass", 63: "LabelsToGraph",
    64: "StopGradient", 67: "CosDistanceWithNegativeSamples", 68: "OneHot", 69: "Pow", 70: "ToSequence",
    71: "ToSequenceLike", 72: "UnpackSequence", 73: "Assign", 74: "Gather", 75: "StableSigmoid",
    76: "RandomDistribution", 77: "Sinh", 78: "Cosh", 79: "UnpackBatch", 80: "ToBatch", 81: "Asin", 82: "Acos",
    83: "Pad", 84: "Crop", 85: "Atanh", 86: "Asinh", 87: "TopK", 88: "Squeeze", 89: "ConstantOp", 91: "Cast",
    92: "EyeLikeOp", 94: "StraightThrough", 95: "Tan", 96: "Atan",
}  # fmt: skip
"""Operations that are called here as there, and read the same in the same order."""

OPERATIONS: dict[int, Operation] = {
    **{number: Operation(name, name) for number, name in _SAME.items()},
    3: Operation("ReLU", "RectifiedLinear"),
    12: Operation("TransposeAxes", "TransposeDimensions"),
    13: Operation("Where", "Where", scalar=True),
    18: Operation("SumAll", "SumElements", scalar=True),
    28: Operation("PackedIndex", "PackedIndex", scalar=True),
    29: Operation("GatherPacked", "GatherPacked", (1, 0)),
    30: Operation("ScatterPacked", "ScatterPacked", (2, 1, 0)),
    34: Operation("SquaredError", "SquareError", scalar=True),
    35: Operation("CrossEntropyWithSoftmax", "CrossEntropyWithSoftmax", (1, 0), scalar=True),
    36: Operation("ClassificationError", "ClassificationError", (1, 0), scalar=True),
    41: Operation("Clip", "Clip", (1, 2, 0)),
    42: Operation("Select", "If"),
    43: Operation("Splice", "RowStack"),
    48: Operation("Logistic", "Logistic", (1, 0), scalar=True),
    49: Operation("OptimizedRNNStack", "OptimizedRNNStack", (1, 0)),
    53: Operation("CosDistance", "CosDistance", scalar=True),
    55: Operation("Cos", "Cosine"),
    58: Operation("Unpooling", "MaxUnpooling"),
    59: Operation("LambdaRank", "LambdaRank", (1, 0), scalar=True),
    60: Operation("NDCG", "NDCG1Eval", (1, 0), scalar=True),
    61: Operation("EditDistanceError", "EditDistanceError", scalar=True),
    62: Operation("NoOp", "Pass"),
    65: Operation("ELU", "ExponentialLinearUnit"),
    66: Operation("ForwardBackward", "ForwardBackward", scalar=True),
}
"""By the number that a file has. Combine (44) and Block (57) compute nothing."""

REFUSED = {90: "LatticeSequenceWithSoftmax", 93: "CustomProxyOp", 97: "ConvolutionSequenceShape"}
"""Operations of CNTK 2.7 for which there is none here."""

PAST, FUTURE = 37, 38

COUNTED = ("OneHot", "Gather", "UnpackSequence", "UnpackBatch", "Squeeze")
"""Ops of ours whose value has axes of its own beside those of what they read: a single number must have none."""

SHAPED = (*COUNTED, "Reshape", "RowStack", "Slice", "Pad", "Times", "TransposeTimes", "LearnableParameter")
"""Ops of ours whose value has axes although all that they read has none."""
