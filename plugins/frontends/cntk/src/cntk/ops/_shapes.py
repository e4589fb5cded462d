"""Operators that give values another shape or order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk._graph.errors import GraphError
from cntk.axis import Axis
from cntk.internal import (
    sanitize_axis,
    sanitize_axis_list,
    sanitize_dtype_numpy,
    sanitize_input,
    sanitize_permutation,
    sanitize_shape,
)
from cntk.ops import _elements as elements
from cntk.ops._making import axis as axis_of
from cntk.ops._making import block, made, one, operands, rank, size
from cntk.ops._making import shape as shape_of
from cntk.ops.functions import Function
from cntk.variables import Variable

CONSTANT_PAD, REFLECT_PAD, SYMMETRIC_PAD = 0, 1, 2

_END = Axis(2**31 - 1 - 3)
_TYPES = {np.float32: 1, np.float64: 2, np.float16: 4}


def reshape(x: Any, shape: Any, begin_axis: Any = None, end_axis: Any = None, name: str = "") -> Function:
    """Give some axes another shape.

    Args:
        x: the operand.
        shape: in the place of the axes; one dimension may be inferred (-1).
        begin_axis: the first axis that is replaced.
        end_axis: the first axis behind those that are replaced.
        name: of the user.
    """
    # Axes count from the other end in attributes, where the end of a range here is its beginning.
    begin = Axis(0) if end_axis is None else _place(end_axis)
    end = _END if begin_axis is None else _place(begin_axis)
    dims = sanitize_shape(shape)
    return made("Reshape", one(x), name=name, newShape=shape_of(dims), beginAxis=axis_of(begin), endAxis=axis_of(end))


def _place(axis: Any) -> Axis:
    """The place between axes before one, counted from the other end."""
    if isinstance(axis, Axis):
        if axis == Axis.new_leading_axis():
            return Axis(0)
        if not axis.is_static_axis:
            raise ValueError(f"{axis} is no static axis")
        axis = axis.static_axis_index()
    return Axis(-int(axis)) if axis != 0 else _END


def _slice_indices(values: Any) -> list[int]:
    return [int(each) for each in (values if isinstance(values, list | tuple) else [values])]


def slice(x: Any, axis: Any, begin_index: Any, end_index: Any, strides: Any = None, name: str = "") -> Function:
    """A range of one axis or several.

    Args:
        x: the operand.
        axis: the axis, or a list of them.
        begin_index: of the first element; negative ones count from the end.
        end_index: behind the last element; 0 is the end.
        strides: take each so-manieth element.
        name: of the user.
    """
    axes = sanitize_axis_list(axis)
    begins, ends = _slice_indices(begin_index), _slice_indices(end_index)
    steps = [1] * len(axes) if strides is None else _slice_indices(strides)
    if len(axes) == 1:
        return made("Slice", one(x), name=name, axis=axis_of(axes[0]), beginIndex=begins[0], endIndex=ends[0],
                    sliceStrides=steps[0])  # fmt: skip
    return made("Slice", one(x), name=name, axisVec=[axis_of(each) for each in axes], beginIndexVec=begins,
                endIndexVec=ends, sliceStridesVec=steps)  # fmt: skip


def splice(*inputs: Any, axis: Any = -1, name: str = "") -> Function:
    """Operands one behind the other along an axis, the last by default.

    Raises:
        ValueError: there are none.
    """
    given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], list | tuple) else inputs
    if not given:
        raise ValueError("there is nothing to splice")
    found, along = operands(*given), sanitize_axis(axis)
    ranks = [rank(each) for each in found]
    if along == Axis.new_leading_axis() and None not in ranks:
        along = Axis(max(each or 0 for each in ranks))
    return made("Splice", *found, name=name, axis=axis_of(along))


def swapaxes(x: Any, axis1: Any = 0, axis2: Any = 1, name: str = "") -> Function:
    """Exchange two axes."""
    first, second = sanitize_axis(axis1), sanitize_axis(axis2)
    return made("TransposeAxes", one(x), name=name, axis1=axis_of(first), axis2=axis_of(second))


def transpose(x: Any, perm: Any, name: str = "") -> Function:
    """Permute the axes: axis i of the result is axis ``perm[i]`` of the operand.

    Raises:
        TypeError: ``perm`` is no list.
        ValueError: it is no permutation.
    """
    if isinstance(perm, int | np.integer):
        raise TypeError("transpose expects a permutation; to swap two axes use swapaxes")
    numbers = sanitize_permutation(list(perm))
    return made("TransposeAxes", one(x), name=name, axisVec=[axis_of(Axis(each)) for each in numbers])


def expand_dims(x: Any, axis: Any, name: str = "") -> Function:
    """Put in an axis of length 1: behind an axis, as the original does; of negative ones, where it will be.

    Raises:
        ValueError: there is no such axis.
    """
    value = one(x)
    given = axis if isinstance(axis, Axis) else Axis(axis)
    place = _END if given == Axis.new_leading_axis() else Axis(-1 - given.static_axis_index())

    def inside(a: Variable) -> Function:
        count = None if a._shape is None else len(a._shape)
        if count is not None and place != _END and not -count <= place.static_axis_index() <= count:
            raise GraphError(f"expand_dims: {a} has {count} axes, so there is no place {axis}")
        at = place
        if at == _END and count is not None:
            at = Axis(count)
        return made("Reshape", a, newShape=shape_of((1,)), beginAxis=axis_of(at), endAxis=axis_of(at))

    return block("ExpandDims", name, [value], inside)


def flatten(x: Any, axis: Any = None, name: str = "") -> Function:
    """A matrix: the axes before one together, and those from it on; by default all from the first.

    As in the original -1 is behind the last axis.

    Raises:
        ValueError: there is no such axis.
    """
    value = one(x)
    place = 0 if axis is None else axis.static_axis_index() if isinstance(axis, Axis) else int(axis)

    def inside(a: Variable) -> Function:
        dims = a._shape or ()
        cut = place + len(dims) + 1 if place < 0 else place  # -1 is behind the last axis
        if not 0 <= cut <= len(dims):
            raise ValueError(f"flatten: {value} has {len(dims)} axes, so it cannot be cut at the axis {place}")
        parts = dims[:cut], dims[cut:]
        return reshape(a, tuple(-1 if min(each, default=0) < 0 else int(np.prod(each, dtype=int)) for each in parts))

    return block("Flatten", name, [value], inside)


def squeeze(x: Any, axes: Any = None, name: str = "") -> Function:
    """Take out axes of length 1: all, or those that are named."""
    if axes is None:
        return made("Squeeze", one(x), name=name)
    found = [axis_of(each) for each in sanitize_axis_list(axes)]
    return made("Squeeze", one(x), name=name, axisVec=found)


def pad(
    x: Any, pattern: Sequence[Any], mode: int = CONSTANT_PAD, constant_value: float = 0, name: str = ""
) -> Function:
    """Put elements in front of and behind those of each axis.

    Args:
        x: the operand.
        pattern: for each axis how many in front and how many behind.
        mode: :data:`CONSTANT_PAD`, or a reflection without the edge (:data:`REFLECT_PAD`) or with it
            (:data:`SYMMETRIC_PAD`).
        constant_value: of the new elements.
        name: of the user.

    Raises:
        ValueError: the pattern is none.
    """
    if not all(isinstance(each, list | tuple) and len(each) == 2 for each in pattern):
        raise ValueError("padding pattern should be a list of pairs")
    head = [size(int(each[0])) for each in reversed(pattern)]
    foot = [size(int(each[1])) for each in reversed(pattern)]
    return made("Pad", one(x), name=name, paddingHead=head, paddingFoot=foot, paddingMode=mode,
                paddingConstantValue=float(constant_value))  # fmt: skip


def gather(reference: Any, indices: Any, axis: Any = None, name: str = "") -> Function:
    """Elements of the first axis of a tensor (or of another axis) by their numbers."""
    first, second = one(reference), one(indices)
    if axis is None or axis == 0:
        return made("Gather", second, first, name=name)

    def inside(numbers: Variable, values: Variable) -> Function:
        found = made("Gather", numbers, swapaxes(values, 0, axis).output)
        return swapaxes(found, 0, axis)

    return block("GatherOp", name, [second, first], inside, axis=axis_of(sanitize_axis(axis)))


def one_hot(x: Any, num_classes: int, sparse_output: bool = False, axis: Any = -1, name: str = "") -> Function:
    """Vectors with a 1 at the places that numbers say, along a new axis."""
    along = sanitize_axis(axis)
    return made("OneHot", one(x), name=name, numClass=size(num_classes), oneHotOutputSparse=sparse_output,
                onehotAxis=axis_of(along))  # fmt: skip


def top_k(x: Any, k: int, axis: Any = -1, name: str = "") -> Function:
    """The largest elements along an axis, and their places: two outputs."""
    along = sanitize_axis(axis)
    return made("TopK", one(x), name=name, numItems=size(k), axis=axis_of(along))


def eye_like(x: Any, sparse_output: bool = True, name: str = "") -> Function:
    """The unit matrix in the shape of a matrix, whose axes may be dynamic."""
    return made("EyeLikeOp", one(x), name=name, OutputSparse=sparse_output)


def zeros_like(x: Any, name: str = "") -> Function:
    """Zeros in the shape of the operand."""
    return made("ConstantOp", one(x), name=name, fillValue=0.0)


def ones_like(x: Any, name: str = "") -> Function:
    """Ones in the shape of the operand."""
    return made("ConstantOp", one(x), name=name, fillValue=1.0)


def cast(node_input: Any, dtype: Any, name: str = "") -> Function:
    """The operand in another precision."""
    return made("Cast", one(node_input), name=name, newDataType=_TYPES[sanitize_dtype_numpy(dtype)])


def depth_to_space(operand: Any, block_size: int, name: str = "") -> Function:
    """Channels of an image laid out as blocks of ``block_size x block_size`` pixels.

    Raises:
        ValueError: the operand is no image, or its channels do not fill blocks.
    """
    value, n = one(operand), block_size
    if len(value.shape) != 3 or value.shape[0] % (n * n):
        raise ValueError(f"depth_to_space: the channels of {value} do not fill blocks of {n} x {n}")

    def inside(a: Variable) -> Function:
        channels, height, width = a.shape
        split = reshape(a, (n, n, channels // (n * n), height, width))
        moved = transpose(split, (2, 3, 0, 4, 1))
        return reshape(moved, (channels // (n * n), height * n, width * n))

    return block("DepthToSpace", name, [value], inside, blockSize=size(n))


def space_to_depth(operand: Any, block_size: int, name: str = "") -> Function:
    """Blocks of ``block_size x block_size`` pixels of an image as channels.

    Raises:
        ValueError: the operand is no image, or blocks do not fill it.
    """
    value, n = one(operand), block_size
    if len(value.shape) != 3 or value.shape[1] % n or value.shape[2] % n:
        raise ValueError(f"space_to_depth: blocks of {n} x {n} do not fill {value}")

    def inside(a: Variable) -> Function:
        channels, height, width = a.shape
        split = reshape(a, (channels, height // n, n, width // n, n))
        moved = transpose(split, (2, 4, 0, 1, 3))
        return reshape(moved, (n * n * channels, height // n, width // n))

    return block("SpaceToDepth", name, [value], inside, blockSize=size(n))


def assign(ref: Any, input: Any, name: str = "") -> Function:
    """The second operand, which a parameter has as its value from then on when the minibatch is done."""
    target = one(ref)
    return made("Assign", target, sanitize_input(input, target._dtype), name=name)


def reconcile_dynamic_axes(x: Any, dynamic_axes_as: Any, name: str = "") -> Function:
    """The operand with the dynamic axes of another one, repeated for each step."""
    return made("ReconcileDynamicAxis", one(x), one(dynamic_axes_as), name=name)


def to_sequence(
    x: Any, sequence_lengths: Any = None, sequence_axis_name_prefix: str = "toSequence_", name: str = ""
) -> Function:
    """The first axis as a sequence axis; how many of its elements there are may be said for each sample.

    Raises:
        ValueError: the operand has a sequence axis already.
    """
    operand = one(x)
    if len(operand._axes or ()) > 1:
        raise ValueError(f"to_sequence: {operand} has a sequence axis already")
    name_of_axis = Axis.new_unique_dynamic_axis(sequence_axis_name_prefix)
    new = [axis_of(name_of_axis), axis_of(Axis.default_batch_axis())]
    given = [operand] if sequence_lengths is None else [operand, one(sequence_lengths)]
    return made("ToSequence", *given, name=name, newDynamicAxes=new)


def to_sequence_like(x: Any, dynamic_axes_like: Any, name: str = "") -> Function:
    """The first axis as the sequence axis of another operand."""
    return made("ToSequenceLike", one(x), one(dynamic_axes_like), name=name)


def to_batch(x: Any, name: str = "") -> Function:
    """The first axis as the batch axis."""
    return made("ToBatch", one(x), name=name)


def unpack_batch(x: Any, name: str = "") -> Function:
    """The batch axis as the first axis of a value of the whole minibatch."""
    return made("UnpackBatch", one(x), name=name)


def crop_manual(node_input: Any, node_referent: Any, offset_x: int, offset_y: int, name: str = "") -> Function:
    """Part of an image, as wide and high as another one."""
    return made("Crop", one(node_input), one(node_referent), name=name, offset=[size(offset_x), size(offset_y)])


def crop_automatic(node_input: Any, node_referent: Any, name: str = "") -> Function:
    """Part of an image that lies over another one, from which both come."""
    return made("Crop", one(node_input), one(node_referent), name=name)


def crop_automatic_with_ancestors(
    node_input: Any, node_referent: Any, ancestor_input: Any, ancestor_referent: Any, name: str = ""
) -> Function:
    """Part of an image that lies over another one, where two nodes before them lie over each other."""
    given = [one(each) for each in (node_input, node_referent, ancestor_input, ancestor_referent)]
    return made("Crop", *given, name=name)


def image_scaler(x: Any, scalar: float, biases: Any, name: str = "") -> Function:
    """An image times a factor, plus a number for each channel."""
    offsets = np.asarray(biases, np.float32).reshape(-1, 1, 1)
    return block("ImageScaler", name, [one(x)], lambda a: elements.plus(elements.element_times(a, scalar), offsets))


__all__ = [
    "CONSTANT_PAD",
    "REFLECT_PAD",
    "SYMMETRIC_PAD",
    "assign",
    "cast",
    "crop_automatic",
    "crop_automatic_with_ancestors",
    "crop_manual",
    "depth_to_space",
    "expand_dims",
    "eye_like",
    "flatten",
    "gather",
    "image_scaler",
    "one_hot",
    "ones_like",
    "pad",
    "reconcile_dynamic_axes",
    "reshape",
    "slice",
    "space_to_depth",
    "splice",
    "squeeze",
    "swapaxes",
    "to_batch",
    "to_sequence",
    "to_sequence_like",
    "top_k",
    "transpose",
    "unpack_batch",
    "zeros_like",
]
