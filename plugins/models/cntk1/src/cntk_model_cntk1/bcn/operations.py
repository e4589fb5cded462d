"""The operations that version 1 of the format can store: those that the original makes when it reads such a file.

Of the others, some have a node in CNTK 2 as well, but its reader of old files does not know them.
"""

from __future__ import annotations

from cntk_core.api import Op

STORED = frozenset(
    {
        "Abs",
        "AveragePooling",
        "BatchNormalization",
        "CRF",
        "ClassBasedCrossEntropyWithSoftmax",
        "ClassificationError",
        "Clip",
        "Convolution",
        "CosDistance",
        "CosDistanceWithNegativeSamples",
        "Cosine",
        "Crop",
        "CrossEntropy",
        "CrossEntropyWithSoftmax",
        "DiagTimes",
        "Diagonal",
        "Dropout",
        "DummyCriterion",
        "DynamicAxis",
        "EditDistanceError",
        "ElementTimes",
        "EnvironmentInput",
        "EpochAccumulator",
        "Equal",
        "Exp",
        "Floor",
        "ForwardBackward",
        "FutureValue",
        "GMMLogLikelihood",
        "GatherPacked",
        "Greater",
        "GreaterEqual",
        "Hardmax",
        "If",
        "InvStdDev",
        "KhatriRaoProduct",
        "LabelsToGraph",
        "LambdaRank",
        "LegacyReshape",
        "Less",
        "LessEqual",
        "Log",
        "LogPlus",
        "LogSoftmax",
        "Logistic",
        "LookupTable",
        "MatrixL1Reg",
        "MatrixL2Reg",
        "MaxPooling",
        "MaxUnpooling",
        "Mean",
        "Minus",
        "NDCG1Eval",
        "Negate",
        "NoiseContrastiveEstimation",
        "NotEqual",
        "OptimizedRNNStack",
        "PackedIndex",
        "Pass",
        "PastValue",
        "PerDimMeanVarDeNormalization",
        "PerDimMeanVarNormalization",
        "Plus",
        "Pooling",
        "QuantizedTimes",
        "ROIPooling",
        "RandomSample",
        "RandomSampleInclusionFrequency",
        "Reciprocal",
        "ReconcileDynamicAxis",
        "RectifiedLinear",
        "ReduceElements",
        "Reshape",
        "RowRepeat",
        "RowStack",
        "ScatterPacked",
        "SequenceWithSoftmax",
        "Shift",
        "Sigmoid",
        "Sin",
        "Slice",
        "Softmax",
        "Sqrt",
        "SquareError",
        "StableSigmoid",
        "SumColumnElements",
        "SumElements",
        "Tanh",
        "Times",
        "Trace",
        "TransposeDimensions",
        "TransposeTimes",
        "Where",
    }
)
"""Our names, which are the original's but for one: :data:`ORIGINAL`."""

ORIGINAL = {"NoiseContrastiveEstimation": "NCEBasedCrossEntropyWithSoftmax"}
"""Operations that are called otherwise in files."""

OLDEST_NAMES = {"ClassificationError": "ErrorPrediction"}
"""What they were called before :data:`RENAMED`. Later programs know these names, too."""

RENAMED = 14
"""No later than in this version of the format."""


def stored_name(name: str, version: int) -> str:
    """Return what an operation of ours is called in a file of some version."""
    found = OLDEST_NAMES.get(name, name) if version < RENAMED else name
    return ORIGINAL.get(found, found)


def carried(op: Op) -> tuple[bool, bool]:
    """Return whether version 1 brings an operation in, and whether it carries it out, for the table of all formats."""
    from cntk_model_cntk1.bcn.attributes import READERS
    from cntk_model_cntk1.bcn.images import IMAGE_READERS

    leaf = op.role in ("input", "parameter")
    read = op.name in READERS or op.name in IMAGE_READERS or op.name in STORED
    return leaf or read, leaf or op.name in STORED
