"""Each function: shapes, settings, initial values."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_ndl.functions import BY_NAME

from cntk_core.api import CntkError, FixedValue, FromFile, Parameter, Random


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("Input(4)", (4,)),
        ("InputValue(4, 1)", (1, 4)),
        ("Input(2, 3, 5)", (5, 3, 2)),
        ("ImageInput(6, 5, 3)", (5, 6, 3)),
        ("Image(6, 5, 3, 1)", (5, 6, 3)),
        ("ImageInput(6, 5, 3, imageLayout=CHW)", (3, 5, 6)),
        ('ImageInput(6, 5, 3, imageLayout="cudnn")', (3, 5, 6)),
        ("ImageInput(6, 5, 3, imageLayout=legacy)", (5, 6, 3)),
    ],
)
def test_inputs(net, call: str, shape: tuple[int, ...]) -> None:
    assert net(f"f={call}")["f"].shape == shape


def test_sparse_inputs_and_axes(net) -> None:
    made = net('a=SparseInput(9)\nb=SparseImage(2,3,4)\nc=Input(3, dynamicAxis="t")')
    assert made["a"].sparse
    assert made["b"].sparse
    assert made["b"].shape == (3, 2, 4)
    assert made["a"].op.name == "SparseInputValue"
    assert made["c"].axis == "t"


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("Parameter(5)", (5,)),
        ("Parameter(5,4)", (4, 5)),
        ("LearnableParameter(5,1)", (1, 5)),
        ("Parameter(5,0)", (0, 5)),
        ("ImageParameter(1,1,7)", (1, 1, 7)),
        ("ImageParameter(1,1,7,imageLayout=cudnn)", (7, 1, 1)),
        ("ImageParameter(10, 6, 5, 3, imageLayout=CHW)", (3, 5, 6, 10)),
    ],
)
def test_parameters(net, call: str, shape: tuple[int, ...]) -> None:
    parameter = net(f"p={call}")["p"]
    assert isinstance(parameter, Parameter)
    assert parameter.shape == shape
    assert parameter.initializer == Random("uniform")
    assert parameter.learned


@pytest.mark.parametrize(
    ("options", "initializer"),
    [
        ("init=gaussian", Random("gaussian")),
        ("init = uniform , initValueScale = 0.5", Random("uniform", 0.5)),
        ('init="heNormal", initOnCPUOnly=true', Random("heNormal")),
        ("init=fixedvalue, value=-2.5", FixedValue(-2.5)),
        ("init=fixedValue, value=half", FixedValue(0.5)),
        ("randomSeed=7", Random("uniform", seed=7)),
        ("randomSeed=-1", Random("uniform")),
        ("init=kind", Random("uniform")),
    ],
)
def test_initial_values(net, options: str, initializer: object) -> None:
    made = net(f'half=0.5\nkind="uniform"\np=Parameter(5, 4, {options})')
    assert made["p"].initializer == initializer


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ("learningRateMultiplier=0.5", 0.5),
        ("learningRateMultiplier=0", 0.0),
        ("needGradient=false", 0.0),
        ("needsGradient=false, learningRateMultiplier=2", 0.0),
        ("computeGradient=F", 0.0),
        ("needGradient=true", 1.0),
    ],
)
def test_learning_rate_multipliers(net, options: str, rate: float) -> None:
    parameter = net(f"p=Parameter(5, 4, {options})")["p"]
    assert parameter.learning_rate_multiplier == rate
    assert parameter.learned == (rate > 0)


def test_values_from_a_file(net, shipped, tmp_path) -> None:
    shipped("W.txt", "1 2 3\n4 5 6\n")
    made = net('W=Parameter(2,0,init=fromFile,initFromFilePath="W.txt")', directory=tmp_path)
    assert made["W"].shape == (3, 2)
    assert made["W"].initializer == FromFile(tmp_path / "W.txt", made["W"].initializer.where)


@pytest.mark.parametrize(("call", "shape"), [("Constant(3)", (1, 1)), ("Const(3, rows=5, cols=2)", (2, 5))])
def test_constants(net, call: str, shape: tuple[int, ...]) -> None:
    constant = net(f"c={call}", dtype=np.dtype(np.float64))["c"]
    assert constant.shape == shape
    assert constant.value.dtype == np.float64
    assert np.all(constant.value == 3.0)
    assert not constant.learned


def test_negative_constants(net) -> None:
    assert net("c=Constant(-1.5e-3)")["c"].value.item() == pytest.approx(-1.5e-3)


@pytest.mark.parametrize(
    ("call", "op", "inputs", "shape"),
    [
        ("RowSlice(1, 2, x)", "Slice", ["x"], (2,)),
        ("RowRepeat(x, 3)", "RowRepeat", ["x"], (12,)),
        ("RowStack(x, y, x)", "RowStack", ["x", "y", "x"], (11,)),
        ("Reshape(x, 4)", "LegacyReshape", ["x"], (4,)),
        ("Reshape(x, 4, imageWidth=2, imageHeight=2, imageChannels=1)", "LegacyReshape", ["x"], (2, 2, 1)),
        ("Transpose(W)", "TransposeDimensions", ["W"], (3, 4)),
        ("Scale(s, x)", "ElementTimes", ["s", "x"], (1, 4)),
        ("ColumnElementTimes(x, x)", "ElementTimes", ["x", "x"], (4,)),
        ("RowElementTimes(x, s)", "ElementTimes", ["x", "s"], (1, 4)),
        ("PerDimMVNorm(x, m, i)", "PerDimMeanVarNormalization", ["x", "m", "i"], (4,)),
        ("CEWithSM(y, Times(W, x))", "CrossEntropyWithSoftmax", None, (1,)),
        ("SE(x, x)", "SquareError", ["x", "x"], (1,)),
        ("ErrorPrediction(y, y, Const(2))", "ClassificationError", None, (1,)),
        ("ReLU(x)", "RectifiedLinear", ["x"], (4,)),
        ("L1Reg(W)", "MatrixL1Reg", ["W"], (1,)),
        ("Cos(x)", "Cosine", ["x"], (4,)),
        ("CosWithNegSamples(x, x, 1, s)", "CosDistanceWithNegativeSamples", ["x", "x"], (3,)),
        ("CosDist(x, x)", "CosDistance", ["x", "x"], (1,)),
        ("Dropout(x)", "Dropout", ["x"], (4,)),
        ("Times(W, x, outputRank=1)", "Times", ["W", "x"], (3,)),
    ],
)
def test_operations(net, call: str, op: str, inputs: list[str] | None, shape: tuple[int, ...]) -> None:
    made = net(
        f"""
        x=Input(4,tag=feature)
        y=Input(3)
        W=Parameter(3,4)
        s=Constant(2)
        m=Mean(x)
        i=InvStdDev(x)
        r={call}
        """
    )
    made.infer()
    node = made["r"]
    assert node.op.name == op
    assert node.shape == shape
    if inputs is not None:
        assert [child.name for child in node.inputs] == inputs


NOT_THERE = ("Convolution", "Delay", "FutureValue", "MaxPooling", "BatchNormalization", "Crop")


@pytest.mark.parametrize("function", NOT_THERE)
def test_functions_that_are_not_there_yet(message, function: str) -> None:
    name = BY_NAME[function.lower()].name
    text = message(f"x=Input(4,tag=feature)\nz={function}(x, x)")
    assert text == f"r.cntk:3:3: the NDL function '{name}' is not there yet"


def test_each_missing_function_is_named_once(message) -> None:
    text = message(
        'M(a) { c=Convolution(a, a, {3,3}) ; p=Pooling(c, "max", {2,2}) }\n'
        "x=Input(4,tag=feature)\nz=M(x)\ny=M(z)\nd=Delay(4, Sigmoid(q), delayTime=1)"
    )
    assert text == (
        "r.cntk:2:10: the NDL function 'Convolution' is not there yet\n"
        "r.cntk:2:39: the NDL function 'Pooling' is not there yet\n"
        "r.cntk:6:3: the NDL function 'PastValue' is not there yet\n"
        "r.cntk:6:20: the name 'q' is not defined\n"
        "4 problems found"
    )


def test_a_reshape_that_changes_the_number_of_samples(net) -> None:
    made = net("x=Input(4,tag=feature)\nz=Reshape(x, 2)")
    with pytest.raises(CntkError) as error:
        made.infer()
    assert str(error.value) == (
        "r.cntk:3:3: LegacyReshape of 4 rows to 2, which changes the number of samples, is not supported yet"
    )
