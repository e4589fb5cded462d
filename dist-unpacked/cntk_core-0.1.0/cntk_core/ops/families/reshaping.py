"""Ops that give the elements other axes: Reshape, LegacyReshape, TransposeDimensions.

Axes in attributes are CNTK's: from 1, CNTK's first axis being our last in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from cntk_core.errors import DataError, ShapeError, UnsupportedError
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import sample_shape
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, from_cntk, show, to_cntk
from cntk_core.ops.language.traits import BY_ROWS
from cntk_core.records.layout import SequenceLayout


def ints(value: int | Iterable[int]) -> tuple[int, ...]:
    """Return one number or several as a tuple."""
    return (value,) if isinstance(value, int) else tuple(int(item) for item in value)


@attrs.frozen
class ReshapeAttributes:
    """Attributes of Reshape: CNTK axes ``begin_axis`` (from 1) up to, not including, ``end_axis`` become ``dims``.

    Attributes:
        dims: new dimensions in CNTK's order; one may be 0 and is inferred.
        begin_axis: first axis to be replaced.
        end_axis: the axis after the last; 0 is past the last axis.
    """

    dims: tuple[int, ...] = attrs.field(converter=ints)
    begin_axis: int = 1
    end_axis: int = 0

    @classmethod
    def flatten(cls, axis: int, count: int) -> ReshapeAttributes:
        """Make ``count`` axes from ``axis`` one (FlattenDimensions)."""
        return cls((0,), axis, axis + count)

    @classmethod
    def split(cls, axis: int, size: int) -> ReshapeAttributes:
        """Split an axis into one of ``size`` elements after another (SplitDimension)."""
        return cls((0, size), axis, axis + 1)


def infer_reshape(shapes: Sequence[Shape], attributes: ReshapeAttributes) -> Shape:
    """Shape rule of Reshape; infers the dimension given as 0."""
    dims, new = to_cntk(shapes[0]), list(attributes.dims)
    begin = max(attributes.begin_axis - 1, 0)
    end = attributes.end_axis - 1 if attributes.end_axis > 0 else len(dims)
    if not begin <= end <= len(dims):
        raise ShapeError(f"the input {show(shapes[0])} has no axes {begin + 1} to {end}")
    replaced = dims[begin:end]
    if new.count(0) > 1:
        raise ShapeError(f"more than one of the new dimensions {show(from_cntk(new))} is 0")
    if 0 in new:
        others = elements([dim for dim in new if dim])
        new[new.index(0)] = elements(replaced) // others
    if elements(new) != elements(replaced):
        before, after = show(from_cntk(replaced)), show(from_cntk(attributes.dims))
        raise ShapeError(f"{before} with {elements(replaced)} elements cannot become {after}")
    return from_cntk([*dims[:begin], *new, *dims[end:]])


def reshaped(value: Array, framed: bool, shape: Shape) -> Array:
    """Return a value with another sample shape."""
    return value.reshape((value.shape[0], *shape) if framed else shape)


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


@define_op(
    "Reshape",
    infer=infer_reshape,
    gradient=_back_to_shape,
    attributes=ReshapeAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def RESHAPE(xp: Any, inputs: Sequence[Array], attributes: ReshapeAttributes, context: OpContext) -> Array:
    """The same elements with other dimensions; no element moves."""
    shape = infer_reshape([sample_shape(inputs[0], context.framed[0])], attributes)
    return reshaped(inputs[0], context.framed[0], shape)


@attrs.frozen
class LegacyReshapeAttributes:
    """Attributes of NDL's Reshape: the number of rows, and the image dimensions of a row (CNTK's order), if given."""

    rows: int
    image: tuple[int, ...] = attrs.field(default=(), converter=ints)


def _infer_legacy_reshape(shapes: Sequence[Shape], attributes: LegacyReshapeAttributes) -> Shape:
    size, rows = elements(shapes[0]), attributes.rows
    if rows < 1 or (rows % size and size % rows):
        raise ShapeError(f"{rows} rows are neither a multiple nor a part of the {size} rows of {show(shapes[0])}")
    if attributes.image and elements(attributes.image) != rows:
        image = show(from_cntk(attributes.image))
        raise ShapeError(f"the image {image} has {elements(attributes.image)} elements, not {rows}")
    return from_cntk(attributes.image or (rows,))


def _changes_frames(shape: Shape, attributes: LegacyReshapeAttributes) -> bool:
    return attributes.rows != elements(shape)


def _new_frames(layout: SequenceLayout, shape: Shape, attributes: LegacyReshapeAttributes) -> SequenceLayout:
    """Frames of their own: each old one is cut into several, or several become one.

    Raises:
        UnsupportedError: the minibatch has sequences.
        DataError: the last frame would not be full.
    """
    if not layout.is_frames:
        raise UnsupportedError(
            "Reshape to another number of frames works on single frames, not on sequences",
            hint="Read the data frame by frame.",
        )
    count = layout.frames * elements(shape)
    if count % attributes.rows:
        raise DataError(
            f"{layout.frames} frames of {elements(shape)} elements do not fill frames of {attributes.rows} elements"
        )
    return SequenceLayout.of_frames(count // attributes.rows)


@define_op(
    "LegacyReshape",
    infer=_infer_legacy_reshape,
    gradient=_back_to_shape,
    attributes=LegacyReshapeAttributes,
    new_axis=_changes_frames,
    relayout=_new_frames,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def LEGACY_RESHAPE(xp: Any, inputs: Sequence[Array], attributes: LegacyReshapeAttributes, context: OpContext) -> Array:
    """NDL's Reshape: the same elements as another number of rows, which may change the number of frames."""
    shape = _infer_legacy_reshape([sample_shape(inputs[0], context.framed[0])], attributes)
    return inputs[0].reshape((-1, *shape) if context.framed[0] else shape)


