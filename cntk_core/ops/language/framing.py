"""Where the dynamic axis stands: alignment, sums over broadcast axes, and running any op on arrays.

A value with the dynamic axis is ``(frames, *sample_shape)``. Sample shapes are compared from their last axis, so a
value of lower rank gets axes of length 1 between its frame axis and its sample axes before NumPy broadcasts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from cntk_core.errors import WrongResult, shown
from cntk_core.ops.language.expression import ArrayMath
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, elements
from cntk_core.ops.language.sparse_rows import is_sparse


def sample_shape(value: Array, framed: bool) -> Shape:
    """Shape of one sample of a value."""
    return tuple(value.shape[1:] if framed else value.shape)


def align(value: Array, framed: bool, rank: int) -> Array:
    """Return a view that broadcasts against samples of ``rank`` axes; a value without dynamic axis stays as it is."""
    missing = rank + 1 - value.ndim
    if not framed or missing <= 0:
        return value
    return value.reshape(value.shape[0], *(1,) * missing, *value.shape[1:])


def unbroadcast(xp: Any, gradient: Array, shape: Sequence[int], framed: bool, gradient_framed: bool) -> Array:
    """Sum a gradient over the axes along which an input was broadcast.

    Args:
        xp: the array module.
        gradient: in the shape of the output.
        shape: shape of the input's value, its frame axis included.
        framed: whether the input has the dynamic axis.
        gradient_framed: whether the gradient has it.
    """
    sample = tuple(shape[1:] if framed else shape)
    out = gradient.shape[1:] if gradient_framed else gradient.shape
    padded = (1,) * (len(out) - len(sample)) + sample
    offset = int(gradient_framed)
    axes = [axis + offset for axis, (size, total) in enumerate(zip(padded, out, strict=True)) if size != total]
    if gradient_framed and not framed:
        axes.insert(0, 0)
    summed = xp.sum(gradient, axis=tuple(axes)) if axes else gradient
    return summed.reshape(tuple(shape))


def columns(value: Array, framed: bool) -> Array:
    """Return a value as CNTK's matrix: one row for each of its columns.

    With the dynamic axis a row is a whole sample; without it, a row runs along CNTK's first axis (our last).
    """
    if framed:
        return value.reshape(value.shape[0], elements(value.shape[1:]))
    return value.reshape(-1, value.shape[-1] if value.ndim else 1)


def flat_rows(value: Array) -> Array:
    """Return a value as a matrix with one row for each element of its first axis, of which there may be none."""
    return value.reshape(value.shape[0], elements(value.shape[1:]))


def samples(value: Array, framed: bool) -> Array:
    """Return a value as a matrix with one row for each sample; one without the dynamic axis has one row."""
    return value.reshape(value.shape[0] if framed else 1, elements(sample_shape(value, framed)))


def paired(left: Array, right: Array, framed: Sequence[bool]) -> tuple[Array, Array]:
    """Return two values of equal sample size as matrices with one row for each column; a constant one has one row."""
    if not (framed[0] or framed[1]):
        return columns(left, False), columns(right, False)
    first, second = (
        value if is_sparse(value) else samples(value, has) for value, has in ((left, framed[0]), (right, framed[1]))
    )
    return first, second


def unpaired(xp: Any, gradient: Array, value: Array) -> Array:
    """Turn a gradient of :func:`paired`'s matrices into one of the value: repeat it, or sum over repeated rows."""
    rows, width = elements(value.shape) // gradient.shape[1], gradient.shape[1]
    if rows == 1 != len(gradient):
        gradient = xp.sum(gradient, axis=0)
    elif rows != len(gradient):
        gradient = xp.broadcast_to(gradient, (rows, width))
    return gradient.reshape(value.shape)


def scalar(xp: Any, value: Any, like: Array) -> Array:
    """Return a number as a criterion's value: shape ``(1,)``, the type of ``like``."""
    return xp.asarray(value, dtype=like.dtype).reshape(1)


def dense(value: Any, shape: Sequence[int] | None = None) -> Array:
    """Return a sparse matrix ``(frames, dim)`` as an array, with the given sample shape; arrays stay as they are."""
    if not is_sparse(value):
        return value
    array = value.toarray()
    return array if shape is None else array.reshape(array.shape[0], *shape)


@cache
def math_of(xp: Any) -> ArrayMath:
    """The math namespace of an array module."""
    return ArrayMath(xp)


def run_forward(op: Op, xp: Any, inputs: Sequence[Any], attributes: Any, context: OpContext) -> Array:
    """Compute an op's value ``(frames, *shape)`` from its inputs' values, whatever kind of op it is.

    Values that are not numbers come out as NaN or infinities without warnings. The result may be a view of an input.
    """
    values = _accepted(op, inputs)
    with np.errstate(all="ignore"):
        if op.elementwise is None:
            assert op.forward is not None, f"{op.name} is not computed from its inputs"
            return op.forward(xp, values, attributes, context)
        return xp.asarray(op.elementwise.forward(math_of(xp), attributes, *_aligned(values, context.framed)))


def run_gradient(
    op: Op,
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Any],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    """Compute the gradients of an op's inputs from that of its output, whatever kind of op it is.

    One per input, in the shape of its value; None where ``needs`` is False or the gradient is zero.

    Raises:
        WrongResult: the op gives no list with one for each input.
    """
    values, parts = _accepted(op, inputs), op.elementwise
    function = op.gradient if parts is None else parts.gradient
    with np.errstate(all="ignore"):
        if function is None:
            return [None] * len(values)
        if parts is None:
            results = function(xp, gradient, output, values, attributes, context, needs)
        else:
            results = function(math_of(xp), attributes, gradient, output, *_aligned(values, context.framed))
        if not isinstance(results, list | tuple) or len(results) != len(values):
            wanted = f"not a list with one gradient for each of the {len(values)} inputs of {op.name}"
            raise WrongResult(function, f"returned {shown(results)}, {wanted}")
        found = [result if needed else None for result, needed in zip(results, needs, strict=True)]
        return found if parts is None else _summed(xp, gradient, found, values, context.framed)


def _accepted(op: Op, inputs: Sequence[Any]) -> list[Any]:
    return [value if index in op.sparse_inputs else dense(value) for index, value in enumerate(inputs)]


def _aligned(values: Sequence[Array], framed: Sequence[bool]) -> list[Array]:
    rank = max((value.ndim - int(has) for value, has in zip(values, framed, strict=True)), default=0)
    return [align(value, has, rank) for value, has in zip(values, framed, strict=True)]


def _summed(
    xp: Any, gradient: Array, results: Sequence[Any], values: Sequence[Array], framed: Sequence[bool]
) -> list[Array | None]:
    found: list[Array | None] = [None] * len(values)
    for place, (result, value, has) in enumerate(zip(results, values, framed, strict=True)):
        if result is not None:
            full = xp.broadcast_to(xp.asarray(result, dtype=gradient.dtype), gradient.shape)
            found[place] = unbroadcast(xp, full, value.shape, has, any(framed))
    return found
