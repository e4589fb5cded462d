"""The library of macros: each builds, and is the network that it stands for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cntk_builder_ndl
import numpy as np
import pytest
from cntk_builder_ndl.parser import parse
from cntk_builder_ndl.syntax import MacroDefinition

from cntk_core.api import CntkError, Input, Minibatch, Network, Node, Parameter, ParameterStore, StreamData
from cntk_core.api.builders import SourceText, initialize_parameters
from cntk_core.api.engines import frame_layout, make_plan
from cntk_testing import ReferenceEngine

LIBRARY = Path(cntk_builder_ndl.__file__).parent / "library"

GIVEN = """
x=Input(4, tag=feature)
y=Input(3, tag=label)
i=ImageInput(6, 6, 2, imageLayout=$imageLayout$, tag=feature)
W=Parameter(3, 4)
B=Parameter(3)
"""

BFF = """
m.{0}B=Parameter(3, init=fixedValue, value=0)
m.{0}W=Parameter(3, 4)
m.{0}FF.T=Times(m.{0}W, x)
m.{0}FF.P=Plus(m.{0}FF.T, m.{0}B)
"""
FF = "m.{0}T=Times(W, x)\nm.{0}P=Plus(m.{0}T, B)\n"
DENSE = "m.W=Parameter(3, 4{0})\nm.b=Parameter(3{1})\nm.t=Times(m.W, x)\nm.z=Plus(m.t, m.b)\n"
IMAGE = (
    "m.W=ImageParameter(3, 6, 6, 2{0}, imageLayout=$imageLayout$)\nm.b=Parameter(3{1})\nm.t=Times(m.W, i)\n"
    "m.z=Plus(m.t, m.b)\n"
)
GAUSSIAN = ", init=gaussian, initValueScale=0.5"
UNIFORM = ", init=uniform, initValueScale=0.5"
NORM = """
m.{0}b=Parameter({1}, 1, init=fixedValue, value=0.1)
m.{0}sc=Parameter({1}, 1, init=fixedValue, value=2)
m.{0}m=Parameter({1}, 1, init=fixedValue, value=0, learningRateMultiplier=0)
m.{0}v=Parameter({1}, 1, init=fixedValue, value=0, learningRateMultiplier=0)
"""
BN = "m.{0}=BatchNormalization(m.{1}, m.{2}sc, m.{2}b, m.{2}m, m.{2}v, normalizationTimeConstant=10{3})\n"
SPATIAL = ", spatial=true, imageLayout=$imageLayout$"
CONV = "m.{0}c=Convolution({1}, {2}, 3, 3, {3}, {4}, {4}, zeroPadding=true, imageLayout=$imageLayout$)\n"
CONV_BN = (
    "m.{0}W=Parameter({2}, {3}, init=gaussian, initValueScale=0.5)\n"
    + NORM.replace("{0}", "{0}c.").replace("{1}", "{2}")
    + CONV.format("{0}c.", "m.{0}W", "{1}", "{2}", "{4}")
    + BN.format("{0}c.y", "{0}c.c", "{0}c.", SPATIAL)
)
WEIGHTS = "m.w.W=Parameter(3, 18, init=uniform, initValueScale=0.5)\n"
BIAS = "m.{0}b=ImageParameter(1, 1, {1}, init=fixedValue, value=0.1, imageLayout=$imageLayout$)\n"
ND = (
    "Convolution({0}, {1}, {{3,3,2}}, mapCount=3, stride={{1,1,2}}, autoPadding={2}, lowerPad={3}, upperPad={3}, "
    "transpose={4}, sharing={5}, imageLayout=$imageLayout$)\n"
)
SHARED = "{true,true,true}"
LSTM_GATE = """
m.{0}.Wx=Parameter({2}, 4)
m.{0}.Wh=Parameter({2}, 3)
m.{0}.Wc=Parameter({2})
m.{0}.b=Parameter({2}, init=fixedValue, value=0)
m.{0}.gate=Sigmoid(Plus(Plus(Plus(Times(m.{0}.Wx, x), Times(m.{0}.Wh, m.dh)), DiagTimes(m.{0}.Wc, m.{1})), m.{0}.b))
"""
LSTM = (
    "m.dh=PastValue(3, m.output)\nm.dc=PastValue({0}, m.ct)\n"
    + LSTM_GATE.format("it", "dc", "{0}")
    + LSTM_GATE.format("ft", "dc", "{0}")
    + "m.Wxc=Parameter({0}, 4)\nm.Whc=Parameter({0}, 3)\nm.bc=Parameter({0}, init=fixedValue, value=0)\n"
    "m.bit=ElementTimes(m.it.gate, Tanh(Plus(Plus(Times(m.Wxc, x), Times(m.Whc, m.dh)), m.bc)))\n"
    "m.ct=Plus(ElementTimes(m.ft.gate, m.dc), m.bit)\n" + LSTM_GATE.format("ot", "ct", "{0}")
)


def deep(prefix: str, one: str, two: str) -> str:
    """Two convolutions of a residual node, the first with a rectifier."""
    return CONV_BN.format(f"{prefix}c1.c.", "i", *one.split()) + "m.c1.y=RectifiedLinear(m.c1.c.c.y)\n" + two


CASES: dict[str, dict[str, tuple[str, str]]] = {
    "default_macros.ndl": {
        "FF": ("FF(x, W, B)", FF.format("")),
        "RFF": ("RFF(x, W, B)", FF.format("FF.") + "m.RL=RectifiedLinear(m.FF.P)"),
        "SFF": ("SFF(x, W, B)", FF.format("FF.") + "m.S=Sigmoid(m.FF.P)"),
        "RFFD": (
            "RFFD(x, W, B)",
            FF.format("RFF.FF.") + "m.RFF.RL=RectifiedLinear(m.RFF.FF.P)\nm.DO=Dropout(m.RFF.RL)",
        ),
        "SFFD": ("SFFD(x, W, B)", FF.format("SFF.FF.") + "m.SFF.S=Sigmoid(m.SFF.FF.P)\nm.DO=Dropout(m.SFF.S)"),
        "SMFF": ("SMFF(x, W, B, y)", FF.format("FF.") + "m.SM=CrossEntropyWithSoftmax(y, m.FF.P)"),
        "RFF_R": ("RFF_R(x, W, B)", "m.r=RectifiedLinear(Plus(Times(W, x), B))"),
        "RFFD_R": ("RFFD_R(x, W, B)", "m.r=Dropout(RectifiedLinear(Plus(Times(W, x), B)))"),
        "BFF": ("BFF(x, 3, 4)", BFF.format("")),
        "RBFF": ("RBFF(x, 3, 4)", BFF.format("BFF.") + "m.RL=RectifiedLinear(m.BFF.FF.P)"),
        "SBFF": ("SBFF(x, 3, 4)", BFF.format("BFF.") + "m.S=Sigmoid(m.BFF.FF.P)"),
        "RBFFD": (
            "RBFFD(x, 3, 4)",
            BFF.format("RBFF.BFF.") + "m.RBFF.RL=RectifiedLinear(m.RBFF.BFF.FF.P)\nm.DO=Dropout(m.RBFF.RL)",
        ),
        "SBFFD": (
            "SBFFD(x, 3, 4)",
            BFF.format("SBFF.BFF.") + "m.SBFF.S=Sigmoid(m.SBFF.BFF.FF.P)\nm.DO=Dropout(m.SBFF.S)",
        ),
        "SMBFF": ("SMBFF(x, 3, 4, y)", BFF.format("BFF.") + "m.SM=CrossEntropyWithSoftmax(y, m.BFF.FF.P)"),
        "MSEBFF": ("MSEBFF(x, 3, 4, y)", BFF.format("BFF.") + "m.MSE=SquareError(y, m.BFF.FF.P)"),
        "MeanVarNorm": (
            "MeanVarNorm(x)",
            "m.xMean=Mean(x)\nm.xStdDev=InvStdDev(x)\nm.xNorm=PerDimMeanVarNormalization(x, m.xMean, m.xStdDev)",
        ),
        "LogPrior": ("LogPrior(y)", "m.Prior=Mean(y)\nm.LogPrior=Log(m.Prior)"),
        "LSTMGate": (
            "LSTMGate(x, B, dc, 4, 3, 5)",
            LSTM_GATE.format("it", "dc", "5").replace("m.it.", "m.").replace("m.d", "d").replace("dh", "B"),
        ),
        "LSTMComponent": ("LSTMComponent(4, 3, x)", LSTM.format(3) + "m.output=ElementTimes(m.ot.gate, Tanh(m.ct))"),
        "LSTMPComponent": (
            "LSTMPComponent(4, 3, 5, x)",
            LSTM.format(5) + "m.mt=ElementTimes(m.ot.gate, Tanh(m.ct))\n"
            "m.Wmr=Parameter(3, 5)\nm.output=Times(m.Wmr, m.mt)",
        ),
    },
    "dnn_macros.ndl": {
        "DNNLayer": ("DNNLayer(4, 3, x)", DENSE.format("", ", 1") + "m.y=Sigmoid(m.z)"),
        "DNNLastLayer": ("DNNLastLayer(4, 3, x)", DENSE.format("", ", 1")),
    },
    "image_macros.ndl": {
        "DNNLayer": ("DNNLayer(4, 3, x, 0.5)", DENSE.format(UNIFORM, ", 1" + UNIFORM)),
        "DNNSigmoidLayer": (
            "DNNSigmoidLayer(4, 3, x, 0.5)",
            DENSE.format(UNIFORM, ", 1" + UNIFORM) + "m.y=Sigmoid(m.z)",
        ),
        "DNNImageSigmoidLayer": (
            "DNNImageSigmoidLayer(6, 6, 2, 3, i, 0.5)",
            IMAGE.format(UNIFORM, ", 1" + UNIFORM) + "m.y=Sigmoid(m.z)",
        ),
        "DnnReLULayer": (
            "DnnReLULayer(4, 3, x, 0.5, 0.1)",
            DENSE.format(GAUSSIAN, ", 1, init=fixedValue, value=0.1") + "m.y=RectifiedLinear(m.z)",
        ),
        "DNNImageReLULayer": (
            "DNNImageReLULayer(6, 6, 2, 3, i, 0.5, 0.1)",
            IMAGE.format(GAUSSIAN, ", 1, init=fixedValue, value=0.1") + "m.y=RectifiedLinear(m.z)",
        ),
        "DnnLastLayer": (
            "DnnLastLayer(4, 3, x, 0.5, 0.1)",
            DENSE.format(GAUSSIAN, ", init=fixedValue, value=0.1"),
        ),
        "DnnImageLastLayer": (
            "DnnImageLastLayer(6, 6, 2, 3, i, 0.5, 0.1)",
            IMAGE.format(GAUSSIAN, ", init=fixedValue, value=0.1"),
        ),
        "DnnBNReLULayer": (
            "DnnBNReLULayer(4, 3, x, 0.5, 0.1, 2, 10)",
            f"m.W=Parameter(3, 4{GAUSSIAN})\nm.t=Times(m.W, x)\n{NORM.format('', 3)}{BN.format('bn', 't', '', '')}"
            "m.y=RectifiedLinear(m.bn)",
        ),
        "DnnImageBNReLULayer": (
            "DnnImageBNReLULayer(6, 6, 2, 3, i, 0.5, 0.1, 2, 10)",
            f"m.W=ImageParameter(3, 6, 6, 2{GAUSSIAN}, imageLayout=$imageLayout$)\nm.t=Times(m.W, i)\n"
            f"{NORM.format('', 3)}{BN.format('bn', 't', '', '')}m.y=RectifiedLinear(m.bn)",
        ),
        "ConvW": ("ConvW(3, 18, 0.5)", WEIGHTS.replace("m.w.", "m.")),
        "ConvB": ("ConvB(3, 0.1)", BIAS.format("", 3)),
        "Conv2D": ("Conv2D(K, i, 3, 3, 3, 2, 2)", CONV.format("", "K", "i", 3, 2)),
        "ConvND": (
            "ConvND(K, i, 3, 3, 2, 3, 1, 1)",
            "m.c=" + ND.format("K", "i", "{true,true,false}", 0, "false", SHARED),
        ),
        "DeConv": (
            "DeConv(K, i3, 3, 3, 2, 3, 1, 1, 1, 1)",
            "m.c=" + ND.format("K", "i3", "false", "{1,1,0}", "true", SHARED),
        ),
        "Conv2DReLULayer": (
            "Conv2DReLULayer(i, 3, 18, 3, 3, 2, 2, 0.5, 0.1)",
            WEIGHTS + BIAS.format("b.", 3) + CONV.format("c.", "m.w.W", "i", 3, 2)
            + "m.cpb=Plus(m.c.c, m.b.b)\nm.out=RectifiedLinear(m.cpb)",
        ),
        "ConvNDReLULayer": (
            "ConvNDReLULayer(i, 3, 3, 2, 18, 3, 1, 1, 0.5, 0.1)",
            WEIGHTS + BIAS.format("b.", 3) + "m.c.c=" + ND.format("m.w.W", "i", "{true,true,false}", 0, "false", SHARED)
            + "m.cpb=Plus(m.c.c, m.b.b)\nm.out=RectifiedLinear(m.cpb)",
        ),
        "DeconvReLULayer": (
            "DeconvReLULayer(i3, 3, 3, 2, 18, 3, 1, 1, 1, 1, 0.5, 0)",
            WEIGHTS + "m.act=RectifiedLinear(i3)\nm.out.c="
            + ND.format("m.w.W", "m.act", "false", "{1,1,0}", "true", SHARED),
        ),
        "ConvReLULayer": (
            "ConvReLULayer(i, 3, 18, 3, 3, 2, 2, 0.5, 0.1)",
            f"m.W=Parameter(3, 18{GAUSSIAN})\n" + BIAS.format("", 3) + CONV.format("", "m.W", "i", 3, 2)
            + "m.p=Plus(m.c, m.b)\nm.y=RectifiedLinear(m.p)",
        ),
        "ConvLocalReLULayer": (
            "ConvLocalReLULayer(i, 3, 108, 2, 18, 3, 3, 1, 1, 0.5, 0.1)",
            f"m.W=Parameter(108, 18{GAUSSIAN})\n" + BIAS.format("", 3)
            + "m.c=" + ND.format("m.W", "i", "true", 0, "false", "{false,false,false}")
            + "m.p=Plus(m.c, m.b)\nm.y=RectifiedLinear(m.p)",
        ),
        "ConvBNLayerW": (
            "ConvBNLayerW(K, i, 3, 3, 3, 2, 2, 0.1, 2, 10)",
            NORM.format("", 3) + CONV.format("", "K", "i", 3, 2) + BN.format("y", "c", "", SPATIAL),
        ),
        "ConvBNLayer": ("ConvBNLayer(i, 3, 18, 3, 3, 2, 2, 0.5, 0.1, 2, 10)", CONV_BN.format("", "i", 3, 18, 2)),
        "ConvBNReLULayer": (
            "ConvBNReLULayer(i, 3, 18, 3, 3, 2, 2, 0.5, 0.1, 2, 10)",
            CONV_BN.format("c.", "i", 3, 18, 2) + "m.y=RectifiedLinear(m.c.c.y)",
        ),
        "ProjLayer": (
            "ProjLayer(P, i, 3, 2, 2, 0.1, 2, 10)",
            NORM.format("", 3) + "m.c=Convolution(P, i, 1, 1, 3, 2, 2, imageLayout=$imageLayout$)\n"
            + BN.format("y", "c", "", SPATIAL),
        ),
        "ResNetNode2": (
            "ResNetNode2(i, 2, 18, 3, 3, 0.5, 0.1, 2, 10)",
            deep("", "2 18 1", CONV_BN.format("c2.", "m.c1.y", 2, 18, 1))
            + "m.p=Plus(m.c2.c.y, i)\nm.y=RectifiedLinear(m.p)",
        ),
        "ResNetNode2Inc": (
            "ResNetNode2Inc(i, 3, 18, 27, 3, 3, 0.5, 0.1, 2, 10, P)",
            deep("", "3 18 2", CONV_BN.format("c2.", "m.c1.y", 3, 27, 1)) + NORM.format("c_proj.", 3)
            + "m.c_proj.c=Convolution(P, i, 1, 1, 3, 2, 2, imageLayout=$imageLayout$)\n"
            + BN.format("c_proj.y", "c_proj.c", "c_proj.", SPATIAL)
            + "m.p=Plus(m.c2.c.y, m.c_proj.y)\nm.y=RectifiedLinear(m.p)",
        ),
        "ResNetNode2Inc2": (
            "ResNetNode2Inc2(i, 2, 4, 18, 36, 3, 3, 0.5, 0.5, 0.1, 2, 10)",
            "m.pool=MaxPooling(i, 1, 1, 2, 2, imageLayout=$imageLayout$)\n"
            + deep("", "4 18 2", CONV_BN.format("c2.", "m.c1.y", 2, 36, 1) + CONV_BN.format("c3.", "m.c1.y", 2, 36, 1))
            + "m.p=Plus(m.c2.c.y, m.pool)\nm.r=RowStack(m.p, m.c3.c.y)\nm.y=RectifiedLinear(m.r)",
        ),
        "MaxNDPooling": (
            "MaxNDPooling(i, 2, 2, 2, 2)",
            "m.p=Pooling(i, max, {2,2,1}, stride={2,2,1}, autoPadding={true,true,false}, imageLayout=$imageLayout$)",
        ),
        "MaxUnpool": (
            "MaxUnpool(half, i, 2, 2, 2, 2)",
            "m.up=MaxUnpooling(half, i, {2,2,1}, stride={2,2,1}, autoPadding={false,false,false}, "
            "imageLayout=$imageLayout$)",
        ),
    },
}  # fmt: skip
EXTRA = """
K=Parameter(3, 18)
P=Parameter(3, 2)
dc=Parameter(5)
i3=ImageInput(6, 6, 3, imageLayout=$imageLayout$)
half=ImageInput(3, 3, 2, imageLayout=$imageLayout$)
"""
EACH = [(file, name) for file, cases in CASES.items() for name in cases]


def built(recipe: Any, lines: str, file: str = "") -> Network:
    macros = f"ndlMacros={file} ; " if file else ""
    made: Network = recipe(
        f"imageLayout=cudnn\nNDLNetworkBuilder=[ {macros}run=net ; net=[\n{GIVEN}{EXTRA}{lines}\n]]",
        dtype=np.dtype(np.float64),
        trace=lambda line: None,
    )
    return made


def described(node: Node, seen: dict[Node, int]) -> Any:
    """All of a node and of what it computes from, but for the names of nodes without one."""
    if node in seen:
        return seen[node]
    seen[node] = len(seen)
    if isinstance(node, Parameter):
        learned = (node.initializer, node.learning_rate_multiplier)
        return (node.name, node.shape, *learned)
    name = re.sub(r"unnamed\d+", "", node.name.rpartition(".")[2])
    return (name, node.op.name, node.shape, node.attributes, [described(child, seen) for child in node.inputs])


@pytest.mark.parametrize(("file", "name"), EACH)
@pytest.mark.sampled(4)
def test_a_macro_is_the_network_written_out(recipe, file: str, name: str) -> None:
    call, lines = CASES[file][name]
    macro = built(recipe, f"m={call}\nEvalNodes=(m)", file)
    plain = built(recipe, lines + f"\nEvalNodes=({lines.strip().splitlines()[-1].partition('=')[0]})")
    assert {node.name for node in macro.parameters} == {node.name for node in plain.parameters}
    (one,), (two,) = macro.roots["evaluation"], plain.roots["evaluation"]
    assert _without_last_name(described(one, {})) == _without_last_name(described(two, {}))
    _give_the_same_values(macro, plain)
    if all(node.op.missing(node.attributes) is None for node in plain.order([two])) and not _recurrent(plain):
        np.testing.assert_array_equal(_forward(macro), _forward(plain))


def _without_last_name(description: Any) -> Any:
    """The root has no name in a macro of one statement."""
    return description[1:]


def _recurrent(network: Network) -> bool:
    return any(node.op.name in ("PastValue", "FutureValue") for node in network)


def _give_the_same_values(one: Network, two: Network) -> None:
    initialize_parameters(one, 1)
    for node in two:
        if isinstance(node, Parameter):
            twin = one[node.name]
            node.value = twin.value
        elif node.op.role == "precompute":
            node.value = np.linspace(0.5, 1.5, int(np.prod(node.known_shape))).reshape(node.known_shape)
            one[node.name].value = node.value


def _forward(network: Network) -> Any:
    (root,) = network.roots["evaluation"]
    plan = make_plan(network, [root])
    for node in network:
        if node.op.name == "BatchNormalization":
            # As if it had been trained; without samples it cannot be evaluated.
            node.inputs[5].value[...] = 1.0
    program = ReferenceEngine().compile(plan, ParameterStore(network.parameters, network.dtype))
    rng = np.random.default_rng(3)
    layout = frame_layout(5)
    streams = {
        node.name: StreamData(rng.normal(size=(5, *node.known_shape)), layout)
        for node in network
        if isinstance(node, Input)
    }
    program.evaluate(Minibatch(streams, 5))
    return program.value(root.name)


@pytest.mark.parametrize("file", CASES)
def test_every_macro_of_the_library_is_tested(file: str) -> None:
    text = (LIBRARY / file).read_text(encoding="utf-8").replace("$imageLayout$", "cudnn")
    lines = "\n".join("" if line.startswith("#") else line for line in text.splitlines())
    statements, problems = parse(SourceText.of(lines))
    assert not problems
    assert [item.name for item in statements if isinstance(item, MacroDefinition)] == list(CASES[file])


BASE_NAMES = {
    "DefaultMacros.txt": "default_macros.ndl",
    "some/where/default_macros.ndl": "default_macros.ndl",
    "C:\\cntk\\Default_Macros.NDL": "default_macros.ndl",
    "../macros.txt": "dnn_macros.ndl",
    "../Macros.ndl": "image_macros.ndl",
}


@pytest.mark.parametrize("path", BASE_NAMES)
def test_files_of_cntk_that_are_not_there(recipe, tmp_path, path: str) -> None:
    notes: list[str] = []
    own = BASE_NAMES[path]
    layer = {"default_macros.ndl": "SBFF(x, 3, 4)", "dnn_macros.ndl": "DNNLayer(4, 3, x)"}
    made = recipe(
        f'NDLNetworkBuilder=[ ndlMacros="{path}" ; run=n ; n=[\nx=Input(4, tag=feature)\n'
        f"h={layer.get(own, 'DnnReLULayer(4, 3, x, 1, 0)')}\n]]",
        directory=tmp_path,
        trace=notes.append,
    )
    assert made["h.BFF.FF.P" if own == "default_macros.ndl" else "h.z"].shape is not None
    assert notes == [f"NDL: there is no file '{path}'; taking the macros {own} that come with cntk-builder-ndl"]


def test_a_file_that_is_there_is_taken(recipe, shipped, tmp_path) -> None:
    shipped("DefaultMacros.txt", "SBFF(a)=Tanh(a)")
    text = "NDLNetworkBuilder=[ ndlMacros=DefaultMacros.txt ; run=n ; n=[\nx=Input(4, tag=feature)\nh=SBFF(x)\n]]"
    assert recipe(text, directory=tmp_path)["h.unnamed1"].op.name == "Tanh"


def test_layout_of_images(recipe) -> None:
    text = (
        "{0}NDLNetworkBuilder=[ ndlMacros=Macros.ndl ; run=n ; n=[\n"
        "i=ImageInput(6, 4, 2, imageLayout={1}, tag=feature)\nh=ConvReLULayer(i, 3, 18, 3, 3, 1, 1, 1, 0)\n]]"
    )
    made = recipe(text.format("", "cudnn"), trace=lambda line: None)
    assert made["h.y"].shape == (3, 4, 6)
    made = recipe(text.format("imageLayout=HWC\n", "HWC"), trace=lambda line: None)
    assert made["h.y"].shape == (4, 6, 3)


def test_macros_of_the_recipe_replace_those_of_the_library(recipe) -> None:
    made = recipe(
        "NDLNetworkBuilder=[ ndlMacros=DefaultMacros.txt ; load=m ; run=n\n"
        "m=[ LogPrior(a) { p=Mean(a) ; q=Exp(p) } ]\n"
        "n=[\nx=Input(4, tag=feature)\nh=LogPrior(x)\n]]",
        trace=lambda line: None,
    )
    assert made["h.q"].op.name == "Exp"


def test_errors_show_the_file_of_the_library(recipe) -> None:
    text = "NDLNetworkBuilder=[ ndlMacros=DefaultMacros.txt ; run=n ; n=[\nx=Input(4, tag=feature)\nh=SBFF(x, 3, 5)\n]]"
    with pytest.raises(CntkError) as error:
        recipe(text, trace=lambda line: None)
    lines = str(error.value).splitlines()
    place = LIBRARY / "default_macros.ndl"
    assert lines[0].startswith(f"{place}:7:9: Times 'h.BFF.FF.T': [3 x 5] * [4]: the inner dimensions differ")
    assert lines[2] == f"    In the macro 'FF', called at {place}:45:10."
    assert lines[-1] == "    In the macro 'SBFF', called at r.cntk:3:3."


def test_a_deep_recurrent_network(recipe) -> None:
    """Eight layers of forty-eight nodes with two loops each; this takes about 0.2 s, half of it for the shapes."""
    layers = [
        f"L{n}=LSTMPComponent({40 if n == 1 else 64}, 64, 256, {'x' if n == 1 else f'L{n - 1}'})" for n in range(1, 9)
    ]
    made = recipe(
        "NDLNetworkBuilder=[ ndlMacros=DefaultMacros.txt ; run=n ; n=[\n"
        "x=Input(40, tag=feature)\ny=Input(9, tag=label)\n"
        + "\n".join(layers)
        + "\nz=Times(Parameter(9, 64), L8, tag=output)\nce=CrossEntropyWithSoftmax(y, z, tag=criterion)\n]]",
        trace=lambda line: None,
    )
    assert len(made) == 8 * 50 + 5
    assert {made[f"L{n}.output"].shape for n in range(1, 9)} == {(64,)}
    assert made["L8.dc"].shape == (256,)
