"""The functions of NDL: how arguments become an op, its settings and its inputs (cntk-inventory 3.3 and 3.4)."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from cntk_builder_ndl.reading import Reader
from cntk_builder_ndl.scope import Operand
from cntk_core.api import (
    BuildContext,
    BuildError,
    FixedValue,
    FromFile,
    Input,
    Node,
    Op,
    Parameter,
    Shape,
    UnsupportedError,
    from_cntk,
    initializer,
    to_cntk,
)

Made = tuple[Node, tuple[Operand, ...]]
"""A node without its inputs, and the operands that become its inputs."""


@attrs.frozen
class Function:
    """One function of NDL.

    Attributes:
        name: as the documentation spells it.
        aliases: further names.
        usage: how it is called.
        make: makes the node; None is the common way, see :func:`make_common`.
        op: name of the op where it differs from the function's.
    """

    name: str
    aliases: tuple[str, ...] = ()
    usage: str = ""
    make: Callable[[Reader, Op], Made] | None = None
    op: str = ""

    @property
    def op_name(self) -> str:
        """The name of the op."""
        return self.op or self.name


# -- leaves -------------------------------------------------------------------------------------------------------


def _image_shape(reader: Reader, dims: list[int]) -> Shape:
    """Return the memory shape of ``[..., width, height, channels]``; the last three follow ``imageLayout``."""
    layout = reader.option_choice("imageLayout", "HWC", ("HWC", "legacy", "CHW", "cudnn"))
    *others, width, height, channels = dims
    legacy = layout in ("hwc", "legacy")
    return from_cntk([*others, *((channels, width, height) if legacy else (width, height, channels))])


def _make_input(sparse: bool, image: bool) -> Callable[[Reader, Op], Made]:
    def make(reader: Reader, op: Op) -> Made:
        if image:
            reader.expect(3, 4)
            shape = _image_shape(reader, reader.wholes("a dimension", 0, 3, least=1))
        else:
            reader.expect(1, 100)
            shape = from_cntk(reader.wholes("a dimension", least=1))
        axis = reader.option_text("dynamicAxis", "")
        return Input.make(reader.node_name, shape, sparse=sparse, where=reader.where, axis=axis), ()

    return make


def _make_parameter(image: bool) -> Callable[[Reader, Op], Made]:
    def make(reader: Reader, op: Op) -> Made:
        reader.expect(3 if image else 1, 100)
        dims = reader.wholes("a dimension")
        shape = _image_shape(reader, dims) if image else from_cntk(dims)
        rate = reader.option_number("learningRateMultiplier", 1.0)
        gradient = [reader.option_flag(key, True) for key in ("needGradient", "needsGradient", "computeGradient")]
        reader.option_flag("initOnCPUOnly", False)  # says where the original draws; there is one stream here
        kernel = (reader.option_whole("kernelWidth", 0), reader.option_whole("kernelHeight", 0))
        seed = reader.option_whole("randomSeed", -1)
        first = initializer(
            reader.option_text("init", "uniform"),
            scale=reader.option_number("initValueScale", 1.0),
            value=reader.option_number("value", 0.0),
            path=reader.option_path("initFromFilePath"),
            kernel=kernel if all(kernel) else None,
            seed=seed if seed >= 0 else None,
            seed_offset=reader.seed_offset,
            where=reader.option_where("init"),
        )
        if isinstance(first, FromFile) and 0 in shape:
            shape = first.complete(shape)
        multiplier = rate if all(gradient) else 0.0
        parameter = Parameter.make(
            reader.node_name, shape, first, learning_rate_multiplier=multiplier, where=reader.where
        )
        return parameter, ()

    return make


def _make_constant(reader: Reader, op: Op) -> Made:
    reader.expect(1)
    value = reader.number(0, "the value of a constant")
    shape = (reader.option_whole("cols", 1), reader.option_whole("rows", 1))
    made = Parameter.make(
        reader.node_name,
        shape,
        FixedValue(value),
        value=np.full(shape, value, reader.context.dtype),
        learning_rate_multiplier=0.0,
        where=reader.where,
    )
    return made, ()


# -- operations ---------------------------------------------------------------------------------------------------


def _node(reader: Reader, op: Op, **attributes: Any) -> Node:
    return Node(reader.node_name, op, attributes=op.attributes(**attributes), where=reader.where)


def _make_row_slice(reader: Reader, op: Op) -> Made:
    reader.expect(3)
    start = reader.whole(0, "the first row")
    rows = reader.whole(1, "the number of rows", least=1)
    return _node(reader, op, begin=start, end=start + rows, axis=1), reader.nodes(2)


def _make_row_repeat(reader: Reader, op: Op) -> Made:
    reader.expect(2)
    return _node(reader, op, num_repeats=reader.whole(1, "the number of repetitions", least=1)), reader.nodes(0, 1)


def _make_reshape(reader: Reader, op: Op) -> Made:
    reader.expect(2)
    rows = reader.whole(1, "the number of rows")
    image = [reader.option_whole(key, 0) for key in ("imageWidth", "imageHeight", "imageChannels")]
    dims = to_cntk(_image_shape(reader, image)) if all(image) else ()
    return _node(reader, op, rows=rows, image=dims), reader.nodes(0, 1)


def _make_cosines(reader: Reader, op: Op) -> Made:
    reader.expect(4)
    shift = reader.whole_or_constant(2, "the shift")
    negatives = reader.whole_or_constant(3, "the number of negative samples")
    return _node(reader, op, shift=shift, negatives=negatives), reader.nodes(0, 2)


def make_common(reader: Reader, op: Op) -> Made:
    """Make the node of a function whose arguments are all inputs; options are the op's settings in camel case.

    Raises:
        BuildError: the number of inputs or an option is wrong.
    """
    fewest, most = op.arity
    reader.expect(fewest, 10**6 if most is None else most)
    hints = typing.get_type_hints(op.attributes)
    given: dict[str, Any] = {}
    for field in attrs.fields(op.attributes):
        first, *rest = field.name.split("_")
        key = first + "".join(part.capitalize() for part in rest)
        read: dict[Any, Callable[[str, Any], Any]] = {
            bool: reader.option_flag,
            int: reader.option_whole,
            float: reader.option_number,
            str: reader.option_text,
        }
        wanted = hints.get(field.name)
        if wanted in read and field.default is not attrs.NOTHING:
            given[field.name] = read[wanted](key, field.default)
    return _node(reader, op, **given), reader.nodes()


def _later(reader: Reader, op: Op) -> Made:
    raise not_there_yet(reader)


def not_there_yet(reader: Reader) -> UnsupportedError:
    """Return the error for a function that the original has and this version has not."""
    return UnsupportedError(f"the NDL function '{reader.name}' is not there yet", where=reader.where)


def _common(*names: str) -> list[Function]:
    return [Function(name, aliases) for name, *rest in map(str.split, names) for aliases in [tuple(rest)]]


FUNCTIONS = (
    Function("InputValue", ("Input",), "Input(dim1, dim2, ..., dynamicAxis=)", _make_input(False, False)),
    Function("SparseInputValue", ("SparseInput",), "SparseInput(dim1, dim2, ...)", _make_input(True, False)),
    Function(
        "ImageInput",
        ("Image",),
        "ImageInput(width, height, channels, imageLayout=HWC)",
        _make_input(False, True),
        "InputValue",
    ),
    Function(
        "SparseImageInput",
        ("SparseImage",),
        "SparseImageInput(width, height, channels, imageLayout=HWC)",
        _make_input(True, True),
        "SparseInputValue",
    ),
    Function(
        "LearnableParameter", ("Parameter",), "Parameter(dim1, dim2, ..., init=uniform)", _make_parameter(image=False)
    ),
    Function(
        "ImageParameter",
        (),
        "ImageParameter(..., width, height, channels, init=uniform, imageLayout=HWC)",
        _make_parameter(image=True),
        "LearnableParameter",
    ),
    Function("Constant", ("Const",), "Constant(value, rows=1, cols=1)", _make_constant, "LearnableParameter"),
    Function("RowSlice", (), "RowSlice(firstRow, rows, x)", _make_row_slice, "Slice"),
    Function("RowRepeat", (), "RowRepeat(x, repetitions)", _make_row_repeat),
    Function(
        "Reshape", (), "Reshape(x, rows, imageWidth=, imageHeight=, imageChannels=)", _make_reshape, "LegacyReshape"
    ),
    Function(
        "CosDistanceWithNegativeSamples",
        ("CosWithNegSamples",),
        "CosDistanceWithNegativeSamples(x, y, shift, negatives)",
        _make_cosines,
    ),
    Function("ColumnElementTimes", op="ElementTimes"),
    Function("RowElementTimes", op="ElementTimes"),
    Function("Scale", op="ElementTimes"),
    Function("Transpose", op="TransposeDimensions"),
    *_common(
        "Abs", "ClassBasedCrossEntropyWithSoftmax CBCEWithSM", "ClassificationError ErrorPrediction", "Clip",
        "CosDistance CosDist", "Cosine Cos", "CrossEntropy",
        "CrossEntropyWithSoftmax CEWithSM", "DiagTimes", "Diagonal", "Dropout", "DummyCriterion", "EditDistanceError",
        "ElementTimes", "Equal", "Exp", "Floor", "ForwardBackward", "Greater", "GreaterEqual", "Hardmax", "If",
        "InvStdDev", "KhatriRaoProduct ColumnwiseCrossProduct", "LabelsToGraph", "Less", "LessEqual", "Log",
        "Logistic", "LogPlus", "LogSoftmax", "LookupTable", "MatrixL1Reg L1Reg", "MatrixL2Reg L2Reg", "Mean", "Minus",
        "Negate", "NotEqual", "Pass", "PerDimMeanVarDeNormalization PerDimMVDeNorm",
        "PerDimMeanVarNormalization PerDimMVNorm", "Plus", "Reciprocal", "ReconcileDynamicAxis",
        "RectifiedLinear ReLU", "ROIPooling", "RowStack", "SequenceWithSoftmax SEWithSM", "Sigmoid", "Sin", "Softmax",
        "Sqrt", "SquareError SE", "SumColumnElements", "SumElements", "Tanh", "Times", "TransposeTimes",
    ),
    *(
        Function(name, aliases, make=_later)
        for name, aliases in {
            "AveragePooling": (), "BatchNormalization": (), "Convolution": ("Convolve",), "CRF": (), "Crop": (),
            "FutureValue": (), "GMMLogLikelihood": ("GMMLL",), "MaxPooling": (), "MaxUnpooling": (),
            "PastValue": ("Delay",), "Pooling": (), "SequenceDecoder": (),
        }.items()
    ),
)  # fmt: skip
"""All functions of the original."""

BY_NAME = {name.lower(): function for function in FUNCTIONS for name in (function.name, *function.aliases)}
"""The same by lower-case name, aliases included."""


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
    if op.role in ("input", "parameter") and (function is None or function.make is None):
        raise BuildError(f"'{reader.name}' cannot be called", where=reader.where)
    make = function.make if function and function.make else make_common
    made = make(reader, op)
    reader.finish()
    return made
