"""Layers along sequences: delays, windows, recurrences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from cntk._inherited import inherit
from cntk.default_options import default_override_or
from cntk.internal.utils import get_python_function_arguments
from cntk.layers._options import optional
from cntk.layers.blocks import get_initial_state_or_default, inject_name
from cntk.ops import combine, element_select, placeholder, reconcile_dynamic_axes, sequence, splice
from cntk.ops.functions import BlockFunction, Function

_ZERO = default_override_or(0)
_NO = default_override_or(False)


@optional
def Delay(T: int = 1, initial_state: Any = _ZERO, name: str = "") -> Function:
    """What was T steps ago; negative numbers look ahead."""
    state = get_initial_state_or_default(initial_state)
    return BlockFunction("Delay", name)(lambda x: sequence.delay(x, initial_state=state, time_step=T))


@optional
def PastValueWindow(window_size: int, axis: Any, go_backwards: Any = _NO, name: str = "") -> Function:
    """The last steps of each sequence along an axis, and 1 where there are such steps: two outputs.

    Args:
        window_size: how many steps.
        axis: along which they lie, in front of those of a step: -2 for vectors. An axis that a step has: they lie there
            one behind the other.
        go_backwards: the first steps instead.
        name: of the user.
    """
    final = sequence.first if go_backwards else sequence.last

    def nth(x: Any, offset: int) -> Any:
        return final(sequence.delay(x, time_step=-offset if go_backwards else offset))

    def window(x: Any) -> tuple[Any, Any]:
        ones = sequence.broadcast_as(1, x)
        values = [nth(x, offset) for offset in range(window_size)]
        there = [nth(ones, offset) for offset in range(window_size)]
        return splice(*values, axis=axis, name="value"), splice(*there, axis=axis, name="valid")

    return BlockFunction("PastValueWindow", name)(window)


def _step_of(step_function: Any) -> Function:
    """Return a step as a function.

    Raises:
        TypeError: it reads something else than its arguments, or makes parameters.
    """
    if not isinstance(step_function, FunctionType):
        return step_function  # type: ignore[no-any-return]
    try:
        return Function(step_function)  # type: ignore[no-any-return]
    except TypeError as error:
        if "parameters cannot be created" in str(error):
            raise TypeError("Parameter cannot be created inside Recurrence Python step function.") from None
        if "missing arguments" not in str(error):
            raise
        names, _ = get_python_function_arguments(step_function)
        raise TypeError(
            "Recurrence Python step function makes use of additional CNTK variables or placeholders: "
            f"it may read nothing but its arguments {names}"
        ) from None


@optional
def RecurrenceFrom(
    step_function: Any, go_backwards: Any = _NO, return_full_state: bool = False, name: str = ""
) -> Function:
    """A recurrence as a function of its initial states and a sequence.

    Args:
        step_function: from the states of the step before and the input to the states.
        go_backwards: from the last step to the first.
        return_full_state: give all states; otherwise the first.
        name: of the user.

    Raises:
        TypeError: the step has other arguments.
    """
    step = _step_of(step_function)
    count = len(step.outputs)
    if len(step.signature) != count + 1:
        arguments = ", ".join(each.name for each in step.signature)
        raise TypeError(f"RecurrenceFrom(): step_function has {count} states, but the arguments {arguments}")
    names = [each.name or f"state{index}" for index, each in enumerate(step.signature)]

    def recurrence_from(*given: Any) -> Function:
        states, x = given[:-1], given[-1]
        forward = [placeholder(name=each.name) for each in step.outputs]
        delayed = [
            sequence.delay(each, initial_state=state, time_step=-1 if go_backwards else 1)
            for each, state in zip(forward, states, strict=True)
        ]
        out = step(*delayed, x)
        made = out.outputs
        out.replace_placeholders(dict(zip(forward, made, strict=True)))
        return out if return_full_state else combine([made[0]])

    return inject_name(Function(named(recurrence_from, names)), name)  # type: ignore[no-any-return]


def named(f: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Return a function of any number of arguments with names for them."""
    f.argument_names = list(names)  # type: ignore[attr-defined]
    return f


@optional
def Recurrence(
    step_function: Any,
    go_backwards: Any = _NO,
    initial_state: Any = _ZERO,
    return_full_state: bool = False,
    name: str = "",
) -> Function:
    """A recurrence as a function of a sequence.

    Args:
        step_function: from the states of the step before and the input to the states; mostly a cell such as LSTM.
        go_backwards: from the last step to the first.
        initial_state: before the first step: a number, a variable, or a tuple of them.
        return_full_state: give all states; otherwise the first.
        name: of the user.
    """
    step = _step_of(step_function)
    states = get_initial_state_or_default(initial_state)
    count = len(step.outputs)
    given = states if isinstance(states, tuple) else (states,) * count
    recurrence = RecurrenceFrom(step, go_backwards=go_backwards, return_full_state=return_full_state)
    return inject_name(Function(named(lambda x: recurrence(*given, x), ["x"])), name)  # type: ignore[no-any-return]


@optional
def Fold(
    folder_function: Any,
    go_backwards: Any = _NO,
    initial_state: Any = _ZERO,
    return_full_state: bool = False,
    name: str = "",
) -> Function:
    """The last step of a recurrence (the first, backwards); arguments as of :func:`Recurrence`."""
    recurrence = Recurrence(
        folder_function, go_backwards=go_backwards, initial_state=initial_state, return_full_state=return_full_state
    )
    final = sequence.first if go_backwards else sequence.last

    def fold(x: Any) -> Any:
        found = recurrence(x).outputs
        return tuple(final(each) for each in found) if len(found) > 1 else final(found[0])

    return inject_name(Function(fold), name)  # type: ignore[no-any-return]


def UnfoldFrom(
    generator_function: Any, until_predicate: Any = None, length_increase: float = 1, name: str = ""
) -> Function:
    """A sequence made of an initial state: a function of it and of a sequence that says how long at most.

    Args:
        generator_function: from the state of the step before to the output and the states; of one value, it is both.
        until_predicate: of the output; the sequence ends with the first step where it is not 0.
        length_increase: how many times as long as the other sequence it may become.
        name: of the user.
    """
    generator = _step_of(generator_function)
    until = None if until_predicate is None else _step_of(until_predicate)

    def unfold_from(initial_state: Any, dynamic_axes_like: Any) -> Any:
        axis = dynamic_axes_like
        if length_increase != 1:
            factors = sequence.broadcast_as(length_increase, axis)
            axis = sequence.where(factors)
        forward = placeholder(name="unfold_state")
        started = sequence.broadcast_as(initial_state, axis)
        previous = element_select(sequence.is_first(axis), started, sequence.delay(forward, time_step=1))
        z = generator(previous)
        outputs = z.outputs
        output = reconcile_dynamic_axes(outputs[0], axis)
        state = outputs[1] if len(outputs) > 1 else outputs[0]
        combine([output, state]).replace_placeholders({forward: state})
        if until is None:
            return output
        ended = until(output)
        over = placeholder(name="over")
        seen = element_select(over, over, ended)
        before = sequence.delay(seen, time_step=1)
        seen.replace_placeholders({over: before.output})
        return sequence.gather(output, 1 - before)

    return inject_name(Function(unfold_from), name)  # type: ignore[no-any-return]


inherit(__name__)
