"""What derivatives of attention are made of, so that these are networks again.

Weights w of memory M and frames F: sums are ``w M``. With ``F M'`` (AttentionProducts) and ``w' F`` (AttentionMemory)
each of the three is what goes back through the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.attention import ATTENTION_SUM, TRAITS, WeightsAttributes, infer_products, products
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show


@attrs.frozen
class ProductsAttributes:
    """Attributes of AttentionProducts.

    Attributes:
        heads: as of AttentionWeights.
    """

    heads: int = 1


def _infer_products(shapes: Sequence[Shape], attributes: ProductsAttributes) -> Shape:
    return infer_products(shapes, WeightsAttributes(attributes.heads))


def _pair(context: OpContext, first: int, second: int) -> OpContext:
    """The context of an op on two of the inputs."""
    layouts = tuple(context.layouts[index] for index in (first, second)) if context.layouts else ()
    return attrs.evolve(context, framed=(context.framed[first], context.framed[second]), layouts=layouts)


def _products_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ProductsAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    assert ATTENTION_SUM.gradient is not None
    assert ATTENTION_SUM.forward is not None
    memory, frames = inputs
    to_memory = to_frames = None
    if needs[0]:
        pair = [memory, gradient]
        to_memory = ATTENTION_SUM.gradient(xp, frames, None, pair, None, context, (True, False))[0]
    if needs[1]:
        to_frames = ATTENTION_SUM.forward(xp, [memory, gradient], None, context).reshape(frames.shape)
    return to_memory, to_frames


@define_op(
    "AttentionProducts",
    inputs=2,
    infer=_infer_products,
    gradient=_products_gradient,
    attributes=ProductsAttributes,
    axis_of=1,
    whole=frozenset({0}),
    reads_output=False,
    traits=TRAITS,
)
def ATTENTION_PRODUCTS(xp: Any, inputs: Sequence[Array], attributes: ProductsAttributes, context: OpContext) -> Array:
    """The product of each frame with each step of a memory; inputs: memory, frames."""
    return products(inputs, WeightsAttributes(attributes.heads), context)


def _infer_memory(shapes: Sequence[Shape], attributes: Any) -> Shape:
    memory, weights, frames = shapes
    found = ATTENTION_SUM.infer([memory, weights], attributes)
    if elements(found) != elements(frames):
        raise ShapeError(f"a step of the memory {show(memory)} is {show(found)}, a frame {show(frames)}")
    return memory


def _memory_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    assert ATTENTION_SUM.gradient is not None
    assert ATTENTION_SUM.forward is not None
    _, weights, frames = inputs
    own, pair = _pair(context, 0, 1), [gradient, weights]
    to_weights = to_frames = None
    if needs[1]:
        to_weights = ATTENTION_SUM.gradient(xp, frames, None, pair, None, own, (False, True))[1]
    if needs[2]:
        to_frames = ATTENTION_SUM.forward(xp, pair, None, own).reshape(frames.shape)
    return None, to_weights, to_frames


@define_op(
    "AttentionMemory",
    inputs=3,
    infer=_infer_memory,
    gradient=_memory_gradient,
    differentiable=(False, True, True),
    axis_of=0,
    reads_output=False,
    traits=TRAITS,
)
def ATTENTION_MEMORY(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The sum of the frames for each step of a memory, with weights; inputs: memory, weights, frames."""
    assert ATTENTION_SUM.gradient is not None
    own = _pair(context, 0, 1)
    return ATTENTION_SUM.gradient(xp, inputs[2], None, inputs[:2], None, own, (True, False))[0]


OPS = (ATTENTION_PRODUCTS, ATTENTION_MEMORY)
