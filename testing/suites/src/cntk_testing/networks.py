"""Small networks of core ops, with data for them, on which engines are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.dropout import DropoutAttributes
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.sampling import RandomDistributionAttributes
from cntk_core.ops.families.slicing import SliceAttributes
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.table import core_ops
from cntk_core.records.minibatch import Minibatch, StreamData

TABLE = core_ops()


@attrs.define
class Sample:
    """A network, what is computed of it, and how its data look.

    Attributes:
        network: with shapes inferred and parameters filled.
        criterion: what is trained, if anything.
        roots: what is read beside it.
        one_hot: names of the inputs whose samples are a 1 among zeros.
        settings: numbers that training sets (``dropoutRate``).
    """

    network: Network
    criterion: Node | None = None
    roots: list[Node] = attrs.field(factory=list)
    one_hot: set[str] = attrs.field(factory=set)
    settings: Mapping[str, float] = attrs.field(factory=dict)

    def minibatch(self, frames: int, seed: int = 0) -> Minibatch:
        """Return random data for all inputs, the same for the same seed."""
        layout = frame_layout(frames)
        streams = {
            node.name: StreamData(self._rows(node, frames, [seed, index]), layout)
            for index, node in enumerate(self.network.inputs)
        }
        return Minibatch(streams, frames)

    def _rows(self, node: Input, frames: int, seed: list[int]) -> NDArray[Any]:
        rng = np.random.default_rng(seed)
        if node.name in self.one_hot:
            (size,) = node.known_shape
            return np.eye(size, dtype=self.network.dtype)[rng.integers(size, size=frames)]
        return rng.normal(size=(frames, *node.known_shape)).astype(self.network.dtype)


class Sketch:
    """A network while it is put together. Values of parameters follow each other in one random sequence."""

    def __init__(self, dtype: Any) -> None:
        self.network = Network(dtype)
        self._random = np.random.default_rng(7)

    def input(self, name: str, *shape: int) -> Node:
        """Add an input."""
        return self.network.add(Input.make(name, shape))

    def parameter(self, name: str, *shape: int, multiplier: float = 1.0) -> Node:
        """Add a parameter with random values."""
        value = 0.5 * self._random.normal(size=shape)
        return self.given(name, value, multiplier=multiplier)

    def given(self, name: str, value: NDArray[Any], *, multiplier: float = 1.0) -> Node:
        """Add a parameter with these values."""
        typed = value.astype(self.network.dtype)
        return self.network.add(Parameter.make(name, value.shape, value=typed, learning_rate_multiplier=multiplier))

    def op(self, op: str, *inputs: Node, name: str = "", attributes: Any = None) -> Node:
        """Add an operation of the core; by default with default attributes and a name of its own."""
        found = TABLE.find("ndl", op)
        assert found is not None, op
        settings = found.attributes() if attributes is None else attributes
        return self.network.add(Node(name or f"n{len(self.network)}", found, list(inputs), settings))

    def dense(self, x: Node, size: tuple[int, int], number: int) -> Node:
        """Add ``W x + b``."""
        weights, bias = self.parameter(f"W{number}", *size), self.parameter(f"b{number}", size[1])
        return self.op("Plus", self.op("Times", weights, x), bias)

    def finish(self, criterion: Node | None, *roots: Node, **fields: Any) -> Sample:
        """Infer the shapes; ``criterion`` and ``roots`` are what is computed."""
        self.network.infer()
        return Sample(self.network, criterion, list(roots), **fields)


def classifier(dtype: Any, *, activation: str = "Sigmoid") -> Sample:
    """One hidden layer, cross entropy with softmax, classification error."""
    made = Sketch(dtype)
    x, labels = made.input("x", 6), made.input("labels", 4)
    z = made.dense(made.op(activation, made.dense(x, (6, 8), 0), name="h"), (8, 4), 1)
    error = made.op("ClassificationError", labels, z, name="err")
    criterion = made.op("CrossEntropyWithSoftmax", labels, z, name="ce")
    return made.finish(criterion, z, error, one_hot={"labels"})


def rectified(dtype: Any) -> Sample:
    """The same with rectified linear units."""
    return classifier(dtype, activation="RectifiedLinear")


def chain(dtype: Any) -> Sample:
    """Element-wise operations with broadcasting, values used twice, and a square error."""
    made = Sketch(dtype)
    x, target = made.input("x", 2, 3), made.input("target", 2, 3)
    scale, shift, one = made.parameter("scale", 1, 3), made.parameter("shift", 2, 1), made.parameter("one", 1)
    scaled = made.op("ElementTimes", x, scale)
    moved = made.op("Minus", made.op("Tanh", scaled), shift)
    gated = made.op("ElementTimes", moved, made.op("Sigmoid", made.op("Plus", moved, one)), name="gated")
    decayed = made.op("Exp", made.op("Negate", made.op("Abs", gated)))
    return made.finish(made.op("SquareError", target, made.op("Plus", decayed, scaled), name="se"), gated)


def shared(dtype: Any) -> Sample:
    """A parameter that stands in two products, another in three sums."""
    made = Sketch(dtype)
    x, weights, bias = made.input("x", 5), made.parameter("W", 5, 5), made.parameter("b", 5)
    first = made.op("Sigmoid", made.op("Plus", made.op("Times", weights, x), bias))
    second = made.op("Tanh", made.op("Plus", made.op("Times", weights, first), bias), name="second")
    return made.finish(made.op("SquareError", x, made.op("Plus", second, bias), name="se"), second)


def multipliers(dtype: Any) -> Sample:
    """Parameters with learning-rate multipliers 0, 0.5 and 2."""
    made = Sketch(dtype)
    x, target = made.input("x", 4), made.input("target", 4)
    value = x
    for index, multiplier in enumerate((0.5, 0.0, 2.0)):
        weights = made.parameter(f"W{index}", 4, 4, multiplier=multiplier)
        value = made.op("Tanh", made.op("Times", weights, value))
    return made.finish(made.op("SquareError", target, value, name="se"), value)


def reductions(dtype: Any) -> Sample:
    """Sums, means and log sums over axes, and sums over everything."""
    made = Sketch(dtype)
    x = made.op("Plus", made.input("x", 2, 3), made.parameter("b", 2, 3))
    kinds = (("Sum", 1), ("Mean", 2), ("LogSum", 0), ("Max", 1))
    pieces = [made.op("ReduceElements", x, attributes=ReduceAttributes(kind, axis)) for kind, axis in kinds]
    total = made.op("SumElements", made.op("ElementTimes", pieces[0], pieces[1]), name="total")
    rest = made.op("SumElements", made.op("ElementTimes", pieces[2], pieces[3]))
    return made.finish(made.op("Plus", total, rest, name="both"), *pieces, total)


def softmaxes(dtype: Any) -> Sample:
    """Softmax and its logarithm outside a criterion, and a logistic criterion."""
    made = Sketch(dtype)
    x, labels = made.input("x", 4), made.input("labels", 4)
    z = made.dense(x, (4, 4), 0)
    chances, logs = made.op("Softmax", z), made.op("LogSoftmax", z)
    entropy = made.op("Negate", made.op("SumElements", made.op("ElementTimes", chances, logs)), name="entropy")
    logistic = made.op("Logistic", labels, made.op("Sigmoid", z), name="logistic")
    return made.finish(made.op("Plus", entropy, logistic, name="sum"), chances, logs, one_hot={"labels"})


def dropout(dtype: Any) -> Sample:
    """Two dropout nodes, which draw different numbers."""
    made = Sketch(dtype)
    x, target = made.input("x", 6), made.input("target", 3)
    hidden = made.op("Dropout", made.op("Sigmoid", made.dense(x, (6, 8), 0)), name="d0")
    z = made.op("Dropout", made.dense(hidden, (8, 3), 1), name="d1")
    return made.finish(made.op("SquareError", target, z, name="se"), hidden, settings={"dropoutRate": 0.4})


def own_rates(dtype: Any) -> Sample:
    """Dropout nodes with rates of their own and of the run, with and without seeds; a seeded random value."""
    made = Sketch(dtype)
    x, target = made.input("x", 6), made.input("target", 4)
    value = made.dense(x, (6, 4), 0)
    for rate, seed in ((0.25, -1), (-1.0, 4), (0.5, 4), (0.0, 1)):
        dropped = made.op("Dropout", made.op("Tanh", value), attributes=DropoutAttributes(rate, seed))
        value = made.op("Plus", value, dropped)
    noise = made.op("RandomDistribution", value, attributes=RandomDistributionAttributes("normal", seed=11))
    return made.finish(
        made.op("SquareError", target, made.op("Plus", value, noise), name="se"),
        value,
        settings={"dropoutRate": 0.4},
    )


def slices(dtype: Any) -> Sample:
    """Parts of a value that go different ways and come together again."""
    made = Sketch(dtype)
    x, target = made.input("x", 6), made.input("target", 5)
    z = made.dense(x, (6, 6), 0)
    head = made.op("Slice", z, attributes=SliceAttributes(0, 4))
    tail = made.op("Slice", z, attributes=SliceAttributes(3, 6))
    both = made.op("RowStack", made.op("Tanh", head), made.op("Slice", tail, attributes=SliceAttributes(1, 2)))
    return made.finish(made.op("SquareError", target, both, name="se"), both, tail)


def by_frame(dtype: Any) -> Sample:
    """A criterion with a number for each frame, which counts as their sum."""
    made = Sketch(dtype)
    x, target = made.input("x", 4), made.input("target", 3)
    alike = made.op("CosDistance", target, made.dense(x, (4, 3), 0), name="alike")
    return made.finish(made.op("Minus", made.parameter("highest", 1), alike, name="far"), alike)


SAMPLES: Mapping[str, Callable[[Any], Sample]] = {
    made.__name__: made
    for made in (
        classifier,
        rectified,
        chain,
        shared,
        multipliers,
        reductions,
        softmaxes,
        dropout,
        own_rates,
        slices,
        by_frame,
    )
}
"""Name to function that makes the network in a precision."""
