"""Recurrent networks of every builder: several minibatches in a row change every parameter as the reference does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from cntk_core.config import parse_text
from cntk_core.contract.learner import Slot, UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.network.network import Network
from cntk_core.network.node import Input
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Loop
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import ReferenceEngine

LENGTHS = ([3, 1, 5], [2], [0, 1, 1, 4], [6, 6, 2], [1])
"""Other numbers of sequences and of frames from one minibatch to the next; with sequences of no and of one frame."""

IO = "x = Input {3}\ny = Input {4, tag = 'label'}\n"
CE = "\nce = CrossEntropyWithSoftmax (y, z, tag = 'criterion')\n"
PYTHON = """
from cntk_builder_python import *

def build(graph, kind):
    model = {
        "lstm": lambda: RecurrentLSTMLayer(4, 5, use_peepholes=True, train_initial_state=True),
        "gru": lambda: Recurrence(GRU(4, enable_self_stabilization=True), initial_state="learned"),
        "both": lambda: Sequential(BiRecurrence(GRU(2), GRU(2)), BiRecurrence(LSTM(3), RNNStep(2))),
        "fold": lambda: (lambda x: sequence.broadcast_as(Fold(GRU(3), go_backwards=True)(x), x)),
    }[kind]()
    z = Dense(4)(model(graph.input("x", 3)))
    graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 4)), "ce")
