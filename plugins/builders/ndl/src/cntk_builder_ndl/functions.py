"""The functions of NDL: how arguments become an op, its settings and its inputs.

Rules of the original: docs/original-rules.md#functions-of-ndl.
"""

from __future__ import annotations

import attrs

from cntk_builder_ndl.images import (
    CONVOLUTION,
    NORMALIZATION,
    make_convolution,
    make_crop,
    make_image_pooling,
    make_normalization,
    make_pooling,
    make_roi_pooling,
    make_unpooling,
)
from cntk_builder_ndl.leaves import make_constant, make_input, make_parameter
from cntk_builder_ndl.making import Made, Make, make_common
from cntk_builder_ndl.operations import (
    make_cosines,
    make_delay,
    make_edit_distance,
    make_reshape,
    make_row_repeat,
    make_row_slice,
)
from cntk_builder_ndl.reading import Reader
from cntk_core.api import BuildContext, BuildError, UnsupportedError


@attrs.frozen
class Function:
    """One function of NDL.

    Attributes:
        name: as the documentation spells it.
        aliases: further names.
        usage: how it is called.
        make: makes the node; None is the common way, see ``make_common``.
        op: name of the op where it differs from the function's.
    """

    name: str
    aliases: tuple[str, ...] = ()
    usage: str = ""
    make: Make | None = None
    op: str = ""

    @property
    def op_name(self) -> str:
        """The name of the op."""
        return self.op or self.name


def not_there_yet(reader: Reader) -> UnsupportedError:
    """Return the error for a function that the original has and this version has not."""
    return UnsupportedError(f"the NDL function '{reader.name}' is not there yet", where=reader.where)


def _plain(*names: str) -> list[Function]:
    """Functions whose arguments are all inputs; each text is a name and its aliases."""
    return [Function(name, tuple(aliases), _USAGES.get(name, "")) for name, *aliases in map(str.split, names)]


_USAGES = {
    usage.partition("(")[0]: usage
    for usage in (
        "ClassBasedCrossEntropyWithSoftmax(labels, x, weights, classScores)",
        "ClassificationError(labels, scores [, howMany])",
        "Clip(low, high, x)",
        "CRF(labels, scores, transitions)",
        "CrossEntropy(labels, probabilities)",
        "CrossEntropyWithSoftmax(labels, scores)",
        "DiagTimes(diagonal, x)",
        "DummyCriterion(objective, gradient, scores)",
        "ForwardBackward(labelsToGraph, scores, blankTokenId=-1, delayConstraint=-1)",
        "GMMLogLikelihood(logPriors, means, logDeviations, x)",
        "If(condition, x, y)",
        "Logistic(labels, probabilities [, weights])",
        "LookupTable(table, words)",
        "PerDimMeanVarDeNormalization(x, mean, invStdDev)",
        "PerDimMeanVarNormalization(x, mean, invStdDev)",
        "ReconcileDynamicAxis(x, like)",
        "SequenceDecoder(labels, scores, transitions)",
        "SequenceWithSoftmax(labels, scores, logLikelihoods)",
        "Times(W, x, outputRank=1, inferInputRankToMap=-1)",
        "TransposeTimes(W, x, outputRank=1, inferInputRankToMap=-1)",
    )
}


