"""Operators along sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk._inherited import inherit
from cntk.axis import Axis
from cntk.default_options import default_override_or, get_default_override
from cntk.internal import sanitize_input
from cntk.ops import _elements as elements
from cntk.ops._making import axis as axis_of
from cntk.ops._making import block, made, one, size
from cntk.ops.functions import Function
from cntk.variables import Variable

_SINGLE = default_override_or(np.float32)


def input_variable(
    shape: Any,
    dtype: Any = _SINGLE,
    needs_gradient: bool = False,
    is_sparse: bool = False,
    sequence_axis: Any = None,
    name: str = "",
) -> Variable:
    """Return an input: a sequence for each sample of a minibatch.

    Args:
        shape: of a step.
        dtype: float32 or float64.
        needs_gradient: gradients flow to it.
        is_sparse: data give only elements that are not zero.
        sequence_axis: the axis of the sequences; those of other axes have other lengths.
        name: of the user.
    """
    from cntk import ops

    axis = Axis.default_dynamic_axis() if sequence_axis is None else sequence_axis
    typed = get_default_override(input_variable, dtype=dtype)
    return ops.input_variable(
        shape, np.float32 if typed is None else typed, needs_gradient, is_sparse,
        [Axis.default_batch_axis(), axis], name,
    )  # fmt: skip


input = input_variable


def _delayed(kind: str, x: Any, initial_state: Any, time_step: int, name: str) -> Function:
    value = one(x)
    dtype = np.float32 if value._dtype is None else value._dtype
    state = sanitize_input(0.0 if initial_state is None else initial_state, dtype)
    return made(kind, value, state, name=name, offset=size(time_step))


def delay(x: Any, initial_state: Any = None, time_step: int = 1, name: str = "") -> Function:
    """What was so many steps ago; negative numbers look ahead, and 0 is the operand.

    Args:
        x: a sequence.
        initial_state: what there was before the first step (will be after the last); 0 by default.
        time_step: how many steps.
        name: of the user.
    """
    if time_step > 0:
        return past_value(x, initial_state, time_step, name)
    if time_step < 0:
        return future_value(x, initial_state, -time_step, name)
    from cntk.ops import alias

    return alias(x, name) if name else Function._of(alias(x)._primitive)


def past_value(x: Any, initial_state: Any = None, time_step: int = 1, name: str = "") -> Function:
    """What was so many steps ago; see :func:`delay`."""
    return _delayed("PastValue", x, initial_state, time_step, name)


def future_value(x: Any, initial_state: Any = None, time_step: int = 1, name: str = "") -> Function:
    """What will be so many steps ahead; see :func:`delay`."""
    return _delayed("FutureValue", x, initial_state, time_step, name)


def _edge(kind: str, a: Any) -> Function:
    """1 at the first step (the last one, for FutureValue), else 0."""
    zeros = made("ReconcileDynamicAxis", sanitize_input(0.0, a._dtype or np.float32), a)
    return made(kind, zeros.output, sanitize_input(1.0, a._dtype or np.float32), offset=size(1))


def is_first(seq: Any, name: str = "") -> Function:
    """1 at the first step of each sequence, else 0."""
    return block("Sequence::IsFirst", name, [one(seq)], lambda a: _edge("PastValue", a))


def is_last(seq: Any, name: str = "") -> Function:
    """1 at the last step of each sequence, else 0."""
    return block("Sequence::IsLast", name, [one(seq)], lambda a: _edge("FutureValue", a))


def slice(seq: Any, begin_index: int, end_index: int, name: str = "") -> Function:
    """Steps of each sequence; a single one has no sequence axis any more.

    Args:
        seq: a sequence.
        begin_index: the first step; negative ones count from the end.
        end_index: the step behind the last; 0 is the end.
        name: of the user.

    Raises:
        ValueError: no step can be between both.
    """
    counted_alike = (begin_index >= 0) == (end_index > 0)
    if end_index and (begin_index == end_index or (counted_alike and begin_index > end_index)):
        raise ValueError(f"there is no step from {begin_index} to {end_index}")
    single = end_index - begin_index == 1 and (begin_index >= 0 or end_index <= 0)

    def inside(a: Variable) -> Function:
        flags = _between(a, begin_index, end_index)
        return _taken(a, flags.output, single=single)

    return block("Sequence::Slice", name, [one(seq)], inside)


def _between(a: Variable, begin: int, end: int) -> Function:
    """1 at the steps of a range, else 0."""
    if (begin, end) == (0, 1):
        return _edge("PastValue", a)
    if (begin, end) == (-1, 0):
        return _edge("FutureValue", a)
    flags = []
    if begin > 0:
        flags.append(elements.minus(1.0, _first(a, "PastValue", begin)))
    elif begin < 0:
        flags.append(_first(a, "FutureValue", -begin))
    if end > 0:
        flags.append(_first(a, "PastValue", end))
    elif end < 0:
        flags.append(elements.minus(1.0, _first(a, "FutureValue", -end)))
    if not flags:
        return made("ReconcileDynamicAxis", sanitize_input(1.0, a._dtype or np.float32), a)
    return flags[0] if len(flags) == 1 else elements.element_times(*flags)


def _first(a: Variable, kind: str, count: int) -> Function:
    """1 at so many first (or last) steps, else 0."""
    zeros = made("ReconcileDynamicAxis", sanitize_input(0.0, a._dtype or np.float32), a)
    return made(kind, zeros.output, sanitize_input(1.0, a._dtype or np.float32), offset=size(count))


def _taken(a: Variable, flags: Variable, *, single: bool = False, attributes: Any = None) -> Function:
    places = made("PackedIndex", a, _where(flags, single=single, attributes=attributes).output)
    return made("GatherPacked", a, places.output)


def _where(flags: Variable, *, single: bool = False, attributes: Any = None, name: str = "") -> Function:
    batch = axis_of(Axis.default_batch_axis())
    if attributes is None:
        if single:
            attributes = {"newDynamicAxes": [batch], "newSequenceAxisLengthScalingFactor": size(0),
                          "newSequenceAxisLengthAdditiveFactor": size(1)}  # fmt: skip
        else:
            attributes = {"newDynamicAxes": [axis_of(_axis_of_flags(flags)), batch]}
    return made("Where", flags, name=name, **attributes)


_AXES: dict[str, Axis] = {}


def _axis_of_flags(flags: Variable) -> Axis:
    """The sequence axis of what some flags choose: those of one variable choose steps of one axis."""
    if flags.uid not in _AXES:
        _AXES[flags.uid] = Axis.new_unique_dynamic_axis(f"whereNodeDynamicAxis_conditionVar_{flags.uid}")
    return _AXES[flags.uid]


def _new_axis(flags: Variable, type_info: Any) -> dict[str, Any]:
    batch = axis_of(Axis.default_batch_axis())
    if type_info is None:
        return {"newDynamicAxes": [axis_of(_axis_of_flags(flags)), batch]}
    scale, more = type_info
    new = [batch] if (scale, more) == (0, 1) else [axis_of(_axis_of_flags(flags)), batch]
    return {"newDynamicAxes": new, "newSequenceAxisLengthScalingFactor": size(scale),
            "newSequenceAxisLengthAdditiveFactor": size(more)}  # fmt: skip


def first(seq: Any, name: str = "") -> Function:
    """The first step of each sequence."""
    return slice(seq, 0, 1, name)


def last(seq: Any, name: str = "") -> Function:
    """The last step of each sequence."""
    return slice(seq, -1, 0, name)


def where(condition: Any, name: str = "") -> Function:
    """The numbers of the steps where a condition is not 0."""
    flags = one(condition)
    return block("Where", name, [flags], lambda a: _where(a, attributes=_new_axis(flags, None)))


def gather(seq: Any, condition: Any, new_sequence_axis_typeinfo: Any = None, name: str = "") -> Function:
    """The steps where a condition is not 0.

    Args:
        seq: a sequence.
        condition: a number at each step.
        new_sequence_axis_typeinfo: ``(factor, summand)``: how long the result is, by the length of the sequence;
            ``(0, 1)`` says that there is one step, so that the result has no sequence axis.
        name: of the user.
    """
    flags = one(condition)
    attributes = _new_axis(flags, new_sequence_axis_typeinfo)
    return block("Sequence::Gather", name, [one(seq), flags], lambda a, b: _taken(a, b, attributes=attributes))


def scatter(seq: Any, condition: Any, new_sequence_axis_typeinfo: Any = None, name: str = "") -> Function:
    """Put the steps of a sequence where a condition is not 0, and 0 elsewhere."""
    flags = one(condition)
    attributes = _new_axis(flags, new_sequence_axis_typeinfo)

    def inside(a: Variable, b: Variable) -> Function:
        places = made("PackedIndex", b, _where(b, attributes=attributes).output)
        return made("ScatterPacked", a, places.output, b)

    return block("Sequence::Scatter", name, [one(seq), flags], inside)


def broadcast_as(operand: Any, broadcast_as_operand: Any, name: str = "") -> Function:
    """A value of each sample (or a constant) at each step of a sequence."""
    given = [one(operand), one(broadcast_as_operand)]
    return block("Sequence::BroadcastAs", name, given, lambda a, b: made("ReconcileDynamicAxis", a, b))


def unpack(x: Any, padding_value: float, no_mask_output: bool = False, name: str = "") -> Function:
    """Sequences as a static axis, as long as the longest.

    Args:
        x: a sequence.
        padding_value: behind the ends of shorter ones.
        no_mask_output: give only this; otherwise also 1 where there is a step, else 0.
        name: of the user.
    """
    return made("UnpackSequence", one(x), name=name, sequenceUnpackPaddingValue=float(padding_value),
                sequenceUnpackSuppressMaskOutput=no_mask_output)  # fmt: skip


def _reduced(a: Variable, how: str) -> Function:
    axis = Axis.default_dynamic_axis()
    return made("ReduceElements", a, axis=axis_of(axis), reductionOpName=how, reductionKeepDimensions=False)


def reduce_sum(seq: Any, name: str = "") -> Function:
    """The sum over the steps of each sequence."""
    return block("Sequence::ReduceElements", name, [one(seq)], lambda a: _reduced(a, "Sum"))


def reduce_max(seq: Any, name: str = "") -> Function:
    """The largest value of the steps of each sequence, element by element."""
    return block("Sequence::ReduceElements", name, [one(seq)], lambda a: _reduced(a, "Max"))


def softmax(seq: Any, name: str = "") -> Function:
    """``exp(x) / sum(exp(x))`` over the steps of each sequence."""

    def inside(a: Variable) -> Function:
        top = made("ReconcileDynamicAxis", _reduced(a, "Max").output, a)
        raised = elements.exp(elements.minus(a, top)).output
        total = made("ReconcileDynamicAxis", _reduced(raised, "Sum").output, raised)
        return elements.element_divide(raised, total)

    return block("Sequence::Softmax", name, [one(seq)], inside)


def reduce_concat_pool(seq: Any, name: str = "") -> Function:
    """The last step, the largest values and the mean of each sequence, one behind the other."""
    from cntk.ops import splice

    value = one(seq)
    count = reduce_sum(broadcast_as(sanitize_input(1.0), value))
    pooled = [last(value), reduce_max(value), elements.element_divide(reduce_sum(value), count)]
    return splice(*pooled, axis=0, name=name)


inherit(__name__)
