"""Recurrences: what makes a function of sequences of a cell, or of any step function.

A step function takes the states of the step before and the input, and returns the new states, the output first:
``(h, x) -> h`` or ``(h, c, x) -> (h, c)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from cntk_builder_python import sequence
from cntk_builder_python.blocks import layer
from cntk_builder_python.cells import LSTM, Cell
from cntk_builder_python.functions import splice
from cntk_builder_python.graph import Operand, Term, caller
from cntk_builder_python.layers import Layer, Sequential
from cntk_core.api import BuildError

Step = Callable[..., Any]
LEARNED = "learned"
"""The initial state that is a parameter, which starts at 0."""


class Recurrence(Layer):
    """Apply a step function along a sequence: ``Recurrence(LSTM(300))(x)``.

    Args:
        step: a cell or step function.
        go_backwards: from the last step to the first.
        initial_state: what stands before the first step: a number, an array, a term (a parameter, or one frame for
            each sequence), ``"learned"``, or a tuple with one of these for each state.
        return_full_state: return a tuple of all states instead of the first.
        name: stem of the names of the delays and of learned initial states.
    """

    stem = "recurrence"

    def __init__(
        self,
        step: Step,
        *,
        go_backwards: bool = False,
        initial_state: Any = 0.0,
        return_full_state: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.step = step
        self.states = state_names(step)
        self.go_backwards = go_backwards
        self.initial_state = initial_state
        self.return_full_state = return_full_state

    @layer
    def __call__(self, x: Term) -> Any:
        """Apply the recurrence.

        Raises:
            BuildError: there are more or fewer initial states than states, or the step function returns so.
        """
        return self._apply(x)

    def _apply(self, x: Term) -> Any:
        given = self.initial_state
        return self._run(x, given if isinstance(given, tuple) else (given,) * len(self.states))

    def _run(self, x: Term, initial: Sequence[Any]) -> Any:
        stem = self._enter(x)
        if len(initial) != len(self.states):
            raise _miscounted("initial states", len(initial), self.states)
        time_step = -1 if self.go_backwards else 1
        delays = [
            x.graph.feedback(time_step, initial_state=self._initial(x, name, value), name=f"{stem}.{name}")
            for name, value in zip(self.states, initial, strict=True)
        ]
        result = self.step(*delays, x)
        states = result if isinstance(result, tuple) else (result,)
        if len(states) != len(delays):
            raise _miscounted("results of the step function", len(states), self.states)
        for delay, state in zip(delays, states, strict=True):
            delay.resolve_to(state)
        return states if self.return_full_state else states[0]

    def _initial(self, x: Term, name: str, value: Any) -> Operand:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        if value == LEARNED:
            return self._own(x, f"initial{name.upper()}", (0,), init=0.0)
        raise BuildError(
            f"'{value}' is no initial state",
            where=caller(),
            hint=f'It is a number, an array, a term, "{LEARNED}", or a tuple of these.',
        )


class RecurrenceFrom(Recurrence):
    """A recurrence whose initial states are operands: ``RecurrenceFrom(LSTM(300))(h0, c0, x)``.

    Arguments are those of :class:`Recurrence`, without ``initial_state``.
    """

    def __init__(
        self, step: Step, *, go_backwards: bool = False, return_full_state: bool = False, name: str | None = None
    ) -> None:
        super().__init__(step, go_backwards=go_backwards, return_full_state=return_full_state, name=name)

    @layer
    def __call__(self, *operands: Any) -> Any:
        """Apply the recurrence to the initial states and the input.

        Raises:
            BuildError: there are more or fewer initial states than states, or the step function returns so.
        """
        *initial, x = operands
        return self._run(x, initial)


class Fold(Recurrence):
    """The last result of a recurrence, as a sequence of one step; of one that goes backwards, the first.

    Arguments are those of :class:`Recurrence`.
    """

    stem = "fold"

    @layer
    def __call__(self, x: Term) -> Any:
        """Apply the recurrence and take its last result.

        Raises:
            BuildError: there are more or fewer initial states than states, or the step function returns so.
        """
        result = self._apply(x)
        pick = sequence.first if self.go_backwards else sequence.last
        return tuple(map(pick, result)) if isinstance(result, tuple) else pick(result)


class BiRecurrence(Layer):
    """Two recurrences, forwards and backwards, with their results side by side.

    Args:
        forward, backward: cells or step functions, with parameters of their own.
        initial_state: of both, see :class:`Recurrence`.
        name: stem of names: ``name.fwd``, ``name.bwd``.
    """

    stem = "birecurrence"

    def __init__(self, forward: Step, backward: Step, *, initial_state: Any = 0.0, name: str | None = None) -> None:
        super().__init__(name)
        if forward is backward:
            raise TypeError("BiRecurrence needs two cells; one cell in both directions would share its parameters")
        self.directions = (forward, backward)
        self.initial_state = initial_state
        self._recurrences: list[Recurrence] = []

    def _enter(self, x: Term) -> str:
        if self._graph is not x.graph:
            name = super()._enter(x)
            self._recurrences = [
                Recurrence(step, go_backwards=back, initial_state=self.initial_state, name=f"{name}.{key}")
                for step, back, key in zip(self.directions, (False, True), ("fwd", "bwd"), strict=True)
            ]
        return self.name

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply both."""
        self._enter(x)
        return splice(*(recurrence(x) for recurrence in self._recurrences))


