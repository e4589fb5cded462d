"""Matrix products: Times, TransposeTimes, DiagTimes, KhatriRaoProduct."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.step_products import Split, times_over_steps
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import dense, flat_rows, sample_shape, samples
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, elements, from_cntk, show, to_cntk
from cntk_core.ops.language.traits import BY_ROWS, MatrixProduct

REDUCE_SEQUENCE_AXIS = -2
"""The value of ``inferInputRankToMap`` by which Times sums over the steps of a sequence."""


@attrs.frozen
class TimesAttributes:
    """Attributes of Times and TransposeTimes.

    Attributes:
        output_rank: how many of the left operand's first axes stay; the others are summed over.
        infer_input_rank_to_map: when the left operand's last dimension is to be inferred: how many of the right
            operand's last axes the product keeps; -1 infers no more axes than the left operand has. -2: the products of
            all steps of a sequence are summed up.
    """

    output_rank: int = 1
    infer_input_rank_to_map: int = -1


def _split(left: Shape, right: Shape, attributes: TimesAttributes) -> Split:
    """Group the axes of ``left * right``; the operands' shapes are the sample shapes.

    Raises:
        ShapeError: the operands do not fit.
    """
    dims, other = to_cntk(left), to_cntk(right)
    rank = attributes.output_rank
    if not 0 <= rank <= len(dims):
        raise ShapeError(f"outputRank {rank} does not fit the left operand {show(left)}")
    summed = dims[rank:]
    if tuple(other[: len(summed)]) != tuple(summed):
        found = _flattened(summed, other) if rank == 1 else None
        if found is None:
            raise _misfit(left, right, summed, other)
    else:
        found = len(summed)
    rest = from_cntk(other[found:])
    # Two vectors of which no axis stays have a product of one element.
    return Split(elements(summed), rest, from_cntk(dims[:rank]) or (() if rest else (1,)))


def _flattened(summed: Sequence[int], other: Sequence[int]) -> int | None:
    """How many first axes of the right operand a matrix's columns stand for, if there are any such."""
    if len(summed) != 1:
        return None
    counts = [count for count in range(1, len(other) + 1) if elements(other[:count]) == summed[0]]
    return counts[0] if counts else None


def _misfit(left: Shape, right: Shape, summed: Sequence[int], other: Sequence[int]) -> ShapeError:
    if len(other) < len(summed):
        return ShapeError(
            f"{show(left)} * {show(right)}: the product sums over {len(summed)} axes, "
            f"but the right operand has {len(other)}"
        )
    wanted = " x ".join(map(str, summed))
    given = " x ".join(map(str, other[: len(summed)]))
    return ShapeError(
        f"{show(left)} * {show(right)}: the inner dimensions differ, {wanted} on the left and {given} on the right"
    )


def _limits_of_transposed(attributes: TimesAttributes) -> str | None:
    if attributes.infer_input_rank_to_map <= REDUCE_SEQUENCE_AXIS:
        return "over the sequence axis (inferInputRankToMap=-2)"
    return None


def _form_of_times(attributes: TimesAttributes) -> Op:
    """Summed over the steps of a sequence it is another op."""
    return TIMES_OVER_STEPS if attributes.infer_input_rank_to_map <= REDUCE_SEQUENCE_AXIS else TIMES


def infer_times(shapes: Sequence[Shape], attributes: TimesAttributes) -> Shape:
    """Shape of A * B: in CNTK's order, A's first axes, then the axes of B that are not summed over."""
    split = _split(shapes[0], shapes[1], attributes)
    return split.rest + split.out


def guess_times(shapes: Sequence[Shape | None], attributes: TimesAttributes) -> Shape | None:
    """Guess the result from the left operand: its rows, if the right operand is taken for a vector."""
    left = shapes[0]
    if left is None or len(left) < attributes.output_rank:
        return None
    rows = from_cntk(to_cntk(left)[: attributes.output_rank])
    return None if 0 in rows else rows


