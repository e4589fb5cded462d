"""Small recurrent networks of every family, with sequences for them, on which engines are compared.

Every sequence has a length on the default axis; ``source``, the axis of an encoder, has sequences of another length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.network.node import Input, Node
from cntk_core.ops.families.attention import AdditiveAttributes, WeightsAttributes
from cntk_core.ops.families.attention_adjoints import ProductsAttributes
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.leaves import EnvironmentInputAttributes
from cntk_core.ops.families.products import TimesAttributes
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.families.recurrent_stack import RNNStackAttributes, stack_weights
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.reshaping import ReshapeAttributes
from cntk_core.ops.families.sequences import UnpackAttributes
from cntk_core.ops.families.slicing import SliceAttributes, StackAttributes
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.rows import sequence_rows
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.networks import Sample, Sketch

FEATURES, HIDDEN, CLASSES = 3, 2, 3
WORD_CLASSES = ((0, 2), (2, 6))
"""First and past-the-end word of each class of words."""

SOURCE = "source"
WINDOW = 3
"""Frames at the end of a source that attention sees."""


class SequenceSketch(Sketch):
    """A recurrent network while it is put together."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(dtype)
        self.x = self.input("x", FEATURES)

    def delay(
        self, *, ahead: bool = False, default: float = 0.1, dim: int = HIDDEN
    ) -> tuple[Node, Callable[..., Node]]:
        """Add a delay of one step; return it and the function that says of what, and its initial state."""
        attributes = DelayAttributes((dim,), 1, default)
        made = self.op("FutureValue" if ahead else "PastValue", attributes=attributes)

        def close(value: Node, *initial: Node) -> Node:
            made.inputs = [value, *initial]
            return value

        return made, close

    def weighted(self, *terms: tuple[Node, int], size: int = HIDDEN) -> Node:
        """Add a sum of products, each of a new matrix and a term of so many elements, and a bias."""
        total = self.parameter(f"b{len(self.network)}", size)
        for term, dim in terms:
            product = self.op("Times", self.parameter(f"W{len(self.network)}", dim, size), term)
            total = self.op("Plus", total, product)
        return total

    def elman(self, x: Node, dim: int, *initial: Node, ahead: bool = False) -> Node:
        """Add a plain recurrent layer."""
        past, close = self.delay(ahead=ahead)
        return close(self.op("Tanh", self.weighted((x, dim), (past, HIDDEN))), *initial)

    def lstm(self, x: Node, dim: int, *, ahead: bool = False) -> Node:
        """Add a layer of LSTM cells, with one product for the four gates."""
        past, close = self.delay(ahead=ahead)
        kept, close_cell = self.delay(ahead=ahead, default=0.0)
        sums = self.weighted((x, dim), (past, HIDDEN), size=4 * HIDDEN)
        i, f, g, o = (
            self.op("Slice", sums, attributes=SliceAttributes(k * HIDDEN, (k + 1) * HIDDEN)) for k in range(4)
        )
        held = self.op("ElementTimes", self.op("Sigmoid", f), kept)
        cell = close_cell(self.op("Plus", held, self.op("ElementTimes", self.op("Sigmoid", i), self.op("Tanh", g))))
        return close(self.op("ElementTimes", self.op("Sigmoid", o), self.op("Tanh", cell)))

    def gru(self, x: Node, dim: int) -> Node:
        """Add a layer of gated units."""
        past, close = self.delay()
        z, r = (self.op("Sigmoid", self.weighted((x, dim), (past, HIDDEN))) for _ in range(2))
        new = self.op("Tanh", self.weighted((x, dim), (self.op("ElementTimes", r, past), HIDDEN)))
        return close(self.op("Plus", past, self.op("ElementTimes", z, self.op("Minus", new, past))))

    def classify(self, h: Node, dim: int = HIDDEN) -> Sample:
        """Finish with a class for each frame."""
        labels, z = self.input("labels", CLASSES), self.weighted((h, dim), size=CLASSES)
        criterion = self.op("CrossEntropyWithSoftmax", labels, z, name="ce")
        return self.finish(criterion, z, one_hot={"labels"})


def lstm(dtype: Any) -> Sample:
    """An LSTM layer."""
    made = SequenceSketch(dtype)
    return made.classify(made.lstm(made.x, FEATURES))


