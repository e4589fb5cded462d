"""Trained models in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_core.errors import CntkError
from cntk_core.model import Model, one_hot
from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Input, Node
from cntk_core.ops.families.recurrence import PAST_VALUE, DelayAttributes
from cntk_core.ops.table import core_op, core_ops
from cntk_kit_recipes.cli import main

RECIPE = """
command = Train
precision = double
Train = [
    action = train
    modelPath = "net.dnn"
    BrainScriptNetworkBuilder = {
        words = Input {5, sparse = true}
        extra = Input {2}
        labels = Input {3, tag = 'label'}
        e = EmbeddingLayer {4}
        l = RecurrentLSTMLayer {6}
        h = Pass (l (e (words)), tag = 'output')
        z = Pass (LinearLayer {3} (Splice (h : extra)), tag = 'output')
        last = Pass (BS.Sequences.Last (h), tag = 'output')
        back = RecurrentLSTMLayer {2, goBackwards = true} (extra)
        ce = CrossEntropyWithSoftmax (labels, z, tag = 'criterion')
    }
    SGD = [ maxEpochs = 1 ; minibatchSize = 8 ; learningRatesPerSample = 0.1 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        randomize = false
        input = [
            words = [ dim = 5 ; format = sparse ]
            extra = [ dim = 2 ; format = dense ]
            labels = [ dim = 3 ; format = dense ]
        ]
    ]
]
Write = [
    action = write
    outputPath = "out"
    outputNodeNames = h:z:last
    format = [ precisionFormat = ".17" ]
    reader = [
        file = "train.ctf"
        input = [ words = [ dim = 5 ; format = sparse ] ; extra = [ dim = 2 ; format = dense ] ]
    ]
]
"""
WORDS = [[3, 1, 4, 1], [2], [0, 2, 4]]
EXTRA = [np.arange(8.0).reshape(4, 2) / 8, np.array([[1.0, -1]]), np.ones((3, 2)) / 4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    lines = [
        f"{number} |words {word}:1 |extra {extra[0]} {extra[1]} |labels 1 0 0"
        for number, (words, extras) in enumerate(zip(WORDS, EXTRA, strict=True))
        for word, extra in zip(words, extras, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("train.ctf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        Path("r.cntk").write_text(RECIPE, encoding="utf-8")
        assert main(["configFile=r.cntk", "command=Train:Write", "modelPath=net.dnn"]) == 0
    return folder


@pytest.fixture
def model(folder: Path) -> Model:
    return Model.load(folder / "net.dnn")


def test_values_are_those_that_the_action_writes(model: Model, folder: Path) -> None:
    found = model.evaluate({"words": WORDS, "extra": EXTRA})
    assert set(found) == {"h", "z", "last"}
    assert [len(one) for one in found["last"]] == [1, 1, 1]
    for name, sequences in found.items():
        written = np.loadtxt(folder / f"out.{name}")
        np.testing.assert_allclose(np.concatenate(sequences), written, rtol=1e-11)


def test_words_in_several_forms(model: Model) -> None:
    from scipy.sparse import csr_array

    wanted = model.evaluate({"words": WORDS}, ["h"])["h"]
    dense = [np.eye(5)[words] for words in WORDS]
    sparse, numbers = [csr_array(one) for one in dense], [np.array(words, np.int8) for words in WORDS]
    for forms in (dense, sparse, numbers, one_hot(WORDS)):
        for found, expected in zip(model.evaluate({"WORDS": forms}, "h")["h"], wanted, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_sequence_without_frames(model: Model) -> None:
    one, none, two = model.evaluate({"words": [[1], [], [2, 3]]}, ["h"])["h"]
    assert (one.shape, none.shape, two.shape) == ((1, 6), (0, 6), (2, 6))
    np.testing.assert_allclose(two, model.evaluate({"words": [[2, 3]]}, ["h"])["h"][0], rtol=1e-12)


def test_a_stream_carries_the_state(model: Model) -> None:
    wanted = model.evaluate({"words": [[3, 1, 4, 1], [0, 2, 4, 2]]}, ["h"])["h"]
    stream = model.stream(["h"])
    for _ in range(2):
        pieces = [stream.feed({"words": words})["h"] for words in ([[3], [0, 2]], [[1, 4], [4]], [[1], [2]])]
        for sequence, expected in enumerate(wanted):
            joined = np.concatenate([piece[sequence] for piece in pieces])
            np.testing.assert_allclose(joined, expected, rtol=1e-14)
        stream.restart()


def test_evaluating_does_not_go_on_from_a_stream(model: Model) -> None:
    wanted = model.evaluate({"words": [[1]]}, ["h"])["h"][0]
    model.stream(["h"]).feed({"words": [[3, 3]]})
    np.testing.assert_array_equal(model.evaluate({"words": [[1]]}, ["h"])["h"][0], wanted)


def feed_twice(model: Model) -> None:
    stream = model.stream(["h"])
    stream.feed({"words": [[1], [2]]})
    stream.feed({"words": [[1]]})


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda model: model.evaluate({}), "there are no values for the input 'words'\n    Given: nothing"),
        (
            lambda model: model.evaluate({"words": [[1, 5]]}, ["h"]),
            "the input 'words' has elements 0 to 4; given are 1 to 5",
        ),
        (
            lambda model: model.evaluate({"words": [[0.5, 1]]}, ["h"]),
            "the input 'words' has the shape (1, 2)\n"
            "    A sample is [5], in memory (5).\n"
            "    It takes a list of sequences, each (frames, 5), or one array (sequences, frames, 5).\n"
            "    Whole numbers mean one-hot samples.",
        ),
        (
            lambda model: model.evaluate({"words": [[1]]}, ["hh"]),
            "the network has no node 'hh'; did you mean 'h'?",
        ),
        (
            lambda model: model.evaluate({"words": WORDS, "extra": EXTRA[:2]}),
            "the sequences of 'words' and 'extra' have different lengths: [4, 1, 3] and [4, 1]",
        ),
        (
            feed_twice,
            "the stream has 2 sequences; now there are 1",
        ),
    ],
)
def test_mistakes(model: Model, mistake: Any, message: str) -> None:
    with pytest.raises(CntkError) as error:
        mistake(model)
    assert str(error.value) == message


def test_what_looks_ahead_is_no_stream(model: Model) -> None:
    with pytest.raises(CntkError, match="needs whole sequences; the model cannot be evaluated as a stream"):
        model.stream(["last"])


def test_an_evaluation_leaves_a_stream_alone(model: Model) -> None:
    wanted = model.evaluate({"words": [[3, 1, 4]]}, ["h"])["h"][0]
    stream = model.stream(["h"])
    stream.feed({"words": [[3]]})
    model.evaluate({"words": [[2, 2, 2]]}, ["h"])
    np.testing.assert_allclose(stream.feed({"words": [[1, 4]]})["h"][0], wanted[1:], rtol=1e-14)


def test_every_evaluation_and_every_stream_begins_an_epoch() -> None:
    """A mean of the epoch so far is of what is evaluated, and random numbers are the first of the first epoch."""
    ops = {op.name: op for op in core_ops()}
    network = Network(np.float64)
    x = network.add(Input.make("x", (2,)))
    mean = network.add(Node("mean", ops["EpochAccumulator"], [x]))
    network.mark(network.add(Node("less", ops["Minus"], [x, mean])), "output")
    draw = ops["RandomDistribution"]
    network.mark(network.add(Node("random", draw, [x], draw.attributes())), "output")
    network.infer()
    model = Model(network)
    data = {"x": [np.array([[1.0, 2.0], [3.0, 6.0]])]}
    first = model.evaluate(data)
    model.evaluate({"x": [np.ones((3, 2))]})
    stream = model.stream()
    stream.feed({"x": [np.ones((3, 2))]})
    stream.restart()
    np.testing.assert_array_equal(first["less"][0], [[-1, -2], [1, 2]])
    assert len(np.unique(first["random"][0])) == 4
    for found in (model.evaluate(data), stream.feed(data)):
        for name, (values,) in first.items():
            np.testing.assert_array_equal(found[name][0], values)


def test_a_value_for_each_sequence_goes_along_a_stream() -> None:
    """It is given with every piece, for the sequences that begin and for those that go on."""
    network = Network(np.float64)
    x = network.add(Input.make("x", (1,)))
    topic = network.add(Input.make("topic", (1,), axis=BATCH))
    each = network.add(Node("each", core_op("ReconcileDynamicAxis"), [topic, x]))
    total = network.add(Node("sum", core_op("Plus"), [x, each]))
    network.mark(network.add(Node("past", PAST_VALUE, [total], DelayAttributes((), 1, 0.0))), "output")
    network.infer()
    model = Model(network)
    topics, xs = [10.0, 20.0, 30.0], [[1.0, 2.0, 3.0], [4.0, 5.0], [6.0, 7.0, 8.0]]
    wanted = model.evaluate({"x": xs, "topic": topics})["past"]
    np.testing.assert_array_equal(wanted[0], [[0], [11], [12]])
    stream = model.stream()
    pieces = [
        stream.feed({"x": piece, "topic": topics})["past"]
        for piece in ([[1.0], [], [6.0, 7.0]], [[2.0, 3.0], [4.0, 5.0], [8.0]])
    ]
    for number, expected in enumerate(wanted):
        np.testing.assert_array_equal(np.concatenate([piece[number] for piece in pieces]), expected)
