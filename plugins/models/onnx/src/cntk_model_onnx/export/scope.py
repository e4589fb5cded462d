"""What operations need to be written: values of nodes as tensors, and the ways to bring them into shape.

A tensor has first leading axes, then those of a sample in memory order. Without a dynamic axis there are none of the
former; with samples there is one, ``(N, *shape)``; with sequences there are two, ``(N, T, *shape)``, and what stands
beyond the length of a sequence means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node, Shape, elements
from cntk_model_onnx.export.graph import END, TYPES, GraphWriter, Refused
from cntk_model_onnx.sizes import are_free


@attrs.frozen
class Value:
    """The value of a node as a tensor.

    Attributes:
        name: of the tensor.
        shape: of a sample.
        lead: how many leading axes there are.
        axis: the dynamic axis of the network.
        index: the tensor holds the number of the element that is 1, and the sample is one-hot.
    """

    name: str
    shape: Shape
    lead: int = 0
    axis: str = ""
    index: bool = False


@attrs.define
class Frames:
    """A dynamic axis in the graph.

    Attributes:
        lead: 1 for samples, 2 for sequences.
        like: a tensor with the leading axes.
        lengths: the tensor of the sequences' lengths, ``(N,)`` of 64-bit numbers; empty until somebody asks.
        mask: the tensor that tells which frames there are, ``(N, T)``; empty until somebody asks.
    """

    lead: int
    like: str
    lengths: str = ""
    mask: str = ""


def plain(shape: Shape) -> list[int]:
    """Return a sample shape for Reshape: one open dimension is what is left.

    Raises:
        Refused: there are several.
    """
    found = [-1 if are_free([dim]) else int(dim) for dim in shape]
    if found.count(-1) > 1:
        raise Refused("several of its dimensions are known only with the data", "Give the inputs fixed dimensions.")
    return found


class Scope:
    """Where nodes are written: the graph, or the body of a loop.

    Attributes:
        graph: takes them.
        axes: the dynamic axes by name.
        outer: where the loop stands whose body this is, in which all values of its axis are ``(N, *shape)``.
    """

    def __init__(self, graph: GraphWriter, axes: dict[str, Frames], outer: Scope | None = None) -> None:
        self.graph = graph
        self.axes = axes
        self.outer = outer

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the network's numbers."""
        return self.graph.store.dtype

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result, and return its name."""
        return self.graph.op(kind, *inputs, **attributes)

    def ints(self, *values: int) -> str:
        """Return a constant of whole numbers."""
        return self.graph.store.constant(values)

    def number(self, value: float) -> str:
        """Return a constant number of the network's precision."""
        return self.graph.store.constant(value, self.dtype)

    def numbers(self, values: Any) -> str:
        """Return a constant array of the network's precision."""
        return self.graph.store.constant(values, self.dtype)

    def to_numbers(self, name: str) -> str:
        """Turn truth values or whole numbers into numbers of the network's precision."""
        return self.op("Cast", name, to=TYPES[self.dtype])

    def lead_of(self, node: Node) -> int:
        """How many leading axes the value of a node has."""
        if not node.framed:
            return 0
        return 1 if self.outer else self.axes[node.axis].lead

    # -- shapes -------------------------------------------------------------------------------------------

    def reshape(self, name: str, lead: int, shape: Sequence[int]) -> str:
        """Give samples another shape; the leading axes stay."""
        return self.op("Reshape", name, self.ints(*[0] * lead, *shape))

    def flat(self, value: Value) -> str:
        """Return samples as vectors."""
        if len(value.shape) == 1:
            return value.name
        return self.reshape(value.name, value.lead, [-1])

    def at_lead(self, value: Value, lead: int) -> Value:
        """Return a value for a result with so many leading axes: sequences of one frame are samples."""
        if value.lead == 2 and lead == 1:
            return attrs.evolve(value, name=self.op("Squeeze", value.name, self.ints(1)), lead=1)
        return value

    def aligned(self, value: Value, rank: int, lead: int) -> str:
        """Return a tensor that is combined element by element with samples of a rank."""
        value = self.at_lead(value, lead)
        missing = rank - len(value.shape)
        if not value.lead or missing <= 0:
            return value.name
        return self.op("Unsqueeze", value.name, self.ints(*range(value.lead, value.lead + missing)))

    def merged(self, value: Value) -> str:
        """Return samples with one leading axis, whatever they had."""
        if value.lead == 1:
            return value.name
        if value.lead == 0:
            return self.op("Unsqueeze", value.name, self.ints(0))
        return self.op("Reshape", value.name, self.ints(-1, *plain(value.shape)))

    def unmerged(self, name: str, like: Value, shape: Shape) -> str:
        """Return samples of a shape with the leading axes of a value, of whose samples they were made."""
        if like.lead == 1:
            return name
        if like.lead == 0:
            return self.op("Squeeze", name, self.ints(0))
        return self.op("Reshape", name, self.op("Concat", self.lead_sizes(like), self.ints(*plain(shape)), axis=0))

    def lead_sizes(self, value: Value) -> str:
        """Return the sizes of the leading axes of a value."""
        return self.op("Shape", value.name, start=0, end=value.lead)

    def expanded(self, value: Value, shape: Sequence[int], like: Value) -> str:
        """Repeat samples to a shape and the leading axes of another value.

        Raises:
            Refused: a dimension is open.
        """
        if are_free(shape):
            raise Refused("it repeats values along a dimension that is known only with the data")
        name = self.aligned(value, len(shape), like.lead)
        if value.lead == 1 and like.lead == 2:
            name = self.op("Unsqueeze", name, self.ints(1))
        sizes = self.ints(*shape)
        return self.op("Expand", name, self.op("Concat", self.lead_sizes(like), sizes, axis=0) if like.lead else sizes)

    def repeated(self, value: Value, like: Value) -> str:
        """Repeat samples for the leading axes of another value."""
        name = self.op("Unsqueeze", value.name, self.ints(1)) if value.lead == 1 and like.lead == 2 else value.name
        own = self.op("Shape", value.name, start=value.lead)
        return self.op("Expand", name, self.op("Concat", self.lead_sizes(like), own, axis=0))

    def sliced(self, name: str, axis: int, begin: int, end: int = END) -> str:
        """Return a range of an axis, which may count from the end."""
        return self.op("Slice", name, self.ints(begin), self.ints(end), self.ints(axis))

    # -- sequences ----------------------------------------------------------------------------------------

    def lengths(self, axis: str) -> str:
        """Return the lengths of the sequences of an axis, ``(N,)``."""
        frames = self.axes[axis]
        if not frames.lengths:  # of an input: the exporter gave a name to what was wanted
            raise Refused("its sequences have no lengths")
        return frames.lengths

    def mask(self, axis: str) -> str:
        """Return which frames of an axis there are, ``(N, T)``."""
        if self.outer:
            return self.outer.mask(axis)
        frames = self.axes[axis]
        if not frames.mask:
            lengths = self.op("Unsqueeze", self.lengths(axis), self.ints(1))
            frames.mask = self.op("Less", self.places(axis), lengths)
        return frames.mask

    def places(self, axis: str) -> str:
        """Return 0, 1, ... for the frames of an axis, ``(T,)``."""
        if self.outer:
            return self.outer.places(axis)
        count = self.op("Squeeze", self.op("Shape", self.axes[axis].like, start=1, end=2))
        zero, one = (self.graph.store.constant(number) for number in (0, 1))
        return self.op("Range", zero, count, one)

    def where_there(self, value: Value, fill: float) -> str:
        """Return sequences with a number in the place of what is beyond their ends."""
        mask = self.op("Unsqueeze", self.mask(value.axis), self.ints(*range(2, 2 + len(value.shape))))
        return self.op("Where", mask, value.name, self.number(fill))


def size_of(shape: Shape) -> int:
    """Return how many elements a sample has.

    Raises:
        Refused: that is known only with the data.
    """
    if are_free(shape):
        raise Refused("its dimensions are known only with the data", "Give the inputs fixed dimensions.")
    return elements(shape)
