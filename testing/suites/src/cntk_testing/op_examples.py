"""Inputs on which every op of the core is checked. An op without an example fails a test."""

from __future__ import annotations

import math

from cntk_core.ops.families.alignment import EditDistanceAttributes, ForwardBackwardAttributes
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.cropping import CropAttributes
from cntk_core.ops.families.distances import NegativeSamplesAttributes
from cntk_core.ops.families.monitoring import TraceAttributes
from cntk_core.ops.families.normalization import BatchNormalizationAttributes, LocalResponseNormalizationAttributes
from cntk_core.ops.families.pooling import LegacyPoolingAttributes, PoolingAttributes, ROIPoolingAttributes
from cntk_core.ops.families.products import TimesAttributes
from cntk_core.ops.families.quantized import QuantizedTimesAttributes
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.families.recurrent_stack import OVER_COLUMNS, RNNStackAttributes, stack_weights
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.reshaping import LegacyReshapeAttributes, ReshapeAttributes, TransposeAttributes
from cntk_core.ops.families.sampling import RandomDistributionAttributes, RandomSampleAttributes
from cntk_core.ops.families.shifting import ShiftAttributes
from cntk_core.ops.families.slicing import OneHotAttributes, RepeatAttributes, SliceAttributes, StackAttributes
from cntk_core.ops.families.unary import ELUAttributes
from cntk_core.ops.families.vocabulary import NoiseContrastiveAttributes
from cntk_testing.adjoint_examples import ADJOINTS
from cntk_testing.later_examples import LATER
from cntk_testing.op_cases import OpExample

UNARY = (OpExample(((4,),)), OpExample(((2, 3),)))
POSITIVE = (OpExample(((4,),), kinds=("positive",)),)
BINARY = (OpExample(((4,), (4,))), OpExample(((3, 1), (2, 1, 4))), OpExample(((1,), (2, 3))))
NOT_SMOOTH = tuple(OpExample(example.shapes, gradient=False) for example in BINARY)
NORMALIZATION = (OpExample(((4,), (4,), (4,)), kinds=("smooth", "smooth", "positive")),)
BOTH = (True, True)
LATTER = (False, True)
LABELLED = ("index", "smooth", "smooth", "smooth")
NCE = (True, True, False, False)
WORDS_AND_CLASSES = [[1, 0, 0, 2], [2, 1, 2, 6], [5, 1, 2, 6]]
WORDS_AND_NOISE = [[1, -1.5, 3, 1.2, 0, 2.0], [4, -0.7, 1, 1.4, 1, 1.4], [0, -2.0, 2, 0.9, 4, 0.7]]
PHONES = [[2, 0, 0], [1, 0, 0], [0, 2, 0]]
"""Labels of three frames: a phone of two, another of one; the last class is the blank."""

CHAIN = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
"""Labels of three frames."""
ON_A_MATRIX = (True, True, False)
ON_A_TABLE = (True, False)


def _reductions() -> tuple[OpExample, ...]:
    found = [
        OpExample(((2, 3),), ReduceAttributes(name, axis, keep))
        for name in ("Sum", "LogSum", "Mean", "Max", "Min", "Prod", "Plus")
        for axis, keep in ((0, None), (1, None), (2, False))
    ]
    # A NaN has a place too, so that it cannot show.
    found += [OpExample(((2, 3),), ReduceAttributes(name, 1), gradient=False, nan=()) for name in ("Argmax", "Argmin")]
    return tuple(found)


NORMALIZED = ("smooth", "positive", "smooth", "smooth", "positive", "positive")
STATISTICS = (True, False, False, False, False, False)
NO_PADDING = (False,)
PLANE = (True, True, False)