"""
FIRST_WAY = """
LSTMComponent(inputDim, outputDim, inputVal) = [
    Wxo = Parameter(outputDim, inputDim)
    Wxi = Parameter(outputDim, inputDim)
    Wxf = Parameter(outputDim, inputDim)
    Wxc = Parameter(outputDim, inputDim)
    bo = Parameter(outputDim, 1, init=fixedvalue, value=-1.0)
    bc = Parameter(outputDim, 1, init=fixedvalue, value=0.0)
    bi = Parameter(outputDim, 1, init=fixedvalue, value=-1.0)
    bf = Parameter(outputDim, 1, init=fixedvalue, value=-1.0)
    Whi = Parameter(outputDim, outputDim)
    Wci = Parameter(outputDim, 1)
    Whf = Parameter(outputDim, outputDim)
    Wcf = Parameter(outputDim, 1)
    Who = Parameter(outputDim, outputDim)
    Wco = Parameter(outputDim, 1)
    Whc = Parameter(outputDim, outputDim)
    delayH = PastValue(outputDim, output, timeStep=1)
    delayC = PastValue(outputDim, ct, timeStep=1)
    it = Sigmoid(Plus(Plus(Plus(Times(Wxi, inputVal), bi), Times(Whi, delayH)), DiagTimes(Wci, delayC)))
    ft = Sigmoid(Plus(Plus(Plus(Times(Wxf, inputVal), bf), Times(Whf, delayH)), DiagTimes(Wcf, delayC)))
    bit = ElementTimes(it, Tanh(Plus(Times(Wxc, inputVal), Plus(Times(Whc, delayH), bc))))
    ct = Plus(ElementTimes(ft, delayC), bit)
    ot = Sigmoid(Plus(Plus(Plus(Times(Wxo, inputVal), bo), Times(Who, delayH)), DiagTimes(Wco, ct)))
    output = ElementTimes(ot, Tanh(ct))
]
"""
"""The first of the two ways in which the tutorial at NIPS 2015 writes an LSTM."""

SECOND_WAY = """
LSTMComponent(inputDim, outputDim, inputVal, outputDimX2, outputDimX3, outputDimX4, initScale, initBias) = [
    wx = Parameter(outputDimX4, inputDim, init="uniform", initValueScale=initScale);
    b = Parameter(outputDimX4, init="fixedValue", value=initBias);
    Wh = Parameter(outputDimX4, outputDim, init="uniform", initValueScale=initScale);
    Wci = Parameter(outputDim, init="uniform", initValueScale=initScale);
    Wcf = Parameter(outputDim, init="uniform", initValueScale=initScale);
    Wco = Parameter(outputDim, init="uniform", initValueScale=initScale);
    dh = PastValue(outputDim, output, timeStep=1);
    dc = PastValue(outputDim, ct, timeStep=1);
    all = Plus(Plus(Times(wx, inputVal), b), Times(Wh, dh))
    G1 = RowSlice(0, outputDim, all)
    G2 = RowSlice(outputDim, outputDim, all)
    G3 = RowSlice(outputDimX2, outputDim, all);
    G4 = RowSlice(outputDimX3, outputDim, all);
    it = Sigmoid(Plus(G1, DiagTimes(Wci, dc)));
    bit = ElementTimes(it, Tanh(G2));
    ft = Sigmoid(Plus(G3, DiagTimes(Wcf, dc)));
    ct = Plus(ElementTimes(ft, dc), bit);
    ot = Sigmoid(Plus(G4, DiagTimes(Wco, ct)));
    output = ElementTimes(ot, Tanh(ct));
]
"""
"""The second way. CNTK 2.0 would not take two names of the slide: inputValue is a function, Wcfdc is given twice."""


def ndl(macros: str, call: str) -> str:
    return f"""
    NDLNetworkBuilder = [
        load = macros
        run = net
        macros = [ {macros} ]
        net = [
            x = Input(3, tag=feature)
            y = Input(4, tag=label)
            lstm = {call}
            V = Parameter(4, 5)
            ce = CrossEntropyWithSoftmax(y, Times(V, lstm.output), tag=criterion)
        ]
    ]
    """


def brainscript(text: str) -> str:
    return f"BrainScriptNetworkBuilder = {{\n{IO}{text}{CE}}}"


def stack(kind: str, options: str = "") -> str:
    call = f"BS.RNNs.Recurrent{kind}Stack ((4 : 5), cellDims = (4 : 5), x, inputDim = 3{options})"
    return brainscript(f"s = {call}\nz = LinearLayer {{4}} (s[1].h)")


def simple(text: str) -> str:
    return f"SimpleNetworkBuilder = [\n{text}\n]"


CLASSES = "trainingCriterion = classCrossEntropyWithSoftmax ; evalCriterion = classCrossEntropyWithSoftmax"
NETWORKS = {
    "simple rnn": simple("layerSizes = 3:5:4:4 ; recurrentLayer = 1:2 ; layerTypes = Sigmoid"),
    "simple lstm": simple("rnnType = LSTM ; layerSizes = 3:5:4:4 ; recurrentLayer = 1:2"),
    "simple lstm with look-up": simple(
        "rnnType = LSTM ; layerSizes = 3:4:5:4 ; lookupTableOrder = 1 ; sparseInput = true"
    ),
    "simple class lm": simple(
        f"rnnType = CLASSLM ; layerSizes = 6:5:6 ; recurrentLayer = 1 ; nbrClass = 2 ; vocabSize = 6 ; {CLASSES}"
    ),
    "simple class lstm": simple(
        f"rnnType = CLASSLSTM ; layerSizes = 6:4:5:6 ; lookupTableOrder = 1 ; nbrClass = 2 ; {CLASSES}"
    ),
    "ndl, first way": ndl(FIRST_WAY, "LSTMComponent(3, 5, x)"),
    "ndl, second way": ndl(SECOND_WAY, "LSTMComponent(3, 5, x, 10, 15, 20, 1, 0)"),
    "lstm layer": brainscript("l = RecurrentLSTMLayer {5}\nz = LinearLayer {4} (l (x))"),
    "lstm layer with everything": brainscript(
        "l = RecurrentLSTMLayer {5, cellShape = 6, goBackwards = true, usePeepholes = true, trainInitialState = true, "
        "enableSelfStabilization = true}\nz = LinearLayer {4} (l (x))"
    ),
    "lstm layer stack": brainscript("l = RecurrentLSTMLayerStack {(4 : 5)}\nz = LinearLayer {4} (l (x))"),
    "lstm stack": stack("LSTMP", ", enableSelfStabilization = true"),
    "lstm bidirectional stack": stack("BidirectionalLSTMP"),
    "gru": brainscript("s = BS.RNNs.RecurrentGRU (5, x)\nz = LinearLayer {4} (s.h)"),
    "gru stack": stack("GRU", ", enableSelfStabilization = true"),
    "gru bidirectional stack": stack("BidirectionalGRU"),
    "python lstm": "PythonNetworkBuilder = [ file = net.py ; arguments = [ kind = lstm ] ]",
    "python gru": "PythonNetworkBuilder = [ file = net.py ; arguments = [ kind = gru ] ]",
    "python bidirectional": "PythonNetworkBuilder = [ file = net.py ; arguments = [ kind = both ] ]",
    "python fold": "PythonNetworkBuilder = [ file = net.py ; arguments = [ kind = fold ] ]",
}
QUICK = ("simple class lm", "ndl, first way", "lstm layer with everything", "gru stack", "python bidirectional")
COMPILE = (
    "simple class lstm",
    "ndl, second way",
    "lstm layer with everything",
    pytest.param("simple lstm", marks=pytest.mark.thorough),
    pytest.param("gru stack", marks=pytest.mark.thorough),
)
"""Networks for which compiled loops are tried too; each takes a while."""


INTERPRETED = ("precision = double ; cpuKernels = numpy", 1e-9)
COMPILED = ("precision = float ; cpuKernels = compiled", 2e-3)


def minibatches(network: Network, dtype: Any, *, classes: bool) -> list[Minibatch]:
    random = np.random.default_rng(7)
    found = []
    for lengths in LENGTHS:
        layout = sequence_layout(lengths)
        streams = {
            node.name: StreamData(values(node, layout.frames, random, dtype, classes), layout)
            for node in network.inputs
        }
        found.append(Minibatch(streams, layout.frames))
    return found


def values(node: Input, frames: int, random: np.random.Generator, dtype: Any, classes: bool) -> Any:
    """Numbers for ``x``, else one-hot words; labels of class-based models are word, class, its begin and end."""
    (width,) = node.known_shape
    if node.name == "x":
        return random.standard_normal((frames, width)).astype(dtype)
    if node.name == "labels" and classes:
        word = random.integers(6, size=frames)
        return np.stack([word, word // 3, word // 3 * 3, word // 3 * 3 + 3], axis=1).astype(dtype)
    words = np.eye(width, dtype=dtype)[random.integers(width, size=frames)]
    return csr_array(words) if node.sparse else words


def momentum() -> UpdateRule:
    def expression(m: Any, value: Any, gradient: Any, slots: Any, scalars: Any) -> Any:
        smoothed = 0.5 * slots["s"] + scalars["step"] * gradient
        return value - smoothed, {"s": smoothed}

    return UpdateRule((Slot("s"),), ("step",), expression)


def agree(text: str, setting: str, tolerance: float, *, classes: bool) -> None:
    """Train a network on the CPU engine and on the reference, and compare each minibatch's change of each parameter."""
    config = parse_text(f"{setting}\n{text}", file="r.cntk")
    context = ActionContext.create(config, Log(quiet=True))
    network = context.build_network(config)
    random = np.random.default_rng(1)
    for parameter in network.parameters:
        if parameter.learned:
            parameter.value = (0.5 * random.standard_normal(parameter.known_shape)).astype(context.dtype)
    (criterion,) = network.roots["criterion"]
    plan = make_plan(network, [criterion], criterion)
    stores, programs = [], []
    for engine in (ReferenceEngine(), context.make_engine(config)):
        stores.append(ParameterStore(network.parameters, context.dtype))
        programs.append(engine.compile(plan, stores[-1], momentum()))
    assert plan.trained
    for number, batch in enumerate(minibatches(network, context.dtype, classes=classes)):
        before = [{parameter: store.value(parameter).copy() for parameter in plan.trained} for store in stores]
        for program in programs:
            program.train_step(batch, [{"step": 0.05}] * len(plan.trained))
        for parameter in plan.trained:
            wanted, found = (store.value(parameter) - old[parameter] for store, old in zip(stores, before, strict=True))
            change = float(np.linalg.norm(wanted))
            rounding = 4 * np.finfo(context.dtype).eps * float(np.linalg.norm(before[0][parameter]))
            assert np.linalg.norm(found - wanted) <= tolerance * change + rounding, (
                f"{parameter.name}, minibatch {number}"
            )
            assert change or not number, f"{parameter.name} has not changed"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(PYTHON, encoding="utf-8")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS]
)
@pytest.mark.thinned(2)
def test_interpreted(name: str) -> None:
    agree(NETWORKS[name], *INTERPRETED, classes="class" in name)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILE)
