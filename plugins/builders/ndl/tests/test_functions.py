"""Each function: shapes, settings, initial values."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_ndl.functions import BY_NAME

from cntk_core.api import CntkError, Parameter, core_ops
from cntk_core.api.builders import FixedValue, FromFile, Random


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


def test_inputs_of_any_size_and_without_sequences(net, message) -> None:
    made = net("a=ImageInput(FreeDimension, FreeDimension, 3, imageLayout=CHW, dynamicAxis=BatchAxis)\nb=Pass(a)")
    assert made["b"].describe() == "b = Pass (a) : [? x ? x 3 x *]"
    assert made["a"].describe_axes() == "'a' has the axes [batch]"
    assert message("a=Input(FreeSize, 3)\nb=Pass(a)") == "r.cntk:2:9: the name 'FreeSize' is not defined"


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("Parameter(5)", (5,)),
        ("Parameter(5,4)", (4, 5)),
        ("LearnableParameter(5,1)", (1, 5)),
        ("ImageParameter(1,1,7)", (1, 1, 7)),
        ("ImageParameter(1,1,7,imageLayout=cudnn)", (7, 1, 1)),
        ("ImageParameter(10, 6, 5, 3, imageLayout=CHW)", (3, 5, 6, 10)),
    ],
)
def test_parameters(net, call: str, shape: tuple[int, ...]) -> None:
    parameter = net(f"p={call}")["p"]
    assert isinstance(parameter, Parameter)
    assert parameter.shape == shape
    assert parameter.initializer == Random("uniform", seed=1)
    assert parameter.learned


def test_dimensions_that_are_inferred(net) -> None:
    made = net("x=Input(4, tag=feature)\nW=Parameter(5, 0)\nb=Parameter(0)\nz=Plus(Times(W, x), b)")
    assert made["W"].shape == (4, 5)
    assert made["b"].shape == (5,)


@pytest.mark.parametrize(
    ("options", "initializer"),
    [
        ("init=gaussian", Random("gaussian", seed=1)),
        ("init = uniform , initValueScale = 0.5", Random("uniform", 0.5, seed=1)),
        ('init="heNormal", initOnCPUOnly=true', Random("heNormal", seed=1)),
        ("init=fixedvalue, value=-2.5", FixedValue(-2.5)),
        ("init=fixedValue, value=half", FixedValue(0.5)),
        ("init=zero", FixedValue(0.0)),
        ('init="Zero", value=2', FixedValue(0.0)),
        ("randomSeed=7", Random("uniform", seed=7)),
        ("randomSeed=0", Random("uniform", seed=0)),
        ("randomSeed=-1", Random("uniform", seed=1)),
        ("init=kind", Random("uniform", seed=1)),
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


def test_constants_beyond_the_precision(net) -> None:
    assert net("c=Constant(-1e60)")["c"].value.item() == float("-inf")


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


IMAGES = """
i=ImageInput(12, 10, 3, imageLayout=cudnn, tag=feature)
h=ImageInput(12, 10, 3, tag=feature)
x=Input(8, tag=feature)
y=Input(8, tag=label)
four=Input(4)
regions=Input(4, 2)
one=Input(1)
p=Parameter(8, 8)
k=Parameter(8, 48)
n=Parameter(3, 27)
v=Parameter(8)
v2=Parameter(8)
v3=Parameter(8)
v4=Parameter(8)
c1=Parameter(3)
c2=Parameter(3)
c3=Parameter(3)
c4=Parameter(3)
count=Parameter(1)
"""

CALLS = {
    "Abs(x)": (8,),
    "AveragePooling(h, 3, 2, 3, 2)": (5, 4, 3),
    "BatchNormalization(x, v, v2, v3, v4)": (8,),
    "BatchNormalization(i, c1, c2, c3, c4, count, spatial=true, imageLayout=CHW)": (3, 10, 12),
    "CBCEWithSM(four, x, p, x)": (1,),
    "ClassificationError(y, x, one)": (1,),
    "Clip(one, one, x)": (8,),
    "ColumnwiseCrossProduct(x, four)": (32,),
    "Convolve(k, h, 4, 4, 8, 2, 2)": (4, 5, 8),
    "Convolution(k, i, 4, 4, 8, 2, 2, zeroPadding=true, imageLayout=cudnn)": (8, 5, 6),
    "Convolution(n, i, {3, 3, 3}, mapCount=3, stride={1,1,3}, autoPadding={true, true, false})": (3, 10, 12),
    "Convolution(c1, i, {1, 1}, mapCount=3, groups=3, dilation=2)": (3, 10, 12),
    "CosDist(x, y)": (1,),
    "CosWithNegSamples(x, y, 1, 3)": (4,),
    "CRF(y, x, p)": (1,),
    "Crop(i, j, 0, 0)": (3, 4, 5),
    "CrossEntropy(y, x)": (1,),
    "DiagTimes(v, x)": (8,),
    "Diagonal(p)": (8, 1),
    "DummyCriterion(one, x, x)": (1,),
    "EditDistanceError(x, y)": (1,),
    "Floor(x)": (8,),
    "ForwardBackward(g, x, blankTokenId=7)": (1,),
    "GMMLL(v, p, v2, one8)": (1,),
    "If(x, x, y)": (8,),
    "InvStdDev(x)": (8,),
    "LabelsToGraph(y)": (8,),
    "LogPlus(x, y)": (8,),
    "Logistic(one, Sigmoid(one))": (1,),
    "Logistic(one, Sigmoid(one), one)": (1,),
    "LookupTable(p, x)": (8,),
    "MaxPooling(i, 3, 2, 3, 2, imageLayout=CHW)": (3, 5, 4),
    "MaxUnpooling(pooled, i, {2, 2}, stride=2, autoPadding=false)": (3, 10, 12),
    "NotEqual(x, y)": (8,),
    "Pass(x)": (8,),
    "PerDimMVDeNorm(x, v, v2)": (8,),
    'Pooling(i, "average", {2:2}, stride={2,2}, autoPadding=false, includePad=true)': (3, 5, 6),
    "Reciprocal(x)": (8,),
    "ReconcileDynamicAxis(x, y)": (8,),
    "ROIPooling(i, regions, {5, 4})": (2, 3, 4, 5),
    "ROIPooling(i, regions, roiOutputShape={5, 4}, spatialScale=0.5)": (2, 3, 4, 5),
    "SequenceDecoder(y, x, p)": (8,),
    "SEWithSM(y, x, x)": (1,),
    "SumColumnElements(x)": (1,),
    "SumElements(x)": (1,),
    "TransposeTimes(p, x)": (8,),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_every_function(net, call: str) -> None:
    more = {"Crop": "j=ImageInput(5, 4, 3, imageLayout=cudnn)", "ForwardBackward": "g=LabelsToGraph(y)"}
    more |= {"MaxUnpooling": "pooled=Pooling(i, max, {2, 2}, stride=2, autoPadding=false)", "GMMLL": "one8=Input(8)"}
    made = net(f"{IMAGES}{more.get(call.partition('(')[0], '')}\nr={call}")
    function = BY_NAME[call.partition("(")[0].lower()]
    assert made["r"].op.name == function.op_name
    assert made["r"].shape == CALLS[call]


LATER = {
    "Gelu(x, approximate=tanh)": (8,),
    "LayerNormalization(x, v, v2, epsilon=0.1)": (8,),
    "Pad(x, head=1, foot=2, mode=reflect)": (11,),
    "TopK(x, k=3, output=indices)": (3,),
    "PReLU(v, x)": (8,),
}


@pytest.mark.parametrize("call", LATER)
def test_functions_that_came_later(net, call: str) -> None:
    made = net(f"{IMAGES}\nr={call}")
    assert made["r"].op.name == call.partition("(")[0]
    assert made["r"].shape == LATER[call]


SETTINGS = {
    "Delay(8, x)": {"dims": (8,), "time_step": 1, "default_hidden_activation": 0.1},
    "PastValue(8, 1, x, delayTime=3)": {"dims": (8,), "time_step": 3},
    "PastValue(8, x, timeStep=2, delayTime=3, defaultHiddenActivity=0)": {
        "time_step": 2, "default_hidden_activation": 0,
    },
    "FutureValue(0, x, defaultHiddenActivation=0.5)": {"dims": (), "default_hidden_activation": 0.5},
    "Convolution(k, h, 4, 4, 8, 2, 3, maxTempMemSizeInSamples=1)": {
        "kernel_shape": (4, 4), "map_count": (8,), "stride": (2, 3), "auto_padding": (False,), "image_layout": "HWC",
        "convolution_2d": True, "max_temp_mem_size_in_samples": 1,
    },
    "Convolution(n, i, kernel, mapCount=3, stride=(1:1:3), sharing=shared, autoPadding={true, 0, F})": {
        "kernel_shape": (3, 3, 3), "map_count": (3,), "stride": (1, 1, 3), "sharing": (True, True),
        "auto_padding": (True, False, False), "lower_pad": (0,), "image_layout": "CHW", "convolution_2d": False,
    },
    "Convolution(n, i, kernel, mapCount=3, autoPadding=false, lowerPad={1,1,0}, upperPad=m, transpose=1)": {
        "transpose": True, "lower_pad": (1, 1, 0), "upper_pad": (0,), "output_shape": (0,),
    },
    "Pooling(i, Max, {2, 2}, ceilOutDim=true)": {"pool_kind": "max", "ceil_out_dim": True, "include_pad": False},
    "BatchNormalization(x, v, v2, v3, v4, engine=cudnn, blendTimeConstant=inf, epsilon=0.1)": {
        "use_cntk_engine": False, "blend_time_constant": float("inf"), "epsilon": 0.1, "spatial": False,
    },
    "EditDistanceError(x, y, subPen=2, delPen=3, insPen=4, squashInputs=true, tokensToIgnore={0, 7})": {
        "substitution_penalty": 2, "deletion_penalty": 3, "insertion_penalty": 4, "squash_inputs": True,
        "tokens_to_ignore": (0, 7),
    },
    "Crop(i, i)": {"x_offset": 0, "y_offset": 0},
    "Crop(i, h2, 1, m)": {"x_offset": 1, "y_offset": 0},
    "ROIPooling(i, regions, {5, 4})": {"roi_output_shape": (5, 4), "spatial_scale": 0.0625},
    "ForwardBackward(y, x, delayConstraint=2)": {"blank_token_id": -1, "delay_constraint": 2},
}  # fmt: skip


@pytest.mark.parametrize("call", SETTINGS)
def test_settings(net, call: str) -> None:
    made = net(
        f"{IMAGES}m=0\nkernel={{3,3,3}}\nshared={{true,true}}\nh2=ImageInput(5, 4, 3, imageLayout=cudnn)\nr={call}"
    )
    for name, value in SETTINGS[call].items():
        assert getattr(made["r"].attributes, name) == value


def test_crop_with_nodes_that_fit_each_other(net) -> None:
    made = net(f"{IMAGES}j=ImageInput(5, 4, 3, imageLayout=cudnn)\nr=Crop(i, j, i, j)")
    assert [node.name for node in made["r"].inputs] == ["i", "j", "i", "j"]


def test_batch_normalization_makes_its_sample_count(net) -> None:
    made = net(f"M(a) {{ b=BatchNormalization(a, v, v2, v3, v4, eval=false) }}\n{IMAGES}m=M(x)")
    count = made["m.b.run_sample_count"]
    assert made["m.b"].inputs[-1] is count
    assert isinstance(count, Parameter)
    assert count.value.tolist() == [0.0]
    assert not count.learned


def test_functions_are_all_there() -> None:
    missing = [function.name for function in BY_NAME.values() if core_ops().find("ndl", function.op_name) is None]
    assert not missing


def test_functions_whose_op_nobody_offers(message) -> None:
    table = core_ops()
    text = message(
        'M(a) { c=Convolution(a, a, {3,3}) ; p=Pooling(c, "max", {2,2}) }\n'
        "x=Input(4,tag=feature)\nz=M(x)\ny=M(z)\nd=Delay(4, Sigmoid(q), delayTime=1)",
        find_op=lambda language, name: table.find(language, name) if name in ("InputValue", "Sigmoid") else None,
    )
    assert text == (
        "r.cntk:2:10: the NDL function 'Convolution' is not there yet\n    In the macro 'M', called at r.cntk:4:3.\n"
        "r.cntk:2:39: the NDL function 'Pooling' is not there yet\n    In the macro 'M', called at r.cntk:4:3.\n"
        "r.cntk:6:3: the NDL function 'PastValue' is not there yet\n"
        "r.cntk:6:20: the name 'q' is not defined\n"
        "4 problems found"
    )


WRONG = {
    "Convolution(n, i)": (
        "Convolution takes 3 or 7 arguments, not 2\n"
        "    Convolution(W, x, {kernel}, mapCount=, stride=1, sharing=true, autoPadding=true, lowerPad=0, upperPad=0, "
        "transpose=false, outputShape=, imageLayout=CHW, dilation=1, groups=1, sequential=false)\n"
        "    Convolution(W, x, kernelWidth, kernelHeight, outputChannels, horizontalSubsample, verticalSubsample, "
        "zeroPadding=false, imageLayout=HWC)"
    ),
    "Convolution(n, i, {3, x})": "a: the kernel must be a number, not 'x'",
    "Convolution(n, i, {3, 3}, sharing={true, maybe})": "'sharing' must be true or false, not 'maybe'",
    "Pooling(i, maximum, {2,2})": "the kind of pooling cannot be 'maximum'; did you mean 'max'?\n"
    "    Accepted: max, average",
    "Pooling(i, max, {0,2})": "the window must be a whole number, not 0",
    "ROIPooling(i, four)": (
        "ROIPooling needs width and height of its output\n"
        "    ROIPooling(x, regions, {width, height}, spatialScale=0.0625)"
    ),
    "BatchNormalization(x, v, v2, v3, v4, engine=gpu)": "'engine' cannot be 'gpu'\n    Accepted: cntk, cudnn",
    "BatchNormalization(x, v, v2, v3, v4, eval=true)": "BatchNormalization can no longer have 'eval=true'",
    "Crop(i, h, 3)": (
        "Crop takes 2 or 4 arguments, not 3\n"
        "    Crop(x, like), Crop(x, like, xOffset, yOffset) or Crop(x, like, node1, node2)"
    ),
    "Delay(x)": "PastValue takes 2 to 3 arguments, not 1\n"
    "    PastValue(rows, x, timeStep=1, defaultHiddenActivity=0.1)",
    "Delay(x, 8)": "the number of rows must be a number, not 'x'",
    "OneHot(x)": "OneHot needs numClass=...",
    "DynamicAxis()": "'DynamicAxis' cannot be called",
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_arguments(message, call: str) -> None:
    text = message(f"{IMAGES}r={call}").replace("r.cntk:", "")
    place, _, said = text.partition(": ")
    assert place.startswith("22:")
    assert said == WRONG[call].removeprefix("a: ")


def test_a_reshape_that_changes_the_number_of_samples(net) -> None:
    made = net("x=Input(4,tag=feature)\nz=Reshape(x, 2)")
    made.infer()
    assert made["z"].describe() == "z = LegacyReshape (x) : [2 x *]"
    assert made["z"].axis == "z"


TAKES = {
    "ImageInput": (3, 4), "SparseImageInput": (3, 4), "Constant": (1,), "RowSlice": (3,), "RowRepeat": (2,),
    "Reshape": (2,), "PastValue": (2, 3), "FutureValue": (2, 3), "CosDistanceWithNegativeSamples": (4,),
    "EditDistanceError": (2,), "Convolution": (3, 7), "Pooling": (3,), "MaxUnpooling": (3,), "MaxPooling": (5,),
    "AveragePooling": (5,), "ROIPooling": (2, 3), "BatchNormalization": (5, 6), "Crop": (2, 4), "Transpose": (1,),
    "If": (3,), "ClassificationError": (2, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKES)
def test_how_many_arguments_a_function_takes(net, name: str) -> None:
    """Exactly those numbers of them; what else is wrong with ``x`` in all places does not matter."""

    def is_wrong_number(count: int) -> bool:
        try:
            net(f"z={name}({', '.join(['x'] * count)})")
        except CntkError as error:
            return f"{name} takes " in str(error)
        return False

    assert tuple(count for count in range(9) if not is_wrong_number(count)) == TAKES[name]


def test_shift_and_negatives_of_cosines(net) -> None:
    network = net("x=Input(4,tag=feature)\nc=Const(3)\nz=CosWithNegSamples(x, x, 2, c)")
    attributes = network["z"].attributes
    assert (attributes.shift, attributes.negatives) == (2, 3)
