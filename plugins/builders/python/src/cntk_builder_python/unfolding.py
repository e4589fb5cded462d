"""Loops of unknown length: sequences that are made out of a state, step by step, until a predicate holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_builder_python import sequence
from cntk_builder_python.graph import Operand, Term, caller
from cntk_core.api import BuildError, DataError

Array = NDArray[Any]
Generator = Callable[..., Term | tuple[Term, ...]]


class UnfoldFrom:
    """A sequence out of a state: what a generator makes of the state before, again and again.

    All steps are computed as one loop, as long as sequences may become; what comes after the end of a sequence is then
    left out. :func:`unfold` stops earlier, but is no part of a network.

    Args:
        generator: from states to the new states, of which the first is the step of the sequence; or to one value more,
            which comes first and then is that step.
        until_predicate: from a step to 1 at the last one of a sequence, 0 before; without it sequences have the
            greatest length.
        length_increase: the greatest length, as a multiple of that of the sequence that is given in the call.
    """

    def __init__(
        self, generator: Generator, *, until_predicate: Callable[[Term], Term] | None = None, length_increase: float = 1
    ) -> None:
        self._generator = generator
        self._until = until_predicate
        self._increase = length_increase

    def __call__(self, initial_state: Operand | Sequence[Operand], axis_like: Term) -> Term:
        """Return the sequence.

        Args:
            initial_state: the state before the first step, or several: numbers, arrays, or terms without dynamic axis
                or with one frame for each sequence.
            axis_like: how long sequences may be; values do not count.

        Raises:
            BuildError: the generator gives too few or too many values.
        """
        graph = axis_like.graph
        axis = axis_like
        if self._increase != 1:
            axis = sequence.where(sequence.zeros_like(axis_like) + float(self._increase))
        first: list[Any] = list(initial_state) if isinstance(initial_state, tuple | list) else [initial_state]
        before = [
            graph.feedback(1, initial_state=graph.constant(state) if isinstance(state, int | float) else state)
            for state in first
        ]
        made = self._generator(*before)
        values = list(made) if isinstance(made, tuple | list) else [made]
        if len(values) not in (len(first), len(first) + 1):
            raise BuildError(
                f"the generator of UnfoldFrom gave {len(values)} values for {len(first)} states",
                where=caller(),
                hint="It gives as many values as there are states, or before them what the sequence shall have.",
            )
        states = [graph.apply("ReconcileDynamicAxis", state, axis) for state in values[-len(first) :]]
        for delay, state in zip(before, states, strict=True):
            delay.resolve_to(state)
        step = values[0] if len(values) > len(first) else states[0]
        return step if self._until is None else sequence.gather(step, _not_ended(self._until(step)))


def _not_ended(is_last: Term) -> Term:
    """1 up to the first step at which something holds, 0 after it."""
    before = is_last.graph.feedback(1, initial_state=1.0)
    return before.resolve_to((1.0 - sequence.past_value(is_last)) * before)


def unfold(
    evaluate: Callable[[Mapping[str, Sequence[Array]]], Mapping[str, Sequence[Array]]],
    state: Mapping[str, Array],
    feedback: Mapping[str, str],
    *,
    step: str,
    until: Callable[[Array], Any],
    most: int,
    given: Mapping[str, Array] | None = None,
) -> list[Array]:
    """Evaluate a network of one step again and again; sequences that have ended are left out of the next evaluation.

    Args:
        evaluate: of a network whose inputs and outputs are those of one step: ``Model.evaluate``.
        state: by input, the state before the first step: ``(sequences, *shape)``.
        feedback: by input, the output that is its value in the next step.
        step: the output that is the step of the sequence.
        until: from steps ``(sequences, *shape)`` to whether each is the last one of its sequence.
        most: the greatest length.
        given: by input, what stays the same for each sequence.

    Returns:
        For each sequence an array ``(length, *shape)``.

    Raises:
        DataError: inputs have other numbers of sequences, or one has a state that nothing gives a new value.
    """
    now = {name: np.asarray(rows) for name, rows in {**(given or {}), **state}.items()}
    lost = sorted(set(state) - set(feedback))
    if lost:
        raise DataError(f"no output is the next state of '{lost[0]}'", hint="feedback names one for each state.")
    counts = {name: len(rows) for name, rows in now.items()}
    if len(set(counts.values())) != 1:
        raise DataError(f"the inputs have different numbers of sequences: {counts}")
    alive = np.arange(next(iter(counts.values())))
    steps: list[list[Array]] = [[] for _ in alive]
    for _ in range(most):
        if not len(alive):
            break
        found = {name: rows[0] for name, rows in evaluate({name: [rows] for name, rows in now.items()}).items()}
        for place, row in zip(alive.tolist(), found[step], strict=True):
            steps[place].append(row)
        going = ~np.asarray(until(found[step]), bool).reshape(len(alive), -1).any(axis=1)
        alive = alive[going]
        now = {name: (found[feedback[name]] if name in feedback else rows)[going] for name, rows in now.items()}
    return [np.array(rows) for rows in steps]