def test_compiled(name: str) -> None:
    pytest.importorskip("numba")
    agree(NETWORKS[name], *COMPILED, classes="class" in name)


@pytest.mark.parametrize("name", ["ndl, first way", "ndl, second way"])
@pytest.mark.slow
def test_loops_of_ndl_are_compiled(name: str) -> None:
    """With DiagTimes, and with slices of matrices of one column."""
    pytest.importorskip("numba")
    text = NETWORKS[name].replace("b = Parameter(outputDimX4, init", "b = Parameter(outputDimX4, 1, init")
    config = parse_text("precision = float ; cpuKernels = compiled\n" + text, file="r.cntk")
    context = ActionContext.create(config, Log(quiet=True))
    network = context.build_network(config)
    (criterion,) = network.roots["criterion"]
    plan = make_plan(network, [criterion], criterion)
    program: Any = context.make_engine(config).compile(plan, ParameterStore(network.parameters, context.dtype))
    program.evaluate(minibatches(network, context.dtype, classes=False)[0])
    assert program._last.site.compiled_loops == {step for step in plan.steps if isinstance(step, Loop)}
    assert program._last.site.compiled_loops


def build(text: str) -> Network:
    config = parse_text(text, file="r.cntk")
    return ActionContext.create(config, Log(quiet=True)).build_network(config)