FUNCTIONS = (
    Function("InputValue", ("Input",), "Input(dim1, dim2, ..., dynamicAxis=)", make_input(sparse=False, image=False)),
    Function("SparseInputValue", ("SparseInput",), "SparseInput(dim1, ...)", make_input(sparse=True, image=False)),
    Function(
        "ImageInput", ("Image",), "ImageInput(width, height, channels, imageLayout=HWC, dynamicAxis=)",
        make_input(sparse=False, image=True), "InputValue",
    ),
    Function(
        "SparseImageInput", ("SparseImage",),
        "SparseImageInput(width, height, channels, imageLayout=HWC, dynamicAxis=)",
        make_input(sparse=True, image=True), "SparseInputValue",
    ),
    Function(
        "LearnableParameter", ("Parameter",), "Parameter(dim1, dim2, ..., init=uniform)", make_parameter(image=False)
    ),
    Function(
        "ImageParameter", (), "ImageParameter(..., width, height, channels, init=uniform, imageLayout=HWC)",
        make_parameter(image=True), "LearnableParameter",
    ),
    Function(
        "Constant", ("Const",), "Constant(value, rows=1, cols=1)", make_constant, "LearnableParameter"
    ),
    Function("RowSlice", (), "RowSlice(firstRow, rows, x)", make_row_slice, "Slice"),
    Function("RowRepeat", (), "RowRepeat(x, repetitions)", make_row_repeat),
    Function(
        "Reshape", (), "Reshape(x, rows, imageWidth=, imageHeight=, imageChannels=)", make_reshape, "LegacyReshape"
    ),
    Function("PastValue", ("Delay",), "PastValue(rows, x, timeStep=1, defaultHiddenActivity=0.1)", make_delay),
    Function("FutureValue", (), "FutureValue(rows, x, timeStep=1, defaultHiddenActivity=0.1)", make_delay),
    Function(
        "CosDistanceWithNegativeSamples", ("CosWithNegSamples",),
        "CosDistanceWithNegativeSamples(x, y, shift, negatives)", make_cosines,
    ),
    Function(
        "EditDistanceError", (),
        "EditDistanceError(x, y, subPen=1, delPen=1, insPen=1, squashInputs=false, tokensToIgnore=)",
        make_edit_distance,
    ),
    Function("Convolution", ("Convolve",), CONVOLUTION, make_convolution),
    Function("Pooling", (), "Pooling(x, max or average, {window}, stride=1, autoPadding=true)", make_pooling),
    Function(
        "MaxUnpooling", (), "MaxUnpooling(x, poolInput, {window}, stride=1, autoPadding=true)", make_unpooling
    ),
    Function("MaxPooling", (), "MaxPooling(x, width, height, hSub, vSub, imageLayout=HWC)", make_image_pooling),
    Function(
        "AveragePooling", (), "AveragePooling(x, width, height, hSub, vSub, imageLayout=HWC)", make_image_pooling
    ),
    Function(
        "ROIPooling", (), "ROIPooling(x, regions, {width, height}, spatialScale=0.0625)", make_roi_pooling
    ),
    Function("BatchNormalization", (), NORMALIZATION, make_normalization),
    Function(
        "Crop", (), "Crop(x, like), Crop(x, like, xOffset, yOffset) or Crop(x, like, node1, node2)", make_crop
    ),
    Function("ColumnElementTimes", (), "ColumnElementTimes(x, y)", op="ElementTimes"),
    Function("RowElementTimes", (), "RowElementTimes(x, y)", op="ElementTimes"),
    Function("Scale", (), "Scale(factor, x)", op="ElementTimes"),
    Function("Transpose", (), "Transpose(x)", op="TransposeDimensions"),
    *_plain(
        "Abs", "ClassBasedCrossEntropyWithSoftmax CBCEWithSM", "ClassificationError ErrorPrediction", "Clip",
        "CosDistance CosDist", "Cosine Cos", "CRF", "CrossEntropy", "CrossEntropyWithSoftmax CEWithSM", "DiagTimes",
        "Diagonal", "Dropout", "DummyCriterion", "ElementTimes", "Equal", "Exp", "Floor", "ForwardBackward",
        "GMMLogLikelihood GMMLL", "Greater", "GreaterEqual", "Hardmax", "If", "InvStdDev",
        "KhatriRaoProduct ColumnwiseCrossProduct", "LabelsToGraph", "Less", "LessEqual", "Log", "Logistic", "LogPlus",
        "LogSoftmax", "LookupTable", "MatrixL1Reg L1Reg", "MatrixL2Reg L2Reg", "Mean", "Minus", "Negate", "NotEqual",
        "Pass", "PerDimMeanVarDeNormalization PerDimMVDeNorm", "PerDimMeanVarNormalization PerDimMVNorm", "Plus",
        "Reciprocal", "ReconcileDynamicAxis", "RectifiedLinear ReLU", "RowStack", "SequenceDecoder",
        "SequenceWithSoftmax SEWithSM", "Sigmoid", "Sin", "Softmax", "Sqrt", "SquareError SE", "SumColumnElements",
        "SumElements", "Tanh", "Times", "TransposeTimes",
    ),
)  # fmt: skip
"""All functions of the original."""

BY_NAME = {name.lower(): function for function in FUNCTIONS for name in (function.name, *function.aliases)}
"""The same by lower-case name, aliases included. These names are reserved: nothing else can be called so."""


def function_names(context: BuildContext) -> tuple[str, ...]:
    """Return the names of all functions, those of plugins included."""
    known = [name for function in FUNCTIONS for name in (function.name, *function.aliases)]
    return tuple(dict.fromkeys([*known, *context.op_names("ndl")]))


def make_node(reader: Reader, function: Function | None) -> Made:
    """Make the node of a call; ``function`` is None for an op of a plugin.

    Raises:
        UnsupportedError: there is no op for it yet.
        BuildError: an argument is wrong.
    """
    op = reader.context.find_op("ndl", function.op_name if function else reader.name)
    if op is None:
        raise not_there_yet(reader)
    if op.role in ("input", "parameter", "axis") and (function is None or function.make is None):
        raise BuildError(f"'{reader.name}' cannot be called", where=reader.where)
    make = function.make if function and function.make else make_common
    return make(reader, op)
