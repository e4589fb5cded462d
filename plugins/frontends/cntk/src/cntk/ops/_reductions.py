"""Reductions, softmax, and products."""

from __future__ import annotations

from typing import Any

from cntk.axis import Axis
from cntk.internal import sanitize_axis, sanitize_multi_axis_reduction_list
from cntk.ops import _elements as elements
from cntk.ops._making import axis as axis_of
from cntk.ops._making import block, made, one, operands, size
from cntk.ops.functions import Function
from cntk.variables import Variable

TIMES_NO_INFERRED_INPUT_RANK = -1
TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK = -2

_WHOLE = (Axis.all_static_axes(), Axis.all_axes())


def _reduced(x: Any, how: str, axes: Any, keepdims: bool, name: str) -> Function:
    """Reduce: over everything at once, or over static axes first, then over sequences, then over the batch.

    Raises:
        ValueError: there are no axes.
    """
    value = one(x)
    found = sanitize_multi_axis_reduction_list(axes)
    if not found:
        raise ValueError("a reduction needs an axis at least; None is all axes of a sample")
    if len(found) == 1 and found[0] in _WHOLE:
        return block("ReduceElements", name, [value], lambda a: _over(a, how, found, False))
    static = [each for each in found if each.is_static_axis]
    dynamic = [each for each in found if not each.is_static_axis]

    def inside(a: Variable) -> Function:
        result: Any = a
        if static:
            result = _over(result, how, static, keepdims)
        for each in sorted(dynamic, key=lambda one: not one.is_ordered):
            result = _over(result, how, [each], False)
        return result  # type: ignore[no-any-return]

    return block("ReduceElements", name, [value], inside)


def _over(a: Any, how: str, axes: list[Axis], keepdims: bool) -> Function:
    if len(axes) == 1:
        said: dict[str, Any] = {"axis": axis_of(axes[0])}
    else:
        said = {"axisVec": [axis_of(each) for each in axes]}
    return made("ReduceElements", one(a), reductionOpName=how, reductionKeepDimensions=keepdims, **said)


def reduce_sum(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The sum over axes: one or several, static or dynamic; None is all axes of a sample."""
    return _reduced(x, "Sum", axis, keepdims, name)


def reduce_mean(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The mean over axes; see :func:`reduce_sum`."""
    return _reduced(x, "Mean", axis, keepdims, name)


def reduce_max(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The largest element over axes; see :func:`reduce_sum`."""
    return _reduced(x, "Max", axis, keepdims, name)


def reduce_min(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The smallest element over axes; see :func:`reduce_sum`."""
    return _reduced(x, "Min", axis, keepdims, name)


def reduce_prod(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The product over axes; see :func:`reduce_sum`."""
    return _reduced(x, "Prod", axis, keepdims, name)


def reduce_log_sum_exp(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """``log(sum(exp(x)))`` over axes; see :func:`reduce_sum`."""
    return _reduced(x, "LogSum", axis, keepdims, name)


def reduce_l1(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The sum of absolute values over axes."""
    return block("ReduceL1", name, [one(x)], lambda a: reduce_sum(elements.abs(a), axis, keepdims))


def reduce_l2(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The root of the sum of squares over axes."""
    return block("ReduceL2", name, [one(x)], lambda a: elements.sqrt(reduce_sum_square(a, axis, keepdims)))


def reduce_sum_square(x: Any, axis: Any = None, keepdims: bool = True, name: str = "") -> Function:
    """The sum of squares over axes."""
    return block("ReduceSumSquare", name, [one(x)], lambda a: reduce_sum(elements.square(a), axis, keepdims))


def argmax(x: Any, axis: Any = None, name: str = "") -> Function:
    """The index of the largest element along an axis; None is all elements of a sample."""
    return _places(x, "Argmax", axis, name)


def argmin(x: Any, axis: Any = None, name: str = "") -> Function:
    """The index of the smallest element along an axis; None is all elements of a sample."""
    return _places(x, "Argmin", axis, name)


def _places(x: Any, how: str, axis: Any, name: str) -> Function:
    found = sanitize_axis(axis)
    keeps = found not in _WHOLE
    return made("ReduceElements", one(x), name=name, axis=axis_of(found), reductionOpName=how,
                reductionKeepDimensions=keeps)  # fmt: skip


def softmax(x: Any, axis: Any = None, name: str = "") -> Function:
    """``exp(x) / sum(exp(x))`` along an axis; None is the last one."""
    value = one(x)
    if axis is None:
        return made("Softmax", value, name=name)

    def inside(a: Variable) -> Function:
        raised = elements.exp(elements.minus(a, reduce_max(a, axis)))
        return elements.element_divide(raised, reduce_sum(raised, axis))

    return block("Softmax", name, [value], inside, axis=axis_of(sanitize_axis(axis)))


def log_softmax(x: Any, axis: Any = None, name: str = "") -> Function:
    """``x - log(sum(exp(x)))`` along an axis; None is the last one."""
    along = -1 if axis is None else axis

    def inside(a: Variable) -> Function:
        return elements.minus(a, reduce_log_sum_exp(a, along))

    return block("LogSoftmax", name, [one(x)], inside, axis=axis_of(sanitize_axis(along)))


def times(
    left: Any,
    right: Any,
    output_rank: int = 1,
    infer_input_rank_to_map: int = TIMES_NO_INFERRED_INPUT_RANK,
    name: str = "",
) -> Function:
    """The product of tensors: the sum over the last axes of the left one and the first of the right one.

    Args:
        left: ``(..., inner)``.
        right: ``(inner, ..., outputs)``.
        output_rank: how many of the last axes of the right operand are outputs.
        infer_input_rank_to_map: how many of the first axes of the left one are kept where the right one is a parameter
            whose shape is inferred; :data:`TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK` sums over sequences.
        name: of the user.
    """
    a, b = operands(left, right)
    if infer_input_rank_to_map == TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK:
        from cntk.ops.sequence import reduce_sum as sum_of_steps

        return sum_of_steps(times(a, b, output_rank), name)
    return made("Times", b, a, name=name, outputRank=size(output_rank), inferInputRankToMap=infer_input_rank_to_map)


def times_transpose(left: Any, right: Any, name: str = "") -> Function:
    """The product of the left operand and the transposed right one; of vectors their inner product."""
    a, b = operands(left, right)
    return made("TransposeTimes", b, a, name=name, outputRank=size(1))


__all__ = [
    "TIMES_NO_INFERRED_INPUT_RANK",
    "TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK",
    "argmax",
    "argmin",
    "log_softmax",
    "reduce_l1",
    "reduce_l2",
    "reduce_log_sum_exp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reduce_sum_square",
    "softmax",
    "times",
    "times_transpose",
]