def complete_times(shapes: Sequence[Shape], attributes: TimesAttributes) -> Sequence[Shape]:
    """Fill in dimensions 0 of the left operand's summed axes, and add axes if asked to."""
    dims, other = list(to_cntk(shapes[0])), to_cntk(shapes[1])
    rank = attributes.output_rank
    if 0 in dims[:rank]:
        raise ShapeError(f"the output dimensions of the left operand {show(shapes[0])} cannot be inferred")
    keep = attributes.infer_input_rank_to_map
    if keep >= 0 and dims[-1] == 0:
        if keep >= len(other):
            right = show(shapes[1])
            raise ShapeError(f"inferInputRankToMap {keep} leaves no axis of the right operand {right} to sum over")
        dims += [0] * (rank + len(other) - keep - len(dims))
    for axis in range(rank, min(len(dims), rank + len(other))):
        dims[axis] = dims[axis] or other[axis - rank]
    return [from_cntk(dims), *shapes[1:]]


def _matrices(value: Array, framed: bool, inner: int, outer: int) -> Array:
    """The left operand as a matrix ``(inner, outer)``, or one for each frame."""
    return value.reshape(value.shape[0], inner, outer) if framed else value.reshape(inner, outer)


def _rows(value: Array, inner: int) -> Array:
    """The right operand (dense or sparse) as one matrix ``(rows, inner)``."""
    return value if value.ndim == 2 and value.shape[1] == inner else value.reshape(-1, inner)


def _product(xp: Any, left: Array, right: Array, split: Split, framed: tuple[bool, ...]) -> Array:
    outer = elements(split.out)
    matrices = _matrices(left, framed[0], split.inner, outer)
    if framed[0]:
        stacked = dense(right).reshape(-1, elements(split.rest), split.inner)
        return xp.matmul(stacked, matrices).reshape(left.shape[0], *split.rest, *split.out)
    result = _rows(right, split.inner) @ matrices
    frames = (right.shape[0],) if framed[1] else ()
    return result.reshape(*frames, *split.rest, *split.out)


def _product_gradients(
    xp: Any,
    gradient: Array,
    left: Array,
    right: Array,
    split: Split,
    framed: tuple[bool, ...],
    needs: Sequence[bool],
) -> tuple[Array | None, Array | None]:
    outer = elements(split.out)
    matrices = _matrices(left, framed[0], split.inner, outer)
    to_left = to_right = None
    if framed[0]:
        stacked = dense(right).reshape(-1, elements(split.rest), split.inner)
        incoming = gradient.reshape(left.shape[0], elements(split.rest), outer)
        if needs[0]:
            to_left = xp.matmul(xp.swapaxes(stacked, 1, 2), incoming).reshape(left.shape)
        if needs[1]:
            each = xp.matmul(incoming, xp.swapaxes(matrices, 1, 2))
            to_right = (each if framed[1] else xp.sum(each, axis=0)).reshape(right.shape)
        return to_left, to_right
    incoming = gradient.reshape(-1, outer)
    if needs[0]:
        to_left = (_rows(right, split.inner).T @ incoming).reshape(left.shape)
    if needs[1]:
        to_right = (incoming @ matrices.T).reshape(right.shape)
    return to_left, to_right


def _split_of(inputs: Sequence[Array], attributes: TimesAttributes, context: OpContext) -> Split:
    left, right = (sample_shape(value, framed) for value, framed in zip(inputs, context.framed, strict=True))
    return _split(left, right, attributes)


def product_of(xp: Any, inputs: Sequence[Array], attributes: TimesAttributes, context: OpContext) -> Array:
    """Return the product of two values as Times computes it: ``(frames, *shape)``, without frames of two without."""
    split = _split_of(inputs, attributes, context)
    return _product(xp, inputs[0], inputs[1], split, context.framed)


def _times_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: TimesAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    split = _split_of(inputs, attributes, context)
    return _product_gradients(xp, gradient, inputs[0], inputs[1], split, context.framed, needs)


def _output_rank(attributes: TimesAttributes) -> int:
    return attributes.output_rank


