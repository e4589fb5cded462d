"""Small networks with sparse inputs, with data for them, on which engines are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.network.node import Input, Node
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.networks import Sample, Sketch

WORDS = 9
"""Elements of a sample of a sparse input."""


def product(dtype: Any) -> Sample:
    """A product with a sparse input."""
    made = Sketch(dtype)
    x = _words(made, "x")
    return _finish(made, made.dense(x, (WORDS, 3), 0))


def two_products(dtype: Any) -> Sample:
    """Two products of one matrix, with two sparse inputs."""
    made = Sketch(dtype)
    weights = made.parameter("E", WORDS, 3)
    first, second = (made.op("Times", weights, _words(made, name)) for name in ("x", "y"))
    return _finish(made, made.op("Plus", made.op("Tanh", first), second))


def read_densely(dtype: Any) -> Sample:
    """A product with a sparse input that another operation reads, too."""
    made = Sketch(dtype)
    x = _words(made, "x")
    total = made.op("SumColumnElements", x)
    return _finish(made, made.op("Plus", made.dense(x, (WORDS, 3), 0), total))


def mixed(dtype: Any) -> Sample:
    """A matrix in a product with a sparse input and in one with a dense input: its gradient is not sparse."""
    made = Sketch(dtype)
    weights = made.parameter("E", WORDS, 3)
    sparse = made.op("Times", weights, _words(made, "x"))
    return _finish(made, made.op("Plus", sparse, made.op("Times", weights, made.input("d", WORDS))))


def labels(dtype: Any) -> Sample:
    """Words looked up in a table, and sparse labels that criteria read, one of them a product's input, too."""
    made = Sketch(dtype)
    hidden = made.op("Tanh", made.op("LookupTable", made.parameter("E", WORDS, 3), _words(made, "x")))
    words = _words(made, "l")
    z = made.op("Plus", made.dense(hidden, (3, WORDS), 0), made.op("Times", made.parameter("B", WORDS, WORDS), words))
    error = made.op("ClassificationError", words, z, name="err")
    return made.finish(made.op("CrossEntropyWithSoftmax", words, z, name="ce"), z, error)


def targets(dtype: Any) -> Sample:
    """Sparse targets of a square error and of a cross entropy of probabilities."""
    made = Sketch(dtype)
    words = _words(made, "l")
    chances = made.op("Softmax", made.dense(made.input("d", 3), (3, WORDS), 0))
    entropy = made.op("CrossEntropy", words, chances, name="ce")
    return made.finish(made.op("Plus", made.op("SquareError", chances, words, name="se"), entropy), chances, entropy)


SPARSE_SAMPLES = {made.__name__: made for made in (product, two_products, read_densely, mixed, labels, targets)}


def _words(made: Sketch, name: str) -> Node:
    return made.network.add(Input.make(name, (WORDS,), sparse=True))


def _finish(made: Sketch, z: Node) -> Sample:
    return made.finish(made.op("SquareError", made.input("target", 3), z, name="se"), z)


def with_sparse_streams(data: Minibatch, sample: Sample, seed: int) -> Minibatch:
    """Replace the streams of sparse inputs: most samples have one element or two, of few that change with the seed."""
    rng = np.random.default_rng([seed, 3])
    streams = dict(data.streams)
    for node in sample.network.inputs:
        if isinstance(node, Input) and node.sparse:
            frames = streams[node.name].data.shape[0]
            rows = np.zeros((frames, WORDS), sample.network.dtype)
            chosen = rng.permutation(WORDS)[:3]
            for _ in range(2):
                rows[np.arange(frames), rng.choice(chosen, frames)] = 1.5
            streams[node.name] = sparse_stream(rows)
    return Minibatch(streams, data.samples)


def sparse_stream(rows: NDArray[Any]) -> StreamData:
    """Return rows as a sparse stream of single frames."""
    from scipy.sparse import csr_array

    return StreamData(csr_array(rows), frame_layout(rows.shape[0]))