CONVOLUTIONS = tuple(
    OpExample(shapes, attributes, framed=framed, nan=())
    for framed in ((False, True), (False, False))
    for shapes, attributes in (
        (((3, 2, 3, 3), (2, 4, 5)), ConvolutionAttributes((3, 3), (3,))),
        (((3, 2, 2, 3), (2, 4, 6)), ConvolutionAttributes((3, 2, 2), (3,), (2, 2, 2), auto_padding=NO_PADDING)),
        (((18, 3), (2, 5, 5)), ConvolutionAttributes((3, 3, 2), (3,), (2, 2, 2), auto_padding=PLANE)),
        (((2, 4), (7,)), ConvolutionAttributes((4,), (2,), (3,), (True,), NO_PADDING, (2,), (1,))),
        (((2, 3, 3, 3), (2, 3, 4)), ConvolutionAttributes((3, 3, 3), (2,), (2, 2, 3), (True,), PLANE, transpose=True)),
        (((18, 3), (4, 5, 2)), ConvolutionAttributes.image(3, 3, 3, 2, 1, zero_padding=True)),
        (((12, 3), (4, 5, 2)), ConvolutionAttributes.image(2, 3, 3, 1, 2)),
        (((3, 2, 2, 2), (2, 6, 5)), ConvolutionAttributes((2, 2), (3,), auto_padding=NO_PADDING, dilation=(2, 3))),
        (((3, 2, 3, 3), (2, 7, 6)), ConvolutionAttributes((3, 3), (3,), (2,), dilation=2)),
        (((6, 2, 3, 2), (4, 5, 4)), ConvolutionAttributes((2, 3), (6,), groups=2)),
        (((3, 1, 3, 3), (3, 6, 5)), ConvolutionAttributes((3, 3, 1), (3,), auto_padding=PLANE, groups=3, dilation=2)),
        (
            ((4, 1, 2, 3), (4, 3, 3)),
            ConvolutionAttributes((3, 2, 1), (4,), (2, 1, 1), (True,), NO_PADDING, transpose=True, groups=2),
        ),
    )
)
POOLINGS = tuple(
    OpExample(
        ((2, 5, 6),),
        PoolingAttributes((3, 2), kind, (2,), (padded,), ceil_out_dim=ceil, include_pad=padded),
        nan=(),
    )
    for kind in ("max", "average")
    for padded in (True, False)
    for ceil in (True, False)
)