def _operations(shapes: Sequence[Shape], shape: Shape, attributes: Any) -> int:
    """``2 m k n`` of a product of ``m x k`` and ``k x n``: (m k) (k n) (m n) is the square of m k n."""
    return 2 * math.isqrt(math.prod(map(elements, [*shapes[:2], shape])))


_PRODUCT = attrs.evolve(BY_ROWS, summed_at_end=True, product=MatrixProduct(outer=_output_rank), operations=_operations)


@define_op(
    "Times",
    inputs=2,
    infer=infer_times,
    gradient=_times_gradient,
    attributes=TimesAttributes,
    complete=complete_times,
    guess=guess_times,
    form=_form_of_times,
    reads_output=False,
    sparse_inputs=frozenset({1}),
    traits=_PRODUCT,
)
def TIMES(xp: Any, inputs: Sequence[Array], attributes: TimesAttributes, context: OpContext) -> Array:
    """Product of a matrix or tensor with a vector, matrix or tensor; sums over A's last and B's first axes or steps."""
    return product_of(xp, inputs, attributes, context)


TIMES_OVER_STEPS = times_over_steps(TimesAttributes, infer_times, _form_of_times, _split_of)


def _transposed(shape: Shape, attributes: TimesAttributes) -> Shape:
    """Shape of A' for a matrix or column vector A."""
    if attributes.output_rank != 1:
        raise ShapeError(f"outputRank must be 1 when the left operand is transposed, not {attributes.output_rank}")
    if len(shape) == 1:
        return (*shape, 1)
    if len(shape) != 2:
        raise ShapeError(f"only a matrix or a vector can be transposed, not {show(shape)}")
    return (shape[1], shape[0])


def _infer_transpose_times(shapes: Sequence[Shape], attributes: TimesAttributes) -> Shape:
    return infer_times([_transposed(shapes[0], attributes), shapes[1]], attributes)


def _complete_transpose_times(shapes: Sequence[Shape], attributes: TimesAttributes) -> Sequence[Shape]:
    if len(shapes[0]) == 1:
        return [tuple(dim or shapes[1][-1] for dim in shapes[0]), shapes[1]]
    left, right = complete_times([_transposed(shapes[0], attributes), shapes[1]], attributes)
    return [tuple(reversed(left)), right]


def _guess_transpose_times(shapes: Sequence[Shape | None], attributes: TimesAttributes) -> Shape | None:
    left = shapes[0]
    return None if left is None else guess_times([_transposed(left, attributes), shapes[1]], attributes)


def _transpose(xp: Any, value: Array, framed: bool) -> Array:
    if value.ndim - int(framed) == 1:
        return value[..., None]
    return xp.swapaxes(value, -1, -2)


def _transpose_times_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: TimesAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    left = _transpose(xp, inputs[0], context.framed[0])
    split = _split_of([left, inputs[1]], attributes, context)
    to_left, to_right = _product_gradients(xp, gradient, left, inputs[1], split, context.framed, needs)
    if to_left is not None:
        to_left = xp.swapaxes(to_left, -1, -2).reshape(inputs[0].shape)
    return to_left, to_right


@define_op(
    "TransposeTimes",
    inputs=2,
    infer=_infer_transpose_times,
    gradient=_transpose_times_gradient,
    attributes=TimesAttributes,
    complete=_complete_transpose_times,
    guess=_guess_transpose_times,
    limits=_limits_of_transposed,
    reads_output=False,
    sparse_inputs=frozenset({1}),
    traits=attrs.evolve(_PRODUCT, product=MatrixProduct(transposed=True, outer=_output_rank)),
)
def TRANSPOSE_TIMES(xp: Any, inputs: Sequence[Array], attributes: TimesAttributes, context: OpContext) -> Array:
    """Product of the transpose of a matrix with a vector or matrix."""
    left = _transpose(xp, inputs[0], context.framed[0])
    split = _split_of([left, inputs[1]], attributes, context)
    return _product(xp, left, inputs[1], split, context.framed)


