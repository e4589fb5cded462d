"""OutputMultiplexer: one output of an op that has several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.op import LATER, Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements
from cntk_core.ops.language.traits import BY_ROWS


@attrs.frozen
class MultiplexerAttributes:
    """Attributes of OutputMultiplexer.

    Attributes:
        output_index: which output of its input it is, from 0.
        begin, end: where that lies in the vector of all outputs; worked out with the shapes. The end is 0 for an input
            that has one output, which is then all of it.
        dims: the shape of the output in the vector, in memory order.
    """

    output_index: int = 0
    begin: int = attrs.field(default=0, metadata=LATER)
    end: int = attrs.field(default=0, metadata=LATER)
    dims: tuple[int, ...] = attrs.field(default=(), metadata=LATER)


def _infer(shapes: Sequence[Shape], attributes: MultiplexerAttributes) -> Shape:
    return (*shapes[0][:-1], *attributes.dims) if attributes.end else shapes[0]


def _part(shape: Shape, attributes: MultiplexerAttributes) -> Mapping[int, tuple[int, int]]:
    if not attributes.end:
        return {0: (0, shape[0])} if shape else {}
    return {len(shape) - 1: (attributes.begin, attributes.end)}


def _gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: MultiplexerAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array]:
    if not attributes.end:
        return (gradient,)
    *lead, total = inputs[0].shape
    sizes = attributes.begin, total - attributes.end
    before, after = (xp.zeros((*lead, size), dtype=gradient.dtype) for size in sizes)
    own = gradient.reshape((*lead, elements(attributes.dims)))
    return (xp.concatenate([before, own, after], axis=-1),)


@define_op(
    "OutputMultiplexer",
    infer=_infer,
    gradient=_gradient,
    attributes=MultiplexerAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=attrs.evolve(BY_ROWS, part=_part),
)
def OUTPUT_MULTIPLEXER(
    xp: Any, inputs: Sequence[Array], attributes: MultiplexerAttributes, context: OpContext
) -> Array:
    """One output of an operation that has several, by its number."""
    value = inputs[0]
    if not attributes.end:
        return value
    return value[..., attributes.begin : attributes.end].reshape((*value.shape[:-1], *attributes.dims))


OPS = (OUTPUT_MULTIPLEXER,)
