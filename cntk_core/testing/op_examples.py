"""Inputs on which every op of the core is checked. An op without an example fails a test."""

from __future__ import annotations

from cntk_core.ops.distances import NegativeSamplesAttributes
from cntk_core.ops.products import TimesAttributes
from cntk_core.ops.recurrence import DelayAttributes
from cntk_core.ops.reductions import ReduceAttributes
from cntk_core.ops.reshaping import LegacyReshapeAttributes, ReshapeAttributes, TransposeAttributes
from cntk_core.ops.slicing import OneHotAttributes, RepeatAttributes, SliceAttributes, StackAttributes
from cntk_core.testing.op_contract import OpExample

UNARY = (OpExample(((4,),)), OpExample(((2, 3),)))
POSITIVE = (OpExample(((4,),), kinds=("positive",)),)
BINARY = (OpExample(((4,), (4,))), OpExample(((3, 1), (2, 1, 4))), OpExample(((1,), (2, 3))))
NOT_SMOOTH = tuple(OpExample(example.shapes, gradient=False) for example in BINARY)
NORMALIZATION = (OpExample(((4,), (4,), (4,)), kinds=("smooth", "smooth", "positive")),)
BOTH = (True, True)


def _reductions() -> tuple[OpExample, ...]:
    found = [
        OpExample(((2, 3),), ReduceAttributes(name, axis, keep))
        for name in ("Sum", "LogSum", "Mean", "Max", "Min", "Prod", "Plus")
        for axis, keep in ((0, None), (1, None), (2, False))
    ]
    # A NaN has a place too, so that it cannot show.
    found += [OpExample(((2, 3),), ReduceAttributes(name, 1), gradient=False, nan=()) for name in ("Argmax", "Argmin")]
    return tuple(found)


