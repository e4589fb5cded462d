"""Networks with two time axes from BrainScript's library: attention, and decoders made of trained models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_core.config import parse_text
from cntk_core.contract.engine import Program
from cntk_core.contract.store import ParameterStore
from cntk_core.network.model_file import save_model
from cntk_core.network.network import Network
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.reader_order import pack, unpack
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import ReferenceEngine

INPUTS = """
xAxis = DynamicAxis ()
x = Input (4, dynamicAxis = xAxis)
y = Input (3, tag = 'label')
before = BS.Loop.Previous (y)
"""
CE = "\nz = DenseLayer {3} (d.h)\nce = Pass (ReduceLogSum (z) - TransposeTimes (y, z), tag = 'criterion')\n"
HOOK = (
    "f = BS.Seq2Seq.CreateAugmentWithFixedWindowAttentionHook (6, {span}, y, e, enableSelfStabilization = {stable})\n"
)

NETWORKS = {
    "lstm": "e = BS.RNNs.RecurrentLSTMP (5, x, enableSelfStabilization = true)\n"
    + HOOK.format(span=3, stable="true")
    + "d = BS.RNNs.RecurrentLSTMP (7, before, augmentInputHook = f, augmentInputDim = 5,"
    " enableSelfStabilization = true)",
    "gru": "e = BS.RNNs.RecurrentGRU (5, cellDim = 5, x, inputDim = 4)\n"
    + HOOK.format(span=6, stable="false")
    + "d = BS.RNNs.RecurrentGRU (7, cellDim = 7, before, inputDim = 3, augmentInputHook = f, augmentInputDim = 5)",
    "both": "e = BS.RNNs.RecurrentBidirectionalGRUStack ((5 : 3), cellDims = (5 : 3), x, inputDim = 4)[1]\n"
    + HOOK.format(span=2, stable="false")
    + "c = BS.RNNs.LSTMBlock {7, cellShape = 6, usePeepholes = true}\n"
    "s = BS.RNNs.PreviousHC (d)\n"
    "d = c (before, s, aux = f (before, s))",
    "whole": "e = BS.RNNs.RecurrentLSTMP (5, x)\n"
    "f = BS.Seq2Seq.CreateAugmentWithAttentionHook (6, e, enableSelfStabilization = true)\n"
    "d = BS.RNNs.RecurrentLSTMP (7, before, augmentInputHook = f, augmentInputDim = 5)",
}
"""Decoders with attention to the last 2, 3 or 6 of an encoder's states or all, in different recurrences."""

BATCHES = [([3, 5, 1], [2, 4, 6]), ([7], [1]), ([2, 2, 9, 4], [5, 1, 1, 3]), ([1, 1], [1, 1]), ([3, 5, 1], [2, 4, 6])]
"""Lengths on both axes; the first and the last minibatch have the same."""


def build(text: str, *settings: str) -> tuple[ActionContext, Any, Network]:
    """Build a network of a given precision, with the same random parameters each time."""
    config = parse_text("\n".join([*settings, "BrainScriptNetworkBuilder = {", text, "}"]), file="r.cntk")
    context = ActionContext.create(config, Log(quiet=True))
    network = context.build_network(config)
    random = np.random.default_rng(5)
    for parameter in network.parameters:
        if parameter.learned:
            parameter.value = (0.5 * random.standard_normal(parameter.known_shape)).astype(context.dtype)
    return context, config, network


def stream(sequences: Sequence[Any], dtype: Any) -> StreamData:
    layout = sequence_layout([len(one) for one in sequences])
    return StreamData(pack(sequences, layout).astype(dtype), layout)


def minibatch(lengths: tuple[list[int], list[int]], seed: int, dtype: Any) -> Minibatch:
    random = np.random.default_rng(seed)
    data = [random.standard_normal((length, 4)) for length in lengths[0]]
    labels = [np.eye(3)[random.integers(3, size=length)] for length in lengths[1]]
    return Minibatch({"x": stream(data, dtype), "y": stream(labels, dtype)}, sum(lengths[1]))


SOME = [pytest.param(name, marks=[pytest.mark.thorough] if name in ("both", "lstm") else []) for name in NETWORKS]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_gradients_are_differences(name: str) -> None:
    """Of the reference, for each parameter in a random direction."""
    _, _, network = build(INPUTS + NETWORKS[name] + CE, "precision = double")
    plan = make_plan(network, [network["ce"]], network["ce"])
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(plan, store)
    batch = minibatch(BATCHES[0], 0, np.float64)
    program.compute_gradients(batch)
    gradients = [store.gradient(parameter).copy() for parameter in plan.trained]
    random = np.random.default_rng(2)
    for parameter, gradient in zip(plan.trained, gradients, strict=True):
        value = store.value(parameter)
        kept, direction = value.copy(), random.standard_normal(value.shape)
        sums = []
        for step in (1e-5, -1e-5):
            value[...] = kept + step * direction
            program.evaluate(batch)
            sums.append(program.value("ce").sum())
        value[...] = kept
        slope = (sums[0] - sums[1]) / 2e-5
        assert abs(slope - (gradient * direction).sum()) <= 1e-6 * max(1, abs(slope)), parameter.name


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-9), ("float", 2e-4)])
@pytest.mark.parametrize("name", SOME)
@pytest.mark.thinned(2)
def test_gradients_are_those_of_the_reference(name: str, precision: str, tolerance: float) -> None:
    """On minibatches of different shapes one after the other."""
    context, config, network = build(INPUTS + NETWORKS[name] + CE, f"precision = {precision}", "numCPUThreads = 1")
    plan = make_plan(network, [network["ce"]], network["ce"])
    stores = [ParameterStore(network.parameters, dtype) for dtype in (np.float64, context.dtype)]
    engines = (ReferenceEngine(), context.make_engine(config))
    programs = [engine.compile(plan, store) for engine, store in zip(engines, stores, strict=True)]
    for seed, lengths in enumerate(BATCHES):
        for program, store in zip(programs, stores, strict=True):
            program.compute_gradients(minibatch(lengths, seed, store.values.dtype))
        for parameter in plan.trained:
            expected, found = (store.gradient(parameter) for store in stores)
            allowed = tolerance * max(1.0, float(np.abs(expected).max()))
            assert np.abs(found - expected).max() <= allowed, f"{parameter.name}, minibatch {seed}"


