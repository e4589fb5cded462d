"""Functions of the original that become more than one node, or need more than their attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np

from cntk_core.api import Network, Node, Parameter
from cntk_model_cntk2.attributes import READERS, attributes_of, axes_of, strides_of
from cntk_model_cntk2.axes import EVERYTHING, WHOLE_SAMPLE, reduced_axis
from cntk_model_cntk2.records import Function

_MOST_NEGATIVES = 2**20
_MOST_TURNED = 2**10


class Importer(Protocol):
    """What a part needs of the importer."""

    network: Network
    scalars: set[Node]

    def add(self, name: str, op_name: str, inputs: list[Node], attributes: Any = None) -> Node:
        """Add a node."""

    def constant(self, uid: str) -> float | None:
        """Return the number that a variable always is, None if it is anything else."""


@attrs.frozen
class Part:
    """A function that is being made: of what importer, and with what inputs in our order."""

    importer: Importer
    function: Function
    inputs: list[Node]

    def add(self, op_name: str, inputs: list[Node], attributes: Any = None, suffix: str = "") -> Node:
        """Add one of its nodes."""
        return self.importer.add(f"{self.function.uid}{suffix}", op_name, inputs, attributes)


def _reduce(part: Part) -> list[Node]:
    """Over several axes, one reduction after the other; the last axis first, so that numbers stay what they are."""
    entry, made = part.function.attributes, attributes_of("ReduceElements")
    operation = entry.take("reductionOpName", str)
    keeps = entry.take("reductionKeepDimensions", bool, True)
    axes = axes_of(entry) if "axis" in entry or "axisVec" in entry else []
    numbers = sorted({reduced_axis(axis, part.inputs[0], entry.place) for axis in axes} or {WHOLE_SAMPLE}, reverse=True)
    node = part.inputs[0]
    for index, number in enumerate(numbers):
        suffix = "" if index == len(numbers) - 1 else f".{index + 1}"
        node = part.add("ReduceElements", [node], made(operation, number, keeps), suffix)
    static = [number for number in numbers if number > 0]
    gone = numbers[-1] in (WHOLE_SAMPLE, EVERYTHING) or len(static) == len(part.inputs[0].shape or ())
    if gone and not keeps:
        part.importer.scalars.add(node)
    return [node]


def _reshape(part: Part) -> list[Node]:
    """A single number has no axes in the original, and one here: the new axes take its place."""
    attributes = READERS["Reshape"](part.function.attributes, part.inputs)
    if part.inputs[0] in part.importer.scalars:
        attributes = attrs.evolve(attributes, begin_axis=1, end_axis=0)
    return [part.add("Reshape", part.inputs, attributes)]


def _slice(part: Part) -> list[Node]:
    entry, strides = part.function.attributes, strides_of(part.function.attributes)
    attributes = READERS["Slice"](entry, part.inputs)
    if all(stride == 1 for stride in strides):
        return [part.add("Slice", part.inputs, attributes)]
    if len(strides) != len(attributes.axis) or 0 in strides:
        entry.fail("has steps that make no sense")
    node = part.add("Slice", part.inputs, attributes, ".all")
    for axis, stride in zip(attributes.axis, strides, strict=True):
        node = _each(part, node, axis, stride)
    return [part.add("Pass", [node])]


def _each(part: Part, node: Node, axis: int, stride: int) -> Node:
    """Every so-manieth element: the first of each row, when the axis is folded into rows; from the end if negative."""
    if stride == 1:
        return node
    if stride < 0:
        return _each(part, _turned(part, node, axis), axis, -stride)
    shape = node.known_shape
    size = shape[-axis]
    rows = -(-size // stride)
    foot = [0] * len(shape)
    foot[axis - 1] = rows * stride - size
    padded = part.add("Pad", [node], attributes_of("Pad")((0,) * len(shape), tuple(foot)), f".padded{axis}")
    reshape, slice_ = attributes_of("Reshape"), attributes_of("Slice")
    folded = part.add("Reshape", [padded], reshape((stride, rows), axis, axis + 1), f".folded{axis}")
    first = part.add("Slice", [folded], slice_((0,), (1,), (axis,)), f".first{axis}")
    return part.add("Reshape", [first], reshape((rows,), axis, axis + 2), f".steps{axis}")


def _turned(part: Part, node: Node, axis: int) -> Node:
    """The elements of an axis from the last to the first."""
    size, slice_ = node.known_shape[-axis], attributes_of("Slice")
    if not 0 < size <= _MOST_TURNED:
        part.function.attributes.fail(f"turns round {size} elements; up to {_MOST_TURNED} can be read")
    if size == 1:
        return node
    elements = [
        part.add("Slice", [node], slice_((index,), (index + 1,), (axis,)), f".element{axis}.{index}")
        for index in reversed(range(size))
    ]
    return part.add("RowStack", elements, attributes_of("RowStack")(axis), f".turned{axis}")


def _unpack(part: Part) -> list[Node]:
    """The values, and which of them there are: a sequence of ones, unpacked."""
    attributes = READERS["UnpackSequence"](part.function.attributes, part.inputs)
    value = part.add("UnpackSequence", part.inputs, attributes)
    if attributes.suppress_mask_output:
        return [value]
    one = np.ones((), getattr(part.inputs[0].value, "dtype", np.float32))
    ones = part.importer.add(f"{part.function.uid}.ones", "ReconcileDynamicAxis", [_number(part, one), part.inputs[0]])
    return [value, part.add("UnpackSequence", [ones], attributes_of("UnpackSequence")(0.0, True), ".mask")]


def _number(part: Part, value: Any) -> Node:
    network = part.importer.network
    name = f"{part.function.uid}.one"
    made: Node = network.add(
        Parameter.make(name, value.shape, value=value.astype(network.dtype), learning_rate_multiplier=0.0)
    )
    return made


def _top(part: Part) -> list[Node]:
    values = READERS["TopK"](part.function.attributes, part.inputs)
    places = attrs.evolve(values, output="indices")
    return [part.add("TopK", part.inputs, values), part.add("TopK", part.inputs, places, ".indices")]


def _negatives(part: Part) -> list[Node]:
    """The shift and the number of negative samples are constants in the original and settings here."""
    entry, numbers = part.function.attributes, []
    for uid in part.function.inputs[2:]:
        number = part.importer.constant(uid)
        if number is None or not 0 <= number <= _MOST_NEGATIVES:
            entry.fail("needs numbers for its shift and its negative samples")
        numbers.append(int(number))
    if len(numbers) != 2:
        entry.fail(f"has {len(part.function.inputs)} inputs")
    name = "CosDistanceWithNegativeSamples"
    return [part.add(name, part.inputs[:2], attributes_of(name)(*numbers))]


def _frequency(part: Part) -> list[Node]:
    """How often each class is drawn: a vector here, in the original of the shape of the weights."""
    name, weights = "RandomSampleInclusionFrequency", part.inputs[0]
    node = part.add(name, part.inputs, READERS[name](part.function.attributes, part.inputs), ".drawn")
    return [part.add("Reshape", [node], attributes_of("Reshape")(weights.known_shape[::-1]))]


def _eye(part: Part) -> list[Node]:
    """Of vectors, the matrix has a column for each sample of the minibatch."""
    (value,) = part.inputs
    if value.shape is None or len(value.shape) != 1:
        return [part.add("EyeLikeOp", [value])]
    matrix = part.add("EyeLikeOp", [part.add("UnpackBatch", [value], suffix=".all")], suffix=".matrix")
    return [part.add("ToBatch", [matrix])]


PARTS: dict[str, Callable[[Part], list[Node]]] = {
    "ReduceElements": _reduce,
    "Reshape": _reshape,
    "Slice": _slice,
    "UnpackSequence": _unpack,
    "TopK": _top,
    "EyeLikeOp": _eye,
    "RandomSampleInclusionFrequency": _frequency,
    "CosDistanceWithNegativeSamples": _negatives,
}
"""By our op."""