def _infer_diag_times(shapes: Sequence[Shape], attributes: Any) -> Shape:
    diagonal, data = shapes
    rows = data[-1] if data else 1
    if elements(diagonal) not in (rows, elements(data)):
        raise ShapeError(f"the diagonal {show(diagonal)} does not fit {show(data)}, which has {rows} rows")
    return data


def _complete_diag_times(shapes: Sequence[Shape], attributes: Any) -> Sequence[Shape]:
    diagonal, data = shapes
    return [(*(dim or 1 for dim in diagonal[:-1]), diagonal[-1] or elements(data)), data]


def _diagonal_and_rows(inputs: Sequence[Array], context: OpContext) -> tuple[Array, Array]:
    """The diagonal as ``(1 or frames, 1, n)`` and the data as ``(1 or frames, rows, n)``."""
    diagonal, data = inputs
    frames = [value.shape[0] if framed else 1 for value, framed in zip(inputs, context.framed, strict=True)]
    size = elements(sample_shape(diagonal, context.framed[0]))
    rows = elements(sample_shape(data, context.framed[1])) // size
    return diagonal.reshape(frames[0], 1, size), data.reshape(frames[1], rows, size)


def _diag_times_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    diagonal, rows = _diagonal_and_rows(inputs, context)
    incoming = gradient.reshape(-1, *rows.shape[1:])
    to_diagonal = xp.sum(incoming * rows, axis=1, keepdims=True)
    if not context.framed[0]:
        to_diagonal = xp.sum(to_diagonal, axis=0)
    to_rows = incoming * diagonal
    if not context.framed[1]:
        to_rows = xp.sum(to_rows, axis=0)
    return to_diagonal.reshape(inputs[0].shape), to_rows.reshape(inputs[1].shape)


@define_op(
    "DiagTimes",
    inputs=2,
    infer=_infer_diag_times,
    gradient=_diag_times_gradient,
    complete=_complete_diag_times,
    guess=lambda shapes, attributes: shapes[1] or shapes[0],
    reads_output=False,
    traits=attrs.evolve(BY_ROWS, summed_at_end=True),
)
def DIAG_TIMES(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Product of a diagonal matrix, given by its diagonal, with a vector or matrix."""
    diagonal, rows = _diagonal_and_rows(inputs, context)
    product = diagonal * rows
    sample = sample_shape(inputs[1], context.framed[1])
    return product.reshape(product.shape[0], *sample) if any(context.framed) else product.reshape(sample)


def _infer_khatri_rao(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return (elements(shapes[0]) * elements(shapes[1]),)


def _sides(inputs: Sequence[Array], context: OpContext) -> tuple[Array, Array]:
    """The operands as ``(1 or frames, 1, n)`` and ``(1 or frames, m, 1)``, so that their product has a's axis last."""
    left, right = (samples(value, framed) for value, framed in zip(inputs, context.framed, strict=True))
    return left[:, None, :], right[:, :, None]


def _khatri_rao_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    left, right = _sides(inputs, context)
    incoming = gradient.reshape(-1, right.shape[1], left.shape[2])
    to_left, to_right = xp.sum(incoming * right, axis=1), xp.sum(incoming * left, axis=2)
    return [
        (each if framed else xp.sum(each, axis=0)).reshape(value.shape)
        for each, framed, value in zip((to_left, to_right), context.framed, inputs, strict=True)
    ]


@define_op(
    "KhatriRaoProduct",
    inputs=2,
    infer=_infer_khatri_rao,
    gradient=_khatri_rao_gradient,
    reads_output=False,
    aliases={"ndl": ("ColumnwiseCrossProduct",), "brainscript": ("ColumnwiseCrossProduct",)},
    traits=BY_ROWS,
)
def KHATRI_RAO_PRODUCT(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """All products of an element of a and an element of b, sample by sample; a's index runs faster."""
    left, right = _sides(inputs, context)
    product = left * right
    return flat_rows(product) if any(context.framed) else product.reshape(-1)


OPS = (TIMES, TRANSPOSE_TIMES, DIAG_TIMES, KHATRI_RAO_PRODUCT)
