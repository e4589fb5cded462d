"""Axes of length 1 taken out and put in, and channels against places: Squeeze, ExpandDims, DepthToSpace, SpaceToDepth.

Axes in attributes are CNTK's: from 1, CNTK's first axis being our last in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.geometry import Dims
from cntk_core.ops.families.reshaping import ints, reshaped
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import sample_shape
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import BY_ROWS


def _back_to_shape(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (gradient.reshape(inputs[0].shape),)


@attrs.frozen
class SqueezeAttributes:
    """Attributes of Squeeze: the axes (from 1) of length 1 that go; none named are all of them."""

    axes: Dims = attrs.field(default=(), converter=ints)


def _infer_squeeze(shapes: Sequence[Shape], attributes: SqueezeAttributes) -> Shape:
    shape = shapes[0]
    for axis in attributes.axes:
        if not 1 <= axis <= len(shape):
            raise ShapeError(f"the input {show(shape)} has no axis {axis}")
        if shape[-axis] != 1:
            raise ShapeError(f"axis {axis} of {show(shape)} cannot be taken out: it has {shape[-axis]} elements")
    gone = {len(shape) - axis for axis in attributes.axes}
    if not attributes.axes:
        gone = {place for place, size in enumerate(shape) if size == 1}
    return tuple(size for place, size in enumerate(shape) if place not in gone)


@define_op(
    "Squeeze",
    infer=_infer_squeeze,
    gradient=_back_to_shape,
    attributes=SqueezeAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def SQUEEZE(xp: Any, inputs: Sequence[Array], attributes: SqueezeAttributes, context: OpContext) -> Array:
    """The same elements without axes of length 1."""
    framed = context.framed[0]
    return reshaped(inputs[0], framed, _infer_squeeze([sample_shape(inputs[0], framed)], attributes))


@attrs.frozen
class ExpandDimsAttributes:
    """Attributes of ExpandDims: the new axis (from 1), which the axes from there on stand behind."""

    axis: int = 1


def _infer_expand(shapes: Sequence[Shape], attributes: ExpandDimsAttributes) -> Shape:
    shape, axis = shapes[0], attributes.axis
    if not 1 <= axis <= len(shape) + 1:
        raise ShapeError(f"{show(shape)} cannot get a new axis {axis}")
    place = len(shape) + 1 - axis
    return (*shape[:place], 1, *shape[place:])


@define_op(
    "ExpandDims",
    infer=_infer_expand,
    gradient=_back_to_shape,
    attributes=ExpandDimsAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def EXPAND_DIMS(xp: Any, inputs: Sequence[Array], attributes: ExpandDimsAttributes, context: OpContext) -> Array:
    """The same elements with one more axis, of length 1."""
    framed = context.framed[0]
    return reshaped(inputs[0], framed, _infer_expand([sample_shape(inputs[0], framed)], attributes))


@attrs.frozen
class BlockAttributes:
    """Attributes of DepthToSpace and SpaceToDepth: width and height of a block.

    The channels of a block's places stand one place after the other: first all channels of the first place.
    """

    block_size: int


def _image_dims(shape: Shape, attributes: BlockAttributes) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ShapeError(f"an image has width, height and channels; {show(shape)} has {len(shape)} axes")
    if attributes.block_size < 1:
        raise ShapeError(f"blockSize is {attributes.block_size}, less than 1")
    return shape


def _infer_to_space(shapes: Sequence[Shape], attributes: BlockAttributes) -> Shape:
    channels, height, width = _image_dims(shapes[0], attributes)
    block = attributes.block_size
    if channels % (block * block):
        raise ShapeError(f"{channels} channels cannot be divided among the {block * block} places of a block")
    return (channels // (block * block), height * block, width * block)


def _infer_to_depth(shapes: Sequence[Shape], attributes: BlockAttributes) -> Shape:
    channels, height, width = _image_dims(shapes[0], attributes)
    block = attributes.block_size
    if height % block or width % block:
        raise ShapeError(f"an image of {width} x {height} cannot be divided into blocks of {block} x {block}")
    return (channels * block * block, height // block, width // block)


def _spread(xp: Any, value: Array, block: int) -> Array:
    """Channels to places: ``(..., channels, height, width)``."""
    *outer, channels, height, width = value.shape
    rank, inner = len(outer), channels // (block * block)
    parts = value.reshape(*outer, block, block, inner, height, width)
    order = (*range(rank), rank + 2, rank + 3, rank, rank + 4, rank + 1)
    return xp.transpose(parts, order).reshape(*outer, inner, height * block, width * block)


def _gathered(xp: Any, value: Array, block: int) -> Array:
    """Places to channels, the inverse of :func:`_spread`."""
    *outer, channels, height, width = value.shape
    rank = len(outer)
    parts = value.reshape(*outer, channels, height // block, block, width // block, block)
    order = (*range(rank), rank + 2, rank + 4, rank, rank + 1, rank + 3)
    return xp.transpose(parts, order).reshape(*outer, channels * block * block, height // block, width // block)


def _to_space_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: BlockAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (_gathered(xp, gradient, attributes.block_size),)


@define_op(
    "DepthToSpace",
    infer=_infer_to_space,
    gradient=_to_space_gradient,
    attributes=BlockAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def DEPTH_TO_SPACE(xp: Any, inputs: Sequence[Array], attributes: BlockAttributes, context: OpContext) -> Array:
    """An image enlarged: the channels of each place become a block of places."""
    return _spread(xp, inputs[0], attributes.block_size)


def _to_depth_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: BlockAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (_spread(xp, gradient, attributes.block_size),)


@define_op(
    "SpaceToDepth",
    infer=_infer_to_depth,
    gradient=_to_depth_gradient,
    attributes=BlockAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def SPACE_TO_DEPTH(xp: Any, inputs: Sequence[Array], attributes: BlockAttributes, context: OpContext) -> Array:
    """An image made smaller: the places of a block become channels of one place."""
    return _gathered(xp, inputs[0], attributes.block_size)


OPS = (SQUEEZE, EXPAND_DIMS, DEPTH_TO_SPACE, SPACE_TO_DEPTH)