LAYERS = (
    ("RecurrentLSTMLayer {5}", "RecurrentLSTMLayer(5, name='l')"),
    (
        "RecurrentLSTMLayer {5, cellShape = 6, usePeepholes = true}",
        "RecurrentLSTMLayer(5, 6, use_peepholes=True, name='l')",
    ),
    (
        "RecurrentLSTMLayer {5, cellShape = 6, usePeepholes = true, trainInitialState = true, "
        "enableSelfStabilization = true, goBackwards = true, init = 'gaussian', initValueScale = 2}",
        "RecurrentLSTMLayer(5, 6, use_peepholes=True, train_initial_state=True, enable_self_stabilization=True, "
        "go_backwards=True, init='gaussian', scale=2, name='l')",
    ),
    ("RecurrentLSTMLayerStack {(5 : 6)}", "RecurrentLSTMLayerStack((5, 6), name='l')"),
)


@pytest.mark.parametrize(("in_brainscript", "in_python"), LAYERS)
def test_python_layers_have_the_parameters_of_brainscript(in_brainscript: str, in_python: str) -> None:
    """Names, shapes and first values; layers of a stack are numbered from the other end, so that values differ."""
    first = build(
        f"BrainScriptNetworkBuilder = {{ x = Input {{3}} ; l = {in_brainscript} ; z = l (x) ; outputNodes = (z) }}"
    )
    Path("other.py").write_text(
        "from cntk_builder_python import *\ndef build(graph):\n"
        f"    graph.output({in_python}(graph.input('x', 3)), 'z')\n",
        encoding="utf-8",
    )
    second = build("PythonNetworkBuilder = [ file = other.py ]")
    learned = [{node.name: node for node in network.parameters if node.learned} for network in (first, second)]
    assert sorted(learned[0]) == sorted(learned[1])
    for name, parameter in learned[0].items():
        value, other = parameter.value, learned[1][name].value
        assert value is not None
        assert other is not None
        assert value.shape == other.shape
        if "Stack" not in in_python:
            np.testing.assert_array_equal(value, other, err_msg=name)
