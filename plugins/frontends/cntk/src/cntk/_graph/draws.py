"""Random numbers in the order in which the original draws them on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from cntk_model_cntk2.values import SizeT
from numpy.typing import NDArray

from cntk._graph.primitive import Primitive
from cntk_core.api import Node, Parameter, SequenceLayout
from cntk_core.api.builders import RandomStream, UserFunction, infer_node, op_of

if TYPE_CHECKING:
    from cntk._graph.lower import Maker

OFFSET = "rngOffset"
"""How many words of its stream a function has taken: an attribute, which files keep."""


def draw_as_there(maker: Maker, primitive: Primitive, node: Node) -> None:
    """Let a node of random numbers go on in the stream of its function from one evaluation to the next."""
    if node.inputs:
        kind = _drawer(primitive, None)
    else:
        infer_node(node)
        kind = _drawer(primitive, node.known_shape)
        nothing = Parameter.make(f"{primitive.uid}.none", (1,), value=np.zeros(1, maker.network.dtype),
                                 learning_rate_multiplier=0.0)  # fmt: skip
        node.inputs.append(maker.network.add(nothing))
    node.op, node.attributes = op_of(kind), kind()


def _drawer(primitive: Primitive, shape: tuple[int, ...] | None) -> type[UserFunction]:
    """Return the class of a function that draws; its shape is given, or that of its input."""

    class _Drawn(UserFunction):
        def infer_outputs(self, *shapes: Any) -> Any:
            return shapes[0] if shape is None else shape

        def forward(self, context: Any, like: Any) -> Any:
            return _draw(primitive, like.shape if shape is None else shape)

    _Drawn.__name__ = _Drawn.__qualname__ = primitive.uid
    return _Drawn


def drop_as_there(primitive: Primitive, node: Node) -> None:
    """Let a dropout in training leave out what the original leaves out, minibatch after minibatch."""

    class _Dropped(UserFunction):
        def infer_outputs(self, *shapes: Any) -> Any:
            return shapes[0]

        def forward(self, context: Any, value: Any) -> Any:
            rate = float(primitive.attributes["dropoutRate"])
            context.saved["mask"] = mask = _kept(primitive, context, value, rate) if context.training and rate else None
            return value if mask is None else value * mask

        def backward(self, context: Any, gradient: Any) -> Any:
            mask = context.saved["mask"]
            return gradient if mask is None else gradient * mask

    _Dropped.__name__ = _Dropped.__qualname__ = primitive.uid
    node.op, node.attributes = op_of(_Dropped), _Dropped()


def _kept(primitive: Primitive, context: Any, value: Any, rate: float) -> Any:
    """Return 0 for what is left out and 1 / (1 - rate) for the rest.

    Sequences lie side by side in the original, short ones one behind the other, and numbers are drawn for gaps, too.
    """
    stream = stream_of(primitive)
    layout = context.layout
    if layout is None or value.shape[0] != layout.frames or (layout.lengths == 1).all():
        drawn = stream.uniform(value.size, value.dtype, 0.0, 1.0).reshape(value.shape)
    else:
        rows, first, width = _places(layout)
        grid = stream.uniform(layout.steps * width * value[0].size, value.dtype, 0.0, 1.0)
        steps = np.repeat(np.arange(layout.steps), layout.alive)
        slots = np.arange(layout.frames) - layout.start[steps]
        drawn = grid.reshape(layout.steps, width, *value.shape[1:])[first[slots] + steps, rows[slots]]
    primitive.attributes[OFFSET] = SizeT(stream.used)
    return (drawn > value.dtype.type(rate)).astype(value.dtype) / value.dtype.type(1.0 - rate)


def _places(layout: SequenceLayout) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return for each slot its sequence's row and first step in the original's minibatch, and how many rows there are.

    A sequence goes into the first row that has room, in the order in which they were given.
    """
    used: list[int] = []
    rows, first = np.zeros_like(layout.lengths), np.zeros_like(layout.lengths)
    for slot in np.argsort(layout.order, kind="stable").tolist():
        length = int(layout.lengths[slot])
        row = next((row for row, end in enumerate(used) if end + length <= layout.steps), len(used))
        if row == len(used):
            used.append(0)
        rows[slot], first[slot] = row, used[row]
        used[row] += length
    return rows, first, len(used)


def stream_of(primitive: Primitive) -> RandomStream:
    """Return the stream of a function, where it has come to."""
    attributes = primitive.attributes
    place = attributes["rngSeed"], attributes.get(OFFSET, 0)
    kept = primitive.programs.get(OFFSET)
    stream = kept if kept is not None and (kept.seed, kept.used) == place else RandomStream(*map(int, place))
    primitive.programs[OFFSET] = stream
    return stream


def _draw(primitive: Primitive, shape: tuple[int, ...]) -> Any:
    """Return the next numbers of a function."""
    attributes = primitive.attributes
    stream = stream_of(primitive)
    dtype = np.dtype(primitive.outputs[0]._dtype or np.float32)
    kind, arguments = (
        attributes["randomDistributionType"],
        [float(each) for each in attributes["randomDistributionArgs"]],
    )
    count = int(np.prod(shape))
    if kind == "normal":
        found = stream.normal(count, dtype, *arguments)
    elif kind == "uniform":
        found = stream.uniform(count, dtype, *arguments)
    else:
        found = stream.uniform(count, dtype, 0.0, 1.0)
        if kind == "bernoulli":
            found = (found > dtype.type(1 - arguments[0])).astype(dtype)
        else:
            found = dtype.type(arguments[0]) - dtype.type(arguments[1]) * np.log(-np.log1p(-found))
    attributes[OFFSET] = SizeT(stream.used)
    return found.reshape(shape)