MODEL = """
letterAxis = DynamicAxis ()
letters = Input (4, dynamicAxis = letterAxis)
words = Input (5, tag = 'label')
inputSequence = Pass (letters)
labelSequence = Pass (Slice (1, 0, words, axis = -1))
isFirst = BS.Loop.IsFirst (labelSequence)
labelSentenceStartEmbeddedScattered = BS.Sequences.Scatter (isFirst, BS.Sequences.First (words))
decoderHistoryHook = Pass (labelSequence)
decoderHistoryFromOutput = Pass (Hardmax (z))
before = Pass (BS.Boolean.If (isFirst, labelSentenceStartEmbeddedScattered, BS.Loop.Previous (decoderHistoryHook)))
beamSearchReorderHook = Pass (BS.Constants.OnesTensor (1 : 1))
encoder = [ h = RecurrentLSTMLayer {6} (inputSequence) ; dim = 6 ]
attend = BS.Seq2Seq.CreateAugmentWithFixedWindowAttentionHook (5, 4, labelSequence, encoder)
Previous (state) = [
    h = BS.Loop.Previous (state.h * beamSearchReorderHook)
    c = BS.Loop.Previous (state.c * beamSearchReorderHook)
    dim = state.dim
]
cell = BS.RNNs.LSTMBlock {6}
state = Previous (decoder)
decoder = cell (before, state, aux = attend (before, state))
W = ParameterTensor {(5 : 6)}
z = 6 * (W * decoder.h)
ce = Pass (ReduceLogSum (z) - TransposeTimes (labelSequence, z), tag = 'criterion')
"""


class Decoding:
    """A model with random parameters, and decoders of it in BrainScript and in a few lines of Python."""

    STEPS = 5

    def __init__(self) -> None:
        _, _, self.network = build(MODEL, "precision = double")
        save_model(self.network, "model.dnn")
        self.program = self.compile(self.network, "z")
        random = np.random.default_rng(3)
        self.letters = [random.standard_normal((length, 4)) for length in (4, 2, 6, 1, 5, 3, 3, 4)]

    @staticmethod
    def compile(network: Network, root: str) -> Program:
        plan = make_plan(network, [network[root]])
        return ReferenceEngine().compile(plan, ParameterStore(network.parameters, np.float64))

    def run(self, program: Program, root: str, letters: list[Any], words: list[list[int]]) -> list[Any]:
        labels = [np.eye(5)[[0, *one]] for one in words]
        data = {"letters": stream(letters, np.float64), "words": stream(labels, np.float64)}
        program.evaluate(Minibatch(data, sum(map(len, words))))
        return unpack(program.value(root), program.layout(root))

    def in_brainscript(self, decoder: str) -> list[list[int]]:
        text = f"BrainScriptNetworkBuilder = (BS.Seq2Seq.{decoder})"
        config = parse_text(f"precision = double\n{text}", file="r.cntk")
        network = ActionContext.create(config, Log(quiet=True)).build_network(config)
        program = self.compile(network, "network.decodeOut")
        unknown = [[0] * self.STEPS for _ in self.letters]
        found = self.run(program, "network.decodeOut", self.letters, unknown)
        assert all(np.allclose(one.reshape(-1, 5).sum(axis=1), 1) for one in found)
        return [one.reshape(-1, 5).argmax(axis=1).tolist() for one in found]

    def in_python(self, depth: int) -> Iterator[list[int]]:
        """A beam search that asks the model for the next word after each of its sequences of words."""
        for letters in self.letters:
            beam: list[tuple[float, list[int]]] = [(0.0, [])]
            for _ in range(self.STEPS):
                words = [[*path, 0] for _, path in beam]
                scores = [one[-1].reshape(5) for one in self.run(self.program, "z", [letters] * len(beam), words)]
                logs = [one - np.log(np.exp(one).sum()) for one in scores]
                ways = [
                    (so_far + float(log[word]), [*path, word])
                    for (so_far, path), log in zip(beam, logs, strict=True)
                    for word in range(5)
                ]
                beam = sorted(ways, reverse=True)[:depth]
            yield beam[0][1]


@pytest.fixture
def decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Decoding:
    monkeypatch.chdir(tmp_path)
    return Decoding()


@pytest.mark.slow
def test_the_greedy_decoder(decoding: Decoding) -> None:
    found = decoding.in_brainscript("GreedySequenceDecoderFrom (BS.Network.Load ('model.dnn'))")
    assert found == list(decoding.in_python(1))
    assert len({tuple(one) for one in found}) > 2  # it depends on the letters


@pytest.mark.slow
def test_the_beam_decoder(decoding: Decoding) -> None:
    found = decoding.in_brainscript("BeamSearchSequenceDecoderFrom (BS.Network.Load ('model.dnn'), 3)")
    assert found == list(decoding.in_python(3))
    assert found != list(decoding.in_python(1))  # a search finds other sequences
