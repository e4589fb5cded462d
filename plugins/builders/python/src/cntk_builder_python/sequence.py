"""Sequences as wholes: ``sequence.first(x)``, ``sequence.last(x)``, ``sequence.gather(x, condition)``, ...

Most names are those of CNTK's Python interface. A sequence of one step stands for a value of the whole sequence.
"""

from __future__ import annotations

from cntk_builder_python.blocks import block
from cntk_builder_python.graph import Operand, Term
from cntk_builder_python.user_functions import outputs_of


def delay(x: Term, initial_state: Operand = 0.0, time_step: int = 1) -> Term:
    """Return the value of ``time_step`` steps ago (ahead, if negative); ``x`` itself for 0."""
    if time_step == 0:
        return x
    before = x.graph.feedback(time_step, initial_state=initial_state)
    before.resolve_to(x)
    return before


def past_value(x: Term, initial_state: Operand = 0.0, time_step: int = 1) -> Term:
    """Return the value of ``time_step`` steps ago, and ``initial_state`` before the first step."""
    return delay(x, initial_state, time_step)


def future_value(x: Term, initial_state: Operand = 0.0, time_step: int = 1) -> Term:
    """Return the value of ``time_step`` steps ahead, and ``initial_state`` after the last step."""
    return delay(x, initial_state, -time_step)


def zeros_like(x: Term) -> Term:
    """Return one 0 for each step of a sequence."""
    return x.graph.apply("SumColumnElements", x[0:1] * 0.0)


def is_first(x: Term) -> Term:
    """Return 1 at the first step, 0 at the others."""
    return past_value(zeros_like(x), 1.0)


def is_last(x: Term) -> Term:
    """Return 1 at the last step, 0 at the others."""
    return future_value(zeros_like(x), 1.0)


def where(condition: Term) -> Term:
    """Return the numbers (from 0) of the steps at which a condition is not 0, as a sequence of its own."""
    return condition.graph.apply("Where", condition)


def gather(x: Term, condition: Term) -> Term:
    """Return the steps of ``x`` at which a condition is not 0, as a shorter sequence."""
    places = x.graph.apply("PackedIndex", x, where(condition))
    return x.graph.apply("GatherPacked", places, x)


def scatter(x: Term, condition: Term) -> Term:
    """Put the steps of ``x`` where a condition is not 0, with zeros between them: the reverse of :func:`gather`."""
    places = x.graph.apply("PackedIndex", condition, where(condition))
    return x.graph.apply("ScatterPacked", condition, places, x)


def slice(x: Term, begin: int, end: int) -> Term:
    """Return the steps from ``begin`` (from 0) up to, not including, ``end``, as shorter sequences.

    Negative numbers count from the end of each sequence; an ``end`` of 0 is the end.
    """
    ones = zeros_like(x) + 1.0
    kept = []
    if begin:
        kept.append(past_value(ones, 0.0, begin) if begin > 0 else 1.0 - future_value(ones, 0.0, -begin))
    if end:
        kept.append(1.0 - past_value(ones, 0.0, end) if end > 0 else future_value(ones, 0.0, -end))
    if not kept:
        return x
    return gather(x, kept[0] if len(kept) == 1 else kept[0] * kept[1])


@block("First", "first")
def first(x: Term) -> Term:
    """Return the first step, as a sequence of one step."""
    return gather(x, is_first(x))


@block("Last", "last")
def last(x: Term) -> Term:
    """Return the last step, as a sequence of one step."""
    return gather(x, is_last(x))


@block("Reverse", "reverse")
def reverse(x: Term) -> Term:
    """Return a sequence with its last step first."""
    one = x.graph.constant(1.0, name="one")
    ones = zeros_like(x) + one
    later = x.graph.feedback(-1, initial_state=0.0)
    left = later.resolve_to(ones + later)
    places = x.graph.apply("PackedIndex", x, left - one)
    return x.graph.apply("GatherPacked", places, x)