def gru(dtype: Any) -> Sample:
    """A GRU layer."""
    made = SequenceSketch(dtype)
    return made.classify(made.gru(made.x, FEATURES))


def bidirectional(dtype: Any) -> Sample:
    """Layers in both directions, and over those another that looks ahead."""
    made = SequenceSketch(dtype)
    both = made.op("RowStack", made.lstm(made.x, FEATURES), made.elman(made.x, FEATURES, ahead=True))
    return made.classify(made.elman(both, 2 * HIDDEN, ahead=True))


def learned_state(dtype: Any) -> Sample:
    """A layer that begins with a learned state, and one that begins with one learned number."""
    made = SequenceSketch(dtype)
    lower = made.elman(made.x, FEATURES, made.parameter("h0", HIDDEN))
    return made.classify(made.elman(lower, HIDDEN, made.parameter("n0", 1), ahead=True))


def stack(dtype: Any) -> Sample:
    """OptimizedRNNStack, in both directions, above a delay."""
    made = SequenceSketch(dtype)
    attributes = RNNStackAttributes(HIDDEN, 2, bidirectional=True)
    weights = made.parameter("W", stack_weights(FEATURES, attributes) // HIDDEN, HIDDEN)
    before = made.op("PastValue", made.x, attributes=DelayAttributes((FEATURES,)))
    lower = made.op("Plus", before, made.weighted((made.x, FEATURES), size=FEATURES))
    return made.classify(made.op("OptimizedRNNStack", weights, lower, attributes=attributes), 2 * HIDDEN)


def normalized(dtype: Any) -> Sample:
    """Batch normalization below a recurrent layer and above it."""
    made = SequenceSketch(dtype)

    def normalize(value: Node, dim: int) -> Node:
        number = len(made.network)
        learned = [
            made.given(f"{name}{number}", np.full(dim, first)) for name, first in (("scale", 1.5), ("bias", 0.1))
        ]
        statistics = [
            made.given(f"{name}{number}", np.full(dim if name != "count" else 1, first), multiplier=0.0)
            for name, first in (("mean", 0.0), ("variance", 1.0), ("count", 0.0))
        ]
        return made.op("BatchNormalization", value, *learned, *statistics)

    lower = normalize(made.weighted((made.x, FEATURES), size=FEATURES), FEATURES)
    return made.classify(normalize(made.lstm(lower, FEATURES), HIDDEN))


def attention(dtype: Any) -> Sample:
    """A decoder that looks, in its loop, at the last states of an encoder on a dynamic axis of its own."""
    made = SequenceSketch(dtype)
    source = made.network.add(Input.make("words", (FEATURES,), axis=SOURCE))
    states = [made.gru(source, FEATURES)]
    for _ in range(WINDOW - 1):
        states.append(made.op("PastValue", states[-1], attributes=DelayAttributes((HIDDEN,), 1, 0.0)))
    keys = made.op("RowStack", *states, attributes=StackAttributes(2))
    total = made.op("SumColumnElements", source)
    ahead = made.op("FutureValue", made.op("Equal", total, total), attributes=DelayAttributes((1,), 1, 0.0))
    is_last = made.op("Minus", made.given("one", np.ones(1), multiplier=0.0), ahead)
    last = made.op("GatherPacked", made.op("PackedIndex", keys, made.op("Where", is_last)), keys)
    memory = made.op("ReconcileDynamicAxis", last, made.x)
    past, close = made.delay()
    query = made.weighted((past, HIDDEN))
    scores = made.op("ReduceElements", made.op("ElementTimes", memory, query), attributes=ReduceAttributes("Sum", 1))
    seen = made.op("ElementTimes", memory, made.op("Softmax", scores))
    context = made.op("ReduceElements", seen, attributes=ReduceAttributes("Sum", 2, keep_dimensions=False))
    state = made.op("Tanh", made.weighted((made.x, FEATURES), (past, HIDDEN), (context, HIDDEN)))
    return made.classify(close(state))


def whole_memory(dtype: Any) -> Sample:
    """A decoder that looks, in its loop, at all states of an encoder, however long its sequence is."""
    made = SequenceSketch(dtype)
    source = made.network.add(Input.make("words", (FEATURES,), axis=SOURCE))
    states = made.gru(source, FEATURES)
    sums = made.op("SumColumnElements", source)
    ones = made.op("UnpackSequence", made.op("Equal", sums, sums))
    memory = made.op("ReconcileDynamicAxis", made.op("UnpackSequence", states), made.x)
    there = made.op("ReconcileDynamicAxis", ones, made.x)
    past, close = made.delay()
    query = made.weighted((past, HIDDEN))
    fitting = made.op("ReduceElements", made.op("ElementTimes", memory, query), attributes=ReduceAttributes("Sum", 1))
    weights = made.op("ElementTimes", made.op("Exp", fitting), there)
    total = made.op("Reciprocal", made.op("ReduceElements", weights, attributes=ReduceAttributes("Sum", 2)))
    seen = made.op("ElementTimes", memory, made.op("ElementTimes", weights, total))
    context = made.op("ReduceElements", seen, attributes=ReduceAttributes("Sum", 2, keep_dimensions=False))
    return made.classify(close(made.op("Tanh", made.weighted((made.x, FEATURES), (past, HIDDEN), (context, HIDDEN)))))


def unpacked(dtype: Any) -> Sample:
    """Whole sequences as matrices: products with them, sums over all frames, and sequences again."""
    made = SequenceSketch(dtype)
    matrix = made.op("UnpackSequence", made.weighted((made.x, FEATURES)), attributes=UnpackAttributes(0.25))
    wide = made.op("Tanh", made.op("Times", made.parameter("V", HIDDEN, HIDDEN), matrix))
    sums = made.op("SumColumnElements", made.x)
    there = made.op("ElementTimes", made.op("Exp", wide), made.op("UnpackSequence", made.op("Equal", sums, sums)))
    total = made.op("Log", made.op("ReduceElements", there, attributes=ReduceAttributes("Sum", 2)))
    shifted = made.op("Minus", wide, total)
    back = made.op("ToSequenceLike", shifted, made.x)
    return made.classify(made.op("Plus", back, made.elman(back, HIDDEN)))


def _memory(made: SequenceSketch, source: Node, states: Node) -> tuple[Node, Node]:
    """States of an encoder as a memory, and which of its steps there are."""
    sums = made.op("SumColumnElements", source)
    return made.op("UnpackSequence", states), made.op("UnpackSequence", made.op("Equal", sums, sums))


def looking(dtype: Any) -> Sample:
    """A decoder whose states look, in its loop, at all states of an encoder; then, outside, at other sequences."""
    made = SequenceSketch(dtype)
    source = made.network.add(Input.make("words", (FEATURES,), axis=SOURCE))
    memory, there = _memory(made, source, made.elman(source, FEATURES))
    past, close = made.delay()
    table = made.parameter("table", 4, HIDDEN)
    known = made.op("AttentionSum", table, made.op("AttentionWeights", table, past))
    weights = made.op("AttentionWeights", memory, made.weighted((past, HIDDEN)), there)
    context = made.op("AttentionSum", memory, weights)
    terms = [(node, HIDDEN) for node in (past, context, known)]
    h = close(made.op("Tanh", made.weighted((made.x, FEATURES), *terms)))
    seen = made.op("AttentionSum", table, made.op("AttentionWeights", table, h))
    again = made.op("AttentionSum", memory, made.op("AttentionWeights", memory, made.op("Plus", seen, h), there))
    return made.classify(made.op("Plus", again, h))


def comparing(dtype: Any) -> Sample:
    """The same with sums that are compared: in the loop, and by the decoder's input outside."""
    made = SequenceSketch(dtype)
    source = made.network.add(Input.make("words", (FEATURES,), axis=SOURCE))
    states = made.elman(source, FEATURES)
    memory, there = _memory(made, source, states)
    keys, _ = _memory(made, source, made.op("Times", made.parameter("U", HIDDEN, HIDDEN), states))
    past, close = made.delay()
    v = made.parameter("v", HIDDEN)
    inside = made.op("AdditiveAttentionWeights", keys, made.weighted((past, HIDDEN)), v, there)
    outside = made.op("AdditiveAttentionWeights", keys, made.weighted((made.x, FEATURES)), v, there)
    seen = [made.op("AttentionSum", memory, weights) for weights in (inside, outside)]
    terms = [(node, HIDDEN) for node in (past, *seen)]
    return made.classify(close(made.op("Tanh", made.weighted((made.x, FEATURES), *terms))))


def remembering(dtype: Any) -> Sample:
    """A recurrent layer that looks, in its loop, at a learned table, which is the same for all sequences."""
    made = SequenceSketch(dtype)
    past, close = made.delay()
    keys, values = (made.parameter(name, 4, HIDDEN) for name in ("keys", "values"))
    seen = made.op("AttentionSum", values, made.op("AttentionWeights", keys, past))
    terms = [(past, HIDDEN), (seen, HIDDEN)]
    return made.classify(close(made.op("Tanh", made.weighted((made.x, FEATURES), *terms))))


def heads(dtype: Any) -> Sample:
    """Sequences that look at themselves, with two heads: at all steps, and at none that are still to come."""
    made = SequenceSketch(dtype)
    size = 2 * HIDDEN
    queries, keys, values = (made.weighted((made.x, FEATURES), size=size) for _ in range(3))
    memory, there = _memory(made, made.x, keys)
    content, _ = _memory(made, made.x, values)
    total: list[tuple[Node, int]] = []
    for causal in (True, False):
        attributes = WeightsAttributes(2, 0.7, causal)
        weights = made.op("AttentionWeights", memory, queries, there, attributes=attributes)
        total.append((made.op("AttentionSum", content, weights), size))
    additive = made.op(
        "AdditiveAttentionWeights", memory, queries, made.parameter("v", size), attributes=AdditiveAttributes(True)
    )
    return made.classify(made.weighted(*total, (made.op("AttentionSum", content, additive), size)))


def gathered(dtype: Any) -> Sample:
    """Products with memories and sums into them, of which derivatives of attention are made."""
    made = SequenceSketch(dtype)
    size = 2 * HIDDEN
    queries, states = (made.weighted((made.x, FEATURES), size=size) for _ in range(2))
    memory, _ = _memory(made, made.x, states)
    table = made.parameter("table", 3, size)
    total: list[tuple[Node, int]] = []
    for heads in (1, 2):
        weights = made.op("Tanh", made.op("AttentionProducts", memory, queries, attributes=ProductsAttributes(heads)))
        sums = made.op("AttentionMemory", memory, weights, queries)
        total.append((made.op("ToSequenceLike", sums, made.x), size))
        weights = made.op("Tanh", made.op("AttentionProducts", table, queries, attributes=ProductsAttributes(heads)))
        shared = made.op("AttentionMemory", table, weights, queries)
        total.append((made.op("AttentionSum", shared, weights), size))
    return made.classify(made.weighted(*total))


def chosen(dtype: Any) -> Sample:
    """Some frames of each sequence, a layer over these, and back to all; values that are 0 outside training."""
    made = SequenceSketch(dtype)
    condition = made.op("Greater", made.op("SumColumnElements", made.x), made.given("zero", np.zeros(1)))
    rows = made.op("PackedIndex", made.x, made.op("Where", condition))
    h = made.op("Tanh", made.weighted((made.op("GatherPacked", rows, made.x), FEATURES)))
    back = made.op("ScatterPacked", made.x, rows, made.op("Plus", h, made.elman(h, HIDDEN)))
    training = made.op("EnvironmentInput", attributes=EnvironmentInputAttributes("isTraining"))
    told = made.op("ElementTimes", training, h)
    sample = made.classify(back)
    return attrs.evolve(sample, roots=[*sample.roots, told])


def opened(dtype: Any) -> Sample:
    """Sequences as matrices, whose rows become sequences of another axis, all of them or as many as there were."""
    made = SequenceSketch(dtype)
    h = made.elman(made.x, FEATURES)
    sums = made.op("SumColumnElements", made.x)
    steps = made.op("ReduceElements", made.op("Equal", sums, sums), attributes=ReduceAttributes("Sum", -2))
    matrix = made.op("Tanh", made.op("Times", made.parameter("V", HIDDEN, HIDDEN), made.op("UnpackSequence", h)))
    total = made.weighted((made.x, FEATURES))
    for lengths in ((), (steps,)):
        sequence = made.op("ToSequence", matrix, *lengths)
        most = made.op("ReduceElements", made.op("Sigmoid", sequence), attributes=ReduceAttributes("LogSum", -2))
        total = made.op("Plus", total, made.op("ReconcileDynamicAxis", most, made.x))
    return made.classify(total)


def reduced(dtype: Any) -> Sample:
    """Everything that can be made of all steps of a sequence, of all samples, and of all elements."""
    made = SequenceSketch(dtype)
    h = made.op("Tanh", made.weighted((made.x, FEATURES), size=2 * HIDDEN))
    named = ("Sum", "LogSum", "Mean", "Max", "Min", "Prod")

    def reduce(value: Node, name: str, axis: int) -> Node:
        return made.op("ReduceElements", value, attributes=ReduceAttributes(name, axis))

    matrix = made.op("Reshape", h, attributes=ReshapeAttributes((HIDDEN, HIDDEN)))
    outer = made.op("Times", matrix, made.weighted((made.x, FEATURES)), attributes=TimesAttributes(1, -2))
    by_sequence = [made.op("Times", made.parameter("V", HIDDEN, 2 * HIDDEN), outer)]
    by_sequence += [reduce(h, name, -2) for name in (*named, "Argmax", "Argmin")]
    samples = made.op("Tanh", functools.reduce(lambda left, right: made.op("Plus", left, right), by_sequence))
    constant = [reduce(samples, name, -3) for name in named] + [reduce(h, name, -1) for name in named]
    total = functools.reduce(lambda left, right: made.op("Plus", left, right), constant)
    spread = made.op("ReconcileDynamicAxis", samples, made.x)
    return made.classify(made.op("Plus", made.op("Tanh", made.op("Plus", spread, total)), h), 2 * HIDDEN)


def convolved(dtype: Any) -> Sample:
    """A convolution along the sequences, of which parts are taken by strides; its mean meets the largest of samples."""
    made = SequenceSketch(dtype)
    attributes = ConvolutionAttributes((3,), (2 * HIDDEN,), (2,), sequential=True)
    wide = made.op("Convolution", made.parameter("K", 2 * HIDDEN, FEATURES, 3), made.x, attributes=attributes)
    part = made.op("Slice", made.op("Tanh", wide), attributes=SliceAttributes(0, 2 * HIDDEN, stride=-2))
    mean = made.op("ReduceElements", part, attributes=ReduceAttributes("Mean", -2))
    samples = made.op("ToBatch", made.parameter("samples", 4, HIDDEN))
    most = made.op("ReduceElements", samples, attributes=ReduceAttributes("Max", -3))
    spread = made.op("ReconcileDynamicAxis", mean, made.x)
    return made.classify(made.op("Plus", made.op("Plus", spread, most), made.elman(made.x, FEATURES)))


def side_by_side(dtype: Any) -> Sample:
    """Means of the sequences of a minibatch as one matrix, where each is compared with all others."""
    made = SequenceSketch(dtype)
    h = made.op("Tanh", made.weighted((made.x, FEATURES)))
    means = made.op("UnpackBatch", made.op("ReduceElements", h, attributes=ReduceAttributes("Mean", -2)))
    likeness = made.op("Tanh", made.op("TransposeTimes", means, means))
    others = made.op("Minus", likeness, made.op("EyeLikeOp", likeness))
    seen = made.op("ToBatch", made.op("Times", means, others))
    return made.classify(made.op("Plus", made.op("ReconcileDynamicAxis", seen, made.x), h))


def word_classes(dtype: Any) -> Sample:
    """A language model with classes of words."""
    made = SequenceSketch(dtype)
    h = made.elman(made.x, FEATURES)
    weights = made.parameter("V", WORD_CLASSES[-1][1], HIDDEN)
    classes = made.weighted((h, HIDDEN), size=len(WORD_CLASSES))
    criterion = made.op(
        "ClassBasedCrossEntropyWithSoftmax", made.input("word_and_class", 4), h, weights, classes, name="ce"
    )
    return made.finish(criterion, h)


def ctc(dtype: Any) -> Sample:
    """Connectionist temporal classification above an LSTM layer."""
    made = SequenceSketch(dtype)
    z = made.weighted((made.lstm(made.x, FEATURES), HIDDEN), size=CLASSES)
    graph = made.op("LabelsToGraph", made.input("phones", CLASSES))
    return made.finish(made.op("ForwardBackward", graph, z, name="ctc"), z)


def linear_chain(dtype: Any) -> Sample:
    """A conditional random field above a recurrent layer, and its best path."""
    made = SequenceSketch(dtype)
    labels = made.input("labels", CLASSES)
    z = made.weighted((made.elman(made.x, FEATURES), HIDDEN), size=CLASSES)
    transitions = made.parameter("T", CLASSES, CLASSES)
    path = made.op("SequenceDecoder", labels, z, transitions, name="path")
    return made.finish(made.op("CRF", labels, z, transitions, name="crf"), z, path, one_hot={"labels"})


def overlapping(dtype: Any) -> Sample:
    """A layer whose parts share some elements of the vector that they are taken from, so that gradients add up."""
    made = SequenceSketch(dtype)
    past, close = made.delay()
    sums = made.weighted((made.x, FEATURES), (past, HIDDEN), size=2 * HIDDEN - 1)
    first, second = (made.op("Slice", sums, attributes=SliceAttributes(k, k + HIDDEN)) for k in (0, HIDDEN - 1))
    h = close(made.op("ElementTimes", made.op("Sigmoid", first), made.op("Tanh", second)))
    return made.classify(h)


def accumulated(dtype: Any) -> Sample:
    """A criterion that adds up over time: gradients come to it from its own later steps, beside the ones."""
    made = SequenceSketch(dtype)
    past, close = made.delay(default=0.0, dim=1)
    error = made.op("Tanh", made.weighted((made.x, FEATURES), size=1))
    total = made.op("ElementTimes", made.op("Plus", error, past), made.parameter("decay", 1), name="ce")
    return made.finish(close(total))


SEQUENCE_SAMPLES: Mapping[str, Callable[[Any], Sample]] = {
    made.__name__: made
    for made in (
        lstm,
        gru,
        accumulated,
        overlapping,
        bidirectional,
        learned_state,
        stack,
        normalized,
        attention,
        whole_memory,
        unpacked,
        looking,
        comparing,
        remembering,
        heads,
        gathered,
        chosen,
        opened,
        reduced,
        convolved,
        side_by_side,
        word_classes,
        ctc,
        linear_chain,
    )
}
"""Name to function that makes the network in a precision."""


def source_lengths(lengths: Sequence[int]) -> list[int]:
    """The lengths on the axis of an encoder: no sequence without frames for one with frames."""
    return [length % WINDOW + 1 if length else 0 for length in lengths]


def sequences_for(sample: Sample, lengths: Sequence[int], seed: int = 0) -> Minibatch:
    """Return a minibatch of sequences of these lengths for one of the networks, the same for the same seed."""
    streams = {}
    own, source = sequence_layout(lengths), sequence_layout(source_lengths(lengths))
    for index, node in enumerate(sample.network.inputs):
        assert isinstance(node, Input)
        layout = source if node.axis == SOURCE else own
        rows = _values(sample, node, layout, np.random.default_rng([seed, index]))
        streams[node.name] = StreamData(rows.astype(sample.network.dtype), layout)
    return Minibatch(streams, own.frames)


def _values(sample: Sample, node: Input, layout: SequenceLayout, rng: np.random.Generator) -> NDArray[Any]:
    frames = layout.frames
    if node.name in sample.one_hot:
        return np.eye(CLASSES)[rng.integers(CLASSES, size=frames)]
    if node.name == "word_and_class":
        return np.array([_word(rng) for _ in range(frames)]).reshape(frames, 4)
    if node.name == "phones":
        return _phones(layout, rng)
    return rng.normal(size=(frames, *node.known_shape))


def _word(rng: np.random.Generator) -> tuple[int, int, int, int]:
    number = int(rng.integers(len(WORD_CLASSES)))
    first, end = WORD_CLASSES[number]
    return int(rng.integers(first, end)), number, first, end


def _phones(layout: SequenceLayout, rng: np.random.Generator) -> NDArray[Any]:
    """Labels of CTC: 2 at the first frame of each phone, 1 inside; neighbours differ, so that they fit their frames."""
    rows, values = sequence_rows(layout), np.zeros((layout.frames, CLASSES))
    for number in np.unique(rows.number):
        own = np.flatnonzero(rows.number == number)
        phone = 0
        for place, row in enumerate(own[np.argsort(rows.step[own])].tolist()):
            begins = place == 0 or rng.random() < 0.5
            phone = (phone + begins) % (CLASSES - 1)
            values[row, phone] = 1 + begins
    return values