class Delay:
    """The input of ``T`` steps ago; ``-T`` steps ahead if negative; the input itself if 0.

    Args:
        T: steps.
        initial_state: what stands before the first step (after the last).
    """

    def __init__(self, T: int = 1, initial_state: Operand = 0.0) -> None:
        self.steps = T
        self.initial_state = initial_state

    def __call__(self, x: Term) -> Term:
        """Apply the delay."""
        return sequence.delay(x, self.initial_state, self.steps)


class RecurrentLSTMLayer(Layer):
    """BrainScript's layer of this name: the same parameters, and 0.1 as the state before the first step.

    Args:
        units: width of the output.
        cell_units: width of the cell, if the output is projected (BrainScript's ``cellShape``).
        go_backwards: from the last step to the first.
        use_peepholes, enable_self_stabilization, init, scale: see :class:`~cntk_builder_python.cells.LSTM`.
        train_initial_state: the state before the first step is learned.
        name: as in BrainScript; the parameters are ``name.lstm.B``, ``.W``, ``.H``, ...
    """

    stem = "lstmlayer"

    def __init__(
        self,
        units: int,
        cell_units: int | None = None,
        *,
        go_backwards: bool = False,
        train_initial_state: bool = False,
        name: str | None = None,
        **how: Any,
    ) -> None:
        super().__init__(name)
        self.cell: Callable[[str], Cell] = lambda stem: LSTM(units, cell_units, name=f"{stem}.lstm", **how)
        self.go_backwards = go_backwards
        self.initial_state = LEARNED if train_initial_state else 0.1
        self._recurrence: Recurrence | None = None

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        if self._graph is not x.graph or self._recurrence is None:
            stem = self._enter(x)
            self._recurrence = Recurrence(
                self.cell(stem),
                go_backwards=self.go_backwards,
                initial_state=self.initial_state,
                name=f"{stem}.previousHook",
            )
        return self._recurrence(x)  # type: ignore[no-any-return]


def RecurrentLSTMLayerStack(
    units: Sequence[int], cell_units: Sequence[int] | None = None, *, name: str = "lstmstack", **how: Any
) -> Sequential:
    """Return BrainScript's stack of layers; ``units`` and ``cell_units`` have a number for each.

    The other arguments are those of :class:`RecurrentLSTMLayer`; layer i is called ``name.arrayOfFunctions[i]``.
    """
    cells = cell_units if cell_units is not None else units
    return Sequential(
        *(
            RecurrentLSTMLayer(width, cell, name=f"{name}.arrayOfFunctions[{number}]", **how)
            for number, (width, cell) in enumerate(zip(units, cells, strict=True))
        )
    )


def state_names(step: Step) -> tuple[str, ...]:
    """Return names of the states of a cell or step function: its parameters but the last, without defaults.

    Raises:
        BuildError: it does not take a state and an input.
    """
    if isinstance(step, Cell):
        return step.states
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [
        parameter.name
        for parameter in inspect.signature(step).parameters.values()
        if parameter.kind in positional and parameter.default is inspect.Parameter.empty
    ]
    if len(names) < 2:
        raise BuildError(
            f"a step function takes one or more states and the input, not ({', '.join(names)})",
            where=caller(),
            hint="For example: lambda h, x: tanh(dense(splice(h, x)))",
        )
    return tuple(names[:-1])


def _miscounted(what: str, count: int, states: Sequence[str]) -> BuildError:
    plural = "s" if len(states) > 1 else ""
    return BuildError(f"{count} {what} for {len(states)} state{plural} ({', '.join(states)})", where=caller())