EXAMPLES: dict[str, tuple[OpExample, ...]] = {
    "Abs": UNARY,
    "Cosine": UNARY,
    "Sin": UNARY,
    "Exp": UNARY,
    "Log": POSITIVE,
    "Sqrt": POSITIVE,
    "Reciprocal": UNARY,
    "Negate": UNARY,
    "Floor": UNARY,
    "Pass": UNARY,
    "StopGradient": UNARY,
    "RectifiedLinear": UNARY,
    "ExponentialLinearUnit": UNARY,
    "Sigmoid": UNARY,
    "StableSigmoid": UNARY,
    "Tanh": UNARY,
    "Clip": (OpExample(((1,), (4,), (4,)), values={0: -0.7, 1: 0.6}),),
    "Plus": BINARY,
    "Minus": BINARY,
    "ElementTimes": BINARY,
    "LogPlus": BINARY,
    "Pow": (
        OpExample(((4,), (4,)), kinds=("positive", "smooth")),
        OpExample(((3, 1), (2, 1, 4)), kinds=("positive", "smooth")),
    ),
    "Less": NOT_SMOOTH,
    "LessEqual": NOT_SMOOTH,
    "Equal": NOT_SMOOTH,
    "NotEqual": NOT_SMOOTH,
    "Greater": NOT_SMOOTH,
    "GreaterEqual": NOT_SMOOTH,
    # A NaN in the branch that is not chosen does not show.
    "If": (OpExample(((4,), (4,), (1,)), kinds=("binary", "smooth", "smooth"), nan=()),),
    "Times": (
        OpExample(((4, 5), (4,))),
        OpExample(((4, 5), (3, 4))),
        OpExample(((6, 5), (2, 3))),
        OpExample(((2, 3, 5), (4, 2, 3))),
        OpExample(((3, 2, 4), (3,)), TimesAttributes(output_rank=2)),
        OpExample(((3,), (2, 1)), TimesAttributes(output_rank=1)),
    ),
    "TransposeTimes": (OpExample(((5, 4), (4,))), OpExample(((5, 4), (2, 4))), OpExample(((4,), (4,)))),
    "DiagTimes": (OpExample(((4,), (4,))), OpExample(((1, 4), (3, 4))), OpExample(((6,), (2, 3)))),
    "KhatriRaoProduct": (OpExample(((3,), (2,))),),
    # A NaN in a frame that nobody looks back at does not show.
    "PastValue": (
        OpExample(((4,),), framed=(True,), nan=()),
        OpExample(((2, 3),), DelayAttributes(time_step=2, default_hidden_activation=0.5), framed=(True,), nan=()),
        OpExample(((4,), (4,)), framed=(True, False), nan=()),
        OpExample(((4,), (4,)), framed=(True, True), nan=()),
    ),
    "FutureValue": (
        OpExample(((4,),), framed=(True,), nan=()),
        OpExample(((4,), (4,)), framed=(True, False), nan=()),
    ),
    "CosDistance": (OpExample(((4,), (4,))), OpExample(((2, 3), (2, 3)))),
    "CosDistanceWithNegativeSamples": (
        OpExample(((4,), (4,)), NegativeSamplesAttributes(1, 2)),
        OpExample(((4,), (4,)), NegativeSamplesAttributes(2, 4)),
    ),
    "ReduceElements": _reductions(),
    "SumElements": UNARY,
    "SumColumnElements": UNARY,
    "MatrixL1Reg": UNARY,
    "MatrixL2Reg": UNARY,
    "Softmax": UNARY,
    "LogSoftmax": UNARY,
    "Hardmax": UNARY,
    "Reshape": (
        OpExample(((2, 3),), ReshapeAttributes((6,))),
        OpExample(((2, 3),), ReshapeAttributes((3, 0))),
        OpExample(((4, 6, 5),), ReshapeAttributes((2, 0), 2, 3)),
        OpExample(((4, 6, 5),), ReshapeAttributes.flatten(1, 2)),
        OpExample(((4, 6, 5),), ReshapeAttributes.split(2, 3)),
    ),
    "LegacyReshape": (
        OpExample(((2, 3),), LegacyReshapeAttributes(6)),
        OpExample(((6,),), LegacyReshapeAttributes(6, (1, 3, 2))),
    ),
    "TransposeDimensions": (
        OpExample(((2, 3),)),
        OpExample(((4,),)),
        OpExample(((2, 3, 4),), TransposeAttributes(1, 3)),
        OpExample(((2, 3, 4),), TransposeAttributes(permutation=(2, 3, 1))),
    ),
    "Slice": (
        OpExample(((5,),), SliceAttributes(1, 3), nan=()),
        OpExample(((4, 3),), SliceAttributes(-2, 0, 2), nan=()),
        OpExample(((4, 3),), SliceAttributes((0, 1), (2, -1), (1, 2)), nan=()),
    ),
    "RowStack": (
        OpExample(((2,), (3,))),
        OpExample(((2, 3), (3,))),
        OpExample(((3,), (3,), (3,)), StackAttributes(2)),
        OpExample(((1, 2), (4, 3))),
    ),
    "RowRepeat": (OpExample(((4,),), RepeatAttributes(3)), OpExample(((2, 3),), RepeatAttributes(2))),
    "Diagonal": (OpExample(((3, 3),)),),
    "OneHot": (
        OpExample(((3,),), OneHotAttributes(4), kinds=("index",)),
        OpExample(((2, 3),), OneHotAttributes(4, 0), kinds=("index",)),
        OpExample(((2, 3),), OneHotAttributes(4, 1), kinds=("index",)),
    ),
    "Dropout": (OpExample(((4,),), settings={"dropoutRate": 0.4}, nan=()), OpExample(((2, 3),))),
    "SquareError": (OpExample(((4,), (4,))), OpExample(((1, 3), (3,)))),
    "CrossEntropyWithSoftmax": (
        OpExample(((4,), (4,)), kinds=("one_hot", "smooth")),
        OpExample(((4,), (4,)), kinds=("chance", "smooth")),
        OpExample(((2, 2), (2, 2)), kinds=("chance", "smooth"), framed=BOTH),
    ),
    "CrossEntropy": (OpExample(((4,), (4,)), kinds=("chance", "chance")),),
    "ClassificationError": (
        OpExample(((4,), (4,)), kinds=("one_hot", "smooth")),
        OpExample(((4,), (4,), (1,)), kinds=("one_hot", "smooth", "index"), framed=(True, True, False), values={2: 2}),
    ),
    "Logistic": (
        OpExample(((3,), (3,)), kinds=("binary", "chance")),
        OpExample(((1,), (1,), (1,)), kinds=("binary", "chance", "positive"), framed=(True, True, True)),
    ),
    "DummyCriterion": (OpExample(((1,), (4,), (4,)), gradient=False, nan=(0,)),),
    "PerDimMeanVarNormalization": NORMALIZATION,
    "PerDimMeanVarDeNormalization": NORMALIZATION,
}
"""Op name to examples."""

NOT_COMPUTED = {"InputValue", "SparseInputValue", "LearnableParameter", "DynamicAxis", "Mean", "InvStdDev"}
"""Ops whose values are given: leaves and precomputed values."""
