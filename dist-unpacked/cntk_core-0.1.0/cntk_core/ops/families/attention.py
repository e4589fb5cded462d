"""Attention over whole sequences of any length: AttentionWeights, AdditiveAttentionWeights, AttentionSum.

Bahdanau, Cho and Bengio, ICLR 2015 (additive); Luong, Pham and Manning, EMNLP 2015 (products); Vaswani et al.,
"Attention is all you need", NIPS 2017 (heads, scale). Memories are those of :mod:`cntk_core.ops.families.memories`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import ShapeError
from cntk_core.ops.families.memories import Blocks, blocks_of, memory_of, remembered
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import flat_rows
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import Traits

ABSENT = -1e30
"""The score of a step that is not looked at: its weight becomes 0. Where all are absent, the weights are equal."""

TRAITS = Traits(keeps_nothing=True, summed_at_end=True)


def _flat(value: Array) -> Array:
    """``(blocks, n, ...)`` as ``(blocks, n, size)``."""
    return value.reshape(*value.shape[:2], elements(value.shape[2:]))


def _heads(value: Array, heads: int) -> Array:
    """``(blocks, n, heads * size)`` as ``(blocks, heads, n, size)``."""
    return value.reshape(*value.shape[:2], heads, value.shape[2] // heads).swapaxes(1, 2)


def _together(value: Array) -> Array:
    """``(blocks, heads, n, size)`` as ``(blocks, n, heads * size)``: the inverse of :func:`_heads`."""
    blocks, heads, count, size = value.shape
    return value.swapaxes(1, 2).reshape(blocks, count, heads * size)


@attrs.frozen
class WeightsAttributes:
    """Attributes of AttentionWeights.

    Attributes:
        heads: in so many equal parts memory and frames are compared, each by itself; the weights get an axis for them.
        scale: the products are multiplied by it.
        causal: a frame does not look at later steps than its own.
    """

    heads: int = 1
    scale: float = 1.0
    causal: bool = False


@attrs.frozen
class AdditiveAttributes:
    """Attributes of AdditiveAttentionWeights.

    Attributes:
        causal: a frame does not look at later steps than its own.
    """

    causal: bool = False


def _steps_and_size(memory: Shape) -> tuple[int, int]:
    if not memory:
        raise ShapeError(f"the memory {show(memory)} has no axis for its steps")
    return memory[0], elements(memory[1:])


def _check_there(shapes: Sequence[Shape], index: int, steps: int) -> None:
    if len(shapes) > index and elements(shapes[index]) != steps:
        raise ShapeError(f"{show(shapes[index])} does not say of each of the {steps} steps whether it is there")


def infer_products(shapes: Sequence[Shape], attributes: WeightsAttributes) -> Shape:
    """Return the shape of the products of a frame with the steps of a memory.

    Raises:
        ShapeError: they cannot be multiplied.
    """
    steps, size = _steps_and_size(shapes[0])
    if size != elements(shapes[1]):
        raise ShapeError(f"a step of the memory {show(shapes[0])} has {size} elements, a frame {elements(shapes[1])}")
    if attributes.heads < 1 or size % attributes.heads:
        raise ShapeError(f"{size} elements cannot be parted among {attributes.heads} heads")
    _check_there(shapes, 2, steps)
    return (steps,) if attributes.heads == 1 else (attributes.heads, steps)


def _softmax(scores: Array, blocks: Blocks, there: Array | None, *, causal: bool) -> Array:
    """Weights ``(blocks, heads, places, steps)`` of scores, which are overwritten."""
    if there is not None:
        scores[np.broadcast_to(there.reshape(len(there), 1, 1, scores.shape[-1]) == 0, scores.shape)] = ABSENT
    if causal:
        later = np.arange(scores.shape[-1]) > blocks.of(blocks.step)[:, None, :, None]
        scores[np.broadcast_to(later, scores.shape)] = ABSENT
    scores -= np.max(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.sum(scores, axis=-1, keepdims=True)
    return scores


def _to_scores(weights: Array, gradient: Array) -> Array:
    """The gradient of scores from that of their softmax."""
    return weights * (gradient - np.sum(weights * gradient, axis=-1, keepdims=True))


def _by_heads(rows: Array, blocks: Blocks) -> Array:
    """Weights or their gradient ``(frames, [heads,] steps)`` as ``(blocks, heads, places, steps)``."""
    return blocks.of(rows.reshape(len(rows), elements(rows.shape[1:-1]), rows.shape[-1])).swapaxes(1, 2)


def _by_frame(weights: Array, blocks: Blocks) -> Array:
    """The inverse of :func:`_by_heads`; without an axis of heads if there is one."""
    found = blocks.rows(weights.swapaxes(1, 2))
    return found[:, 0] if found.shape[1] == 1 else found


def _there(context: OpContext, inputs: Sequence[Array], index: int, blocks: Blocks) -> Array | None:
    return memory_of(context, index, inputs[index], blocks) if len(inputs) > index else None


def _compared(
    inputs: Sequence[Array], attributes: WeightsAttributes, context: OpContext
) -> tuple[Blocks, Array, Array]:
    """Memory ``(blocks, heads, steps, size)`` and frames ``(blocks, heads, places, size)``."""
    memories = [index for index in (0, 2) if index < len(inputs)]
    blocks = blocks_of(context, len(inputs[1]), memories)
    memory = _flat(memory_of(context, 0, inputs[0], blocks))
    return blocks, _heads(memory, attributes.heads), _heads(blocks.of(flat_rows(inputs[1])), attributes.heads)


def products(inputs: Sequence[Array], attributes: WeightsAttributes, context: OpContext) -> Array:
    """Return the product of each frame with each step of its memory; inputs: memory, frames."""
    blocks, memory, frames = _compared(inputs, attributes, context)
    return _by_frame(frames @ memory.swapaxes(2, 3), blocks)


def _weights_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: WeightsAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    blocks, memory, frames = _compared(inputs, attributes, context)
    by_scores = _to_scores(_by_heads(output, blocks), _by_heads(gradient, blocks)) * output.dtype.type(attributes.scale)
    found: list[Array | None] = [None] * len(inputs)
    if needs[0]:
        found[0] = remembered(context, 0, inputs[0], blocks, _together(by_scores.swapaxes(2, 3) @ frames))
    if needs[1]:
        found[1] = blocks.rows(_together(by_scores @ memory)).reshape(inputs[1].shape)
    return found


@define_op(
    "AttentionWeights",
    inputs=(2, 3),
    infer=infer_products,
    gradient=_weights_gradient,
    attributes=WeightsAttributes,
    differentiable=(True, True, False),
    axis_of=1,
    whole=frozenset({0, 2}),
    traits=TRAITS,
)
def ATTENTION_WEIGHTS(xp: Any, inputs: Sequence[Array], attributes: WeightsAttributes, context: OpContext) -> Array:
    """How much each frame looks at each step of a memory, by products; inputs: memory, frames [, which are there]."""
    blocks, memory, frames = _compared(inputs, attributes, context)
    scores = frames @ memory.swapaxes(2, 3)
    scores *= scores.dtype.type(attributes.scale)
    there = _there(context, inputs, 2, blocks)
    return _by_frame(_softmax(scores, blocks, there, causal=attributes.causal), blocks)


def _infer_additive(shapes: Sequence[Shape], attributes: AdditiveAttributes) -> Shape:
    steps, size = _steps_and_size(shapes[0])
    if not size == elements(shapes[1]) == elements(shapes[2]):
        others = " and ".join(show(shape) for shape in shapes[1:3])
        raise ShapeError(f"a step of the memory {show(shapes[0])} has {size} elements, unlike {others}")
    _check_there(shapes, 3, steps)
    return (steps,)


def _complete_additive(shapes: Sequence[Shape], attributes: AdditiveAttributes) -> Sequence[Shape]:
    """The vector has as many elements as a frame."""
    vector = tuple(dim or elements(shapes[1]) for dim in shapes[2])
    return [shapes[0], shapes[1], vector, *shapes[3:]]


def _sums(memory: Array, frames: Array, blocks: Blocks) -> Iterator[tuple[slice, Array]]:
    """``tanh(memory + frame)`` for all pairs, ``(some blocks, places, steps, size)``.

    They are many: outside loops those of one sequence at a time.
    """
    parts = [slice(None)] if blocks.width == 1 else [slice(each, each + 1) for each in range(blocks.count)]
    for part in parts:
        own = memory if len(memory) == 1 else memory[part]
        yield part, np.tanh(own[:, None] + frames[part][:, :, None])


def _added(inputs: Sequence[Array], context: OpContext) -> tuple[Blocks, Array, Array]:
    """Memory ``(blocks, steps, size)`` and frames ``(blocks, places, size)``."""
    memories = [index for index in (0, 3) if index < len(inputs)]
    blocks = blocks_of(context, len(inputs[1]), memories)
    return blocks, _flat(memory_of(context, 0, inputs[0], blocks)), blocks.of(flat_rows(inputs[1]))


def _additive_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: AdditiveAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    blocks, memory, frames = _added(inputs, context)
    vector = inputs[2].reshape(-1)
    by_scores = _to_scores(blocks.of(output), blocks.of(gradient))
    by_memory = np.zeros((blocks.count, *memory.shape[1:]), memory.dtype)
    by_frames, by_vector = np.zeros_like(frames), np.zeros_like(vector)
    for part, sums in _sums(memory, frames, blocks):
        own = by_scores[part]
        if needs[2]:
            by_vector += np.tensordot(own, sums, 3)
        if needs[0] or needs[1]:
            by_sums = own[..., None] * vector * (1 - sums * sums)
            by_memory[part] = np.sum(by_sums, axis=1) if needs[0] else 0
            by_frames[part] = np.sum(by_sums, axis=2) if needs[1] else 0
    return [
        remembered(context, 0, inputs[0], blocks, by_memory) if needs[0] else None,
        blocks.rows(by_frames).reshape(inputs[1].shape) if needs[1] else None,
        by_vector.reshape(inputs[2].shape) if needs[2] else None,
        *[None] * (len(inputs) - 3),
    ]


@define_op(
    "AdditiveAttentionWeights",
    inputs=(3, 4),
    infer=_infer_additive,
    complete=_complete_additive,
    gradient=_additive_gradient,
    attributes=AdditiveAttributes,
    differentiable=(True, True, True, False),
    axis_of=1,
    unframed=frozenset({2}),
    whole=frozenset({0, 3}),
    traits=TRAITS,
)
def ADDITIVE_ATTENTION_WEIGHTS(
    xp: Any, inputs: Sequence[Array], attributes: AdditiveAttributes, context: OpContext
) -> Array:
    """The same with scores v . tanh(memory + frame); inputs: memory, frames, v [, which steps are there]."""
    blocks, memory, frames = _added(inputs, context)
    scores = np.empty((blocks.count, 1, blocks.width, memory.shape[1]), frames.dtype)
    for part, sums in _sums(memory, frames, blocks):
        scores[part, 0] = sums @ inputs[2].reshape(-1)
    there = _there(context, inputs, 3, blocks)
    return _by_frame(_softmax(scores, blocks, there, causal=attributes.causal), blocks)


def _infer_sum(shapes: Sequence[Shape], attributes: Any) -> Shape:
    steps, size = _steps_and_size(shapes[0])
    weights = shapes[1]
    if not 1 <= len(weights) <= 2 or weights[-1] != steps:
        raise ShapeError(f"{show(weights)} does not give each of the {steps} steps of the memory a weight")
    heads = elements(weights[:-1])
    if size % heads:
        raise ShapeError(f"{size} elements cannot be parted among {heads} heads")
    return shapes[0][1:]


def _weighed(inputs: Sequence[Array], context: OpContext) -> tuple[Blocks, Array, Array]:
    """Memory ``(blocks, heads, steps, size)`` and weights ``(blocks, heads, places, steps)``."""
    blocks = blocks_of(context, len(inputs[1]), [0])
    memory, weights = _flat(memory_of(context, 0, inputs[0], blocks)), _by_heads(inputs[1], blocks)
    return blocks, _heads(memory, weights.shape[1]), weights


def _sum_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    blocks, memory, weights = _weighed(inputs, context)
    incoming = _heads(blocks.of(flat_rows(gradient)), weights.shape[1])
    found: list[Array | None] = [None, None]
    if needs[0]:
        found[0] = remembered(context, 0, inputs[0], blocks, _together(weights.swapaxes(2, 3) @ incoming))
    if needs[1]:
        found[1] = _by_frame(incoming @ memory.swapaxes(2, 3), blocks).reshape(inputs[1].shape)
    return found


@define_op(
    "AttentionSum",
    inputs=2,
    infer=_infer_sum,
    gradient=_sum_gradient,
    reads_output=False,
    axis_of=1,
    whole=frozenset({0}),
    traits=TRAITS,
)
def ATTENTION_SUM(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The steps of a memory, summed with the weights that each frame has for them; inputs: memory, weights."""
    blocks, memory, weights = _weighed(inputs, context)
    found = blocks.rows(_together(weights @ memory))
    return found.reshape(len(found), *inputs[0].shape[1 + int(context.framed[0]) :])


OPS = (ATTENTION_WEIGHTS, ADDITIVE_ATTENTION_WEIGHTS, ATTENTION_SUM)