def _stacks() -> tuple[OpExample, ...]:
    plain = [RNNStackAttributes(2, 1, False, kind) for kind in ("lstm", "rnnTanh")]
    deep = [RNNStackAttributes(2, 2, True, "rnnReLU")]
    over_columns = [RNNStackAttributes(2, 2, True, "gru", 2)]
    return tuple(
        OpExample(
            ((stack_weights(3, attributes) // 2, 2), (2, 3) if attributes.axis == OVER_COLUMNS else (3,)),
            attributes,
            framed=LATTER,
            nan=(1,),
        )
        for attributes in [*plain, *deep, *over_columns]
    )


EXAMPLES: dict[str, tuple[OpExample, ...]] = {
    **LATER,
    **ADJOINTS,
    "BroadcastLike": (
        OpExample(((1,), (4,)), nan=(0,)),
        OpExample(((3, 1), (2, 1, 4)), nan=(0,)),
        OpExample(((2, 3), (3,)), nan=(0,)),
    ),
    "ConvolutionWeights": tuple(
        OpExample(shapes, attributes, framed=framed, nan=())
        for framed in ((False, True, True), (False, False, False))
        for shapes, attributes in (
            (((3, 2, 3, 3), (2, 4, 5), (3, 4, 5)), ConvolutionAttributes((3, 3), (3,))),
            (
                ((2, 3, 3, 3), (2, 3, 4), (3, 5, 7)),
                ConvolutionAttributes((3, 3, 3), (2,), (2, 2, 3), (True,), PLANE, transpose=True),
            ),
        )
    ),
    "SumFrames": UNARY,
    "SumOfOuterProducts": (
        OpExample(((4,), (3,)), framed=BOTH),
        OpExample(((2, 4), (2, 3)), framed=BOTH),
        OpExample(((4,), (3,)), framed=(False, False)),
    ),
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
    "ExponentialLinearUnit": (*UNARY, OpExample(((4,),), ELUAttributes(0.5))),
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
    # What is assigned to does not show.
    "Assign": (OpExample(((4,), (4,)), framed=(False, False), nan=(1,)),),
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
        OpExample(((3,), (2, 3)), TimesAttributes(output_rank=0)),
        OpExample(((3,), (3,)), TimesAttributes(output_rank=0)),
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
        OpExample(((2, 3), (1,)), framed=(True, False), nan=()),
        OpExample(((2, 3), (1,)), framed=(True, True), nan=()),
    ),
    "FutureValue": (
        OpExample(((4,),), framed=(True,), nan=()),
        OpExample(((4,), (4,)), framed=(True, False), nan=()),
    ),
    # A NaN in a frame that nobody looks at does not show.
    "Shift": (
        *(
            OpExample(((2, 3), boundary), ShiftAttributes(offset, mode), framed=(True, framed), nan=())
            for boundary, framed in (((3,), False), ((1,), True))
            for offset, mode in ((-1, -1), (2, -1), (-2, 0), (1, 0))
        ),
        *(
            OpExample(((2, 3), (1,)), ShiftAttributes(offset, mode, 2), nan=(), framed=framed)
            for framed in (BOTH, (True, False), (False, False))
            for offset, mode in ((-1, -1), (1, 0))
        ),
        OpExample(((3,), (3,)), ShiftAttributes(2, dim=1), nan=(), framed=BOTH),
        OpExample(((3,), (1, 1)), ShiftAttributes(1, dim=1), nan=(), framed=(True, False)),
        OpExample(((3,), (1, 1)), ShiftAttributes(1), nan=(), framed=BOTH),
    ),
    "Gather": (
        OpExample(((2,), (4, 3)), framed=ON_A_TABLE, kinds=("index", "smooth"), nan=()),
        OpExample(((1,), (5,)), framed=(False, False), kinds=("index", "smooth"), nan=()),
    ),
    "OutputMultiplexer": UNARY,
    "OptimizedRNNStack": _stacks(),
    "CosDistance": (OpExample(((4,), (4,))), OpExample(((2, 3), (2, 3)))),
    "CosDistanceWithNegativeSamples": (
        OpExample(((4,), (4,)), NegativeSamplesAttributes(1, 2)),
        OpExample(((4,), (4,), (1,), (1,)), NegativeSamplesAttributes(2, 4), framed=(True, True, False, False)),
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
        OpExample(((7,),), SliceAttributes(1, 6, stride=2), nan=()),
        OpExample(((5, 4),), SliceAttributes((0, 1), (0, 4), (1, 2), (-1, -2)), nan=()),
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
        OpExample(((4,), (4,)), kinds=("shares", "smooth")),
        # The gradient is that of labels that sum to 1, as in the original: no derivative here.
        OpExample(((2, 2), (2, 2)), kinds=("chance", "smooth"), framed=BOTH, gradient=False),
    ),
    "CrossEntropy": (OpExample(((4,), (4,)), kinds=("chance", "chance")),),
    "ClassificationError": (
        OpExample(((4,), (4,)), kinds=("one_hot", "smooth")),
        OpExample(((4,), (4,), (1,)), kinds=("one_hot", "smooth", "index"), framed=(True, True, False), values={2: 2}),
    ),
    "Logistic": (
        OpExample(((3,), (3,)), kinds=("binary", "chance")),
        OpExample(((1,), (1,), (1,)), kinds=("binary", "chance", "smooth"), framed=(True,) * 3, values={2: 1.0}),
        # Nor here: the gradient leaves out that the weights are divided by their mean.
        OpExample(((1,), (1,), (1,)), kinds=("binary", "chance", "positive"), framed=(True,) * 3, gradient=False),
    ),
    "LookupTable": (
        OpExample(((5, 3), (5,)), framed=LATTER),
        OpExample(((4, 3), (8,)), framed=LATTER),
        OpExample(((4, 3), (8,)), framed=(False, False)),
    ),
    "QuantizedTimes": (
        OpExample(((4, 5), (4,)), nan=()),
        OpExample(((4, 5), (3, 4)), QuantizedTimesAttributes(bit_smoothing_a=3), nan=()),
    ),
    "ClassBasedCrossEntropyWithSoftmax": (
        OpExample(
            ((4,), (3,), (6, 3), (2,)),
            framed=(True, True, False, True),
            kinds=LABELLED,
            values={0: WORDS_AND_CLASSES},
        ),
    ),
    "NoiseContrastiveEstimation": (
        OpExample(((6,), (3,), (5, 3), (1, 5)), framed=NCE, kinds=LABELLED, nan=(1,), values={0: WORDS_AND_NOISE}),
        OpExample(
            ((1,), (3,), (5, 3), (5,)),
            framed=NCE,
            nan=(1,),
            kinds=LABELLED,
            values={0: [[1], [4], [1]]},
        ),
        OpExample(((1,), (3,), (5, 3), (5,)), framed=NCE, kinds=LABELLED, nan=(1,), values={0: [[-1], [-4], [0]]}),
        OpExample(
            ((6,), (3,), (5, 3), (5,)),
            NoiseContrastiveAttributes(1),
            framed=NCE,
            kinds=LABELLED,
            nan=(1,),
            values={0: [[-2] * 6]},
        ),
    ),
    # The gradient is not that of the value, and a NaN has a place too.
    "LambdaRank": (
        OpExample(
            ((1,), (1,), (1,)),
            kinds=("positive", "smooth", "binary"),
            framed=(True, True, True),
            gradient=False,
            nan=(),
        ),
    ),
    "NDCG1Eval": (OpExample(((1,), (1,), (1,)), kinds=("positive", "smooth", "binary"), framed=(True, True, True)),),
    "GMMLogLikelihood": (
        OpExample(((2,), (6,), (2,), (3,))),
        OpExample(((2,), (2, 3), (2,), (3,)), framed=(False, False, False, True)),
    ),
    "RandomDistribution": (
        OpExample(((2, 3),)),
        OpExample(((4,),), RandomDistributionAttributes("normal", (1.0, 2.0))),
        OpExample(((4,),), RandomDistributionAttributes("gumbel")),
        OpExample(((4,),), RandomDistributionAttributes("bernoulli", (0.4,))),
    ),
    "RandomSample": (
        OpExample(((6,),), RandomSampleAttributes(3), kinds=("positive",), framed=(False,)),
        OpExample(((1, 6),), RandomSampleAttributes(9, True), kinds=("positive",), framed=(False,)),
    ),
    "RandomSampleInclusionFrequency": (
        OpExample(((6,),), RandomSampleAttributes(3), kinds=("positive",), framed=(False,)),
        OpExample(((1, 6),), RandomSampleAttributes(9, True), kinds=("positive",), framed=(False,)),
    ),
    "EditDistanceError": (
        OpExample(((4,), (4,)), kinds=("one_hot", "smooth"), framed=BOTH),
        OpExample(
            ((4,), (4,)), EditDistanceAttributes(2.0, 1.0, 1.0, True, (1,)), kinds=("one_hot", "smooth"), framed=BOTH
        ),
    ),
    "CRF": tuple(
        OpExample(((3,), (3,), size), framed=ON_A_MATRIX, kinds=LABELLED[:3], values={0: CHAIN}, nan=(1, 2))
        for size in ((3, 3), (9,))
    ),
    # The result has no numbers but 0 and 1.
    "SequenceDecoder": (
        OpExample(((3,), (3,), (3, 3)), framed=ON_A_MATRIX, kinds=LABELLED[:3], values={0: CHAIN}, nan=()),
    ),
    "LabelsToGraph": UNARY,
    "ForwardBackward": (
        OpExample(((3,), (3,)), framed=BOTH, kinds=LABELLED[:2], values={0: PHONES}, gradient=False, nan=(1,)),
        OpExample(
            ((3,), (3,)),
            ForwardBackwardAttributes(0, 1),
            framed=BOTH,
            kinds=LABELLED[:2],
            values={0: PHONES},
            gradient=False,
            nan=(1,),
        ),
    ),
    "Convolution": CONVOLUTIONS,
    "Pooling": POOLINGS,
    "MaxPooling": (
        OpExample(((2, 5, 4),), LegacyPoolingAttributes(2, 2, 2, 1, "CHW"), nan=()),
        OpExample(((5, 4, 2),), LegacyPoolingAttributes(2, 3, 1, 2), nan=()),
    ),
    "AveragePooling": (
        OpExample(((2, 5, 4),), LegacyPoolingAttributes(2, 2, 2, 1, "CHW"), nan=()),
        OpExample(((5, 4, 2),), LegacyPoolingAttributes(2, 3, 1, 2), nan=()),
    ),
    "MaxUnpooling": (
        OpExample(((2, 2, 2), (2, 4, 5)), PoolingAttributes((2, 2), stride=(2,), auto_padding=(False,))),
        OpExample(((2, 2, 3), (2, 3, 5)), PoolingAttributes((3, 3), stride=(2,)), nan=()),
    ),
    "ROIPooling": (
        OpExample(
            ((2, 5, 6), (2, 4)),
            ROIPoolingAttributes((3, 2), 0.5),
            framed=BOTH,
            values={1: [[-1, -3, 7, 5], [4, 2, 11, 9]]},
            nan=(),
        ),
    ),
    "BatchNormalization": (
        OpExample(((4,), (4,), (4,), (4,), (4,), (1,)), framed=STATISTICS, kinds=NORMALIZED, nan=(0, 1, 2)),
        OpExample(
            ((2, 3, 2), (2,), (2,), (2,), (2,)),
            BatchNormalizationAttributes(True, normalization_time_constant=5.0),
            framed=STATISTICS[:5],
            kinds=NORMALIZED[:5],
            nan=(0, 1, 2),
        ),
        OpExample(
            ((4,), (4,), (4,), (4,), (4,), (1,)),
            BatchNormalizationAttributes(normalization_time_constant=math.inf, blend_time_constant=4.0, epsilon=0.01),
            framed=STATISTICS,
            kinds=NORMALIZED,
            nan=(0, 1, 2),
        ),
    ),
    "LocalResponseNormalization": (
        OpExample(((5, 2, 2),), LocalResponseNormalizationAttributes(1, 2.0, 0.5, 0.75)),
        OpExample(((3,),), LocalResponseNormalizationAttributes(4)),
    ),
    "Crop": (OpExample(((2, 5, 6), (2, 3)), CropAttributes(2, 1), nan=()),),
    "Trace": (OpExample(((4,),), TraceAttributes(log_first=0)),),
    "EpochAccumulator": UNARY,
    "ReconcileDynamicAxis": (
        OpExample(((4,), (2,)), framed=(True, True)),
        OpExample(((4,), (2,)), framed=(False, True)),
    ),
    "DummyCriterion": (OpExample(((1,), (4,), (4,)), gradient=False, nan=(0,)),),
    "PerDimMeanVarNormalization": NORMALIZATION,
    "PerDimMeanVarDeNormalization": NORMALIZATION,
}
"""Op name to examples."""

NOT_COMPUTED = {
    "InputValue",
    "SparseInputValue",
    "LearnableParameter",
    "DynamicAxis",
    "EnvironmentInput",
    "Mean",
    "InvStdDev",
}
"""Ops whose values do not come from inputs: leaves and precomputed values."""

MOVES = frozenset(
    {
        "AttentionWeights",
        "AdditiveAttentionWeights",
        "AttentionSum",
        "AttentionProducts",
        "AttentionMemory",
        "Where",
        "LatticeFreeMMI",
        "PackedIndex",
        "GatherPacked",
        "ScatterPacked",
        "SequenceWithSoftmax",
        "ToBatch",
        "ToSequence",
        "ToSequenceLike",
        "UnpackBatch",
        "UnpackSequence",
    }
)
"""Ops whose inputs and results have different dynamic axes; they are checked on whole networks."""