def broadcast_as(x: Term, like: Term) -> Term:
    """Return ``x``, which has one step in each sequence or no dynamic axis, at all steps of sequences like ``like``."""
    return x.graph.apply("ReconcileDynamicAxis", x, like)


def position(x: Term) -> Term:
    """Return the number of each step in its sequence, from 0."""
    before = x.graph.feedback(initial_state=-1.0)
    return before.resolve_to(before + (zeros_like(x) + 1.0))


def reduce(x: Term, operation: str) -> Term:
    """Return one value for each sequence, of all of its steps: a sequence of one step.

    Args:
        x: sequences.
        operation: ``Sum``, ``Mean``, ``Max``, ``Min``, ``Prod``, ``LogSum`` (the logarithm of the sum of exponentials),
            or ``Argmax``, ``Argmin`` (the number of the step, from 0); element by element.
    """
    return x.graph.apply("ReduceElements", x, reduction_op=operation, axis=-2)


def reduce_sum(x: Term) -> Term:
    """Return the sum of the steps of each sequence."""
    return reduce(x, "Sum")


def reduce_mean(x: Term) -> Term:
    """Return the mean of the steps of each sequence."""
    return reduce(x, "Mean")


def reduce_max(x: Term) -> Term:
    """Return the largest of the steps of each sequence, element by element."""
    return reduce(x, "Max")


def softmax(x: Term) -> Term:
    """Return shares of the steps of each sequence, which add up to 1, element by element."""
    return x.graph.apply("Exp", x - broadcast_as(reduce(x, "LogSum"), x))


def times(left: Term, right: Term) -> Term:
    """Return for each sequence the sum of the products ``right @ left`` of its steps.

    ``left`` is ``(in, out)`` at each step, ``right`` ``(..., in)``. Of vectors ``(out,)`` and ``(n,)`` it is the sum of
    the products of all elements with all, ``(n, out)``.
    """
    return left.graph.apply("Times", left, right, infer_input_rank_to_map=-2)


@block("PastValueWindow", "past_value_window")
def past_value_window(x: Term, size: int) -> tuple[Term, Term]:
    """Return the last steps side by side, the last one first, as sequences of one step.

    Returns:
        The values ``(size, *shape)``, and which of them there are ``(size, 1)``: 0 where a sequence is shorter.
    """
    graph = x.graph
    at_end = graph.apply("PackedIndex", x, where(is_last(x)))
    ones = zeros_like(x) + 1.0
    values, valid = [], []
    for back in range(size):
        values.append(graph.apply("GatherPacked", at_end, delay(x, 0.0, back)))
        valid.append(graph.apply("GatherPacked", at_end, delay(ones, 0.0, back)))
    return stack(values), stack(valid)


@block("Unpack", "unpack")
def unpack(x: Term, padding_value: float = 0.0) -> tuple[Term, Term]:
    """Return whole sequences as matrices, which have one step in each sequence.

    Their first axis is as long as the longest sequence of each minibatch, so it can be no axis of a parameter.
    Operations element by element, reductions along it, and products with the others work on them.

    Returns:
        The values ``(longest, *shape)``, with ``padding_value`` behind shorter sequences, and which of the steps there
        are ``(longest, 1)``: 1, and 0 behind shorter sequences.
    """
    frames, there = outputs_of(x.graph.apply("UnpackSequence", x, padding_value=padding_value, with_mask=True))
    return frames, there


def to_sequence(x: Term, lengths: Term | None = None) -> Term:
    """Return the rows of matrices as the steps of sequences: all of them, or the first ``lengths``."""
    return x.graph.apply("ToSequence", *([x] if lengths is None else [x, lengths]))


def to_sequence_like(x: Term, like: Term) -> Term:
    """Return the rows of matrices as the steps of sequences as long as those of ``like``."""
    return x.graph.apply("ToSequenceLike", x, like)


def stack(terms: list[Term]) -> Term:
    """Return vectors as the rows of a matrix ``(terms, units)``."""
    return terms[0].graph.apply("RowStack", *terms, axis=2)