@attrs.frozen
class TransposeAttributes:
    """Attributes of TransposeDimensions: two axes to swap, or a permutation of all (both from 1)."""

    axis1: int = 1
    axis2: int = 2
    permutation: tuple[int, ...] = attrs.field(default=(), converter=ints)


def _order(shape: Shape, attributes: TransposeAttributes) -> tuple[int, ...]:
    """CNTK axes (from 0) of the result, as axes of the input, which may be padded with ones."""
    rank = len(shape)
    if attributes.permutation:
        if sorted(attributes.permutation) != list(range(1, rank + 1)):
            given = ":".join(map(str, attributes.permutation))
            raise ShapeError(f"{given} is not a permutation of the {rank} axes of {show(shape)}")
        return tuple(axis - 1 for axis in attributes.permutation)
    first, second = attributes.axis1, attributes.axis2
    if first < 1 or second < 1 or min(first, second) > max(rank, 1):
        raise ShapeError(f"the axes {first} and {second} of {show(shape)} cannot be swapped")
    order = list(range(max(rank, first, second)))
    order[first - 1], order[second - 1] = order[second - 1], order[first - 1]
    return tuple(order)


def _infer_transpose(shapes: Sequence[Shape], attributes: TransposeAttributes) -> Shape:
    order = _order(shapes[0], attributes)
    dims = to_cntk(shapes[0]) + (1,) * (len(order) - len(shapes[0]))
    return from_cntk(dims[axis] for axis in order)


def transposed_axes(shape: Shape, attributes: TransposeAttributes) -> tuple[int, ...]:
    """Return the memory axes of the result, as axes of a sample of the input; that may have to be padded with ones.

    Raises:
        ShapeError: there are no such axes.
    """
    order = _order(shape, attributes)
    return tuple(len(order) - 1 - axis for axis in reversed(order))


def _memory_axes(shape: Shape, attributes: TransposeAttributes, framed: bool) -> tuple[int, ...]:
    """The same with the frame axis."""
    axes = transposed_axes(shape, attributes)
    return (0, *(axis + 1 for axis in axes)) if framed else axes


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axes.index(axis) for axis in range(len(axes)))


def _transpose_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: TransposeAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    framed = context.framed[0]
    axes = _memory_axes(sample_shape(inputs[0], framed), attributes, framed)
    return (xp.transpose(gradient, _inverse(axes)).reshape(inputs[0].shape),)


@define_op(
    "TransposeDimensions",
    infer=_infer_transpose,
    gradient=_transpose_gradient,
    attributes=TransposeAttributes,
    reads_inputs=False,
    reads_output=False,
    aliases={"ndl": ("Transpose",), "model": ("Transpose",)},
    traits=BY_ROWS,
)
def TRANSPOSE_DIMENSIONS(
    xp: Any, inputs: Sequence[Array], attributes: TransposeAttributes, context: OpContext
) -> Array:
    """The same elements with two axes swapped, or all axes permuted."""
    framed = context.framed[0]
    sample = sample_shape(inputs[0], framed)
    axes = _memory_axes(sample, attributes, framed)
    padded = reshaped(inputs[0], framed, (1,) * (len(axes) - int(framed) - len(sample)) + sample)
    return xp.transpose(padded, axes)


OPS = (RESHAPE, LEGACY_RESHAPE, TRANSPOSE_DIMENSIONS)
