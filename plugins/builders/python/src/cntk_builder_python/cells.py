"""Cells of recurrent networks: functions from the state of the step before and the input of this step to the state.

Parameters have the names, shapes and order of the BrainScript library's, so that a model of either can be read by the
other. A cell is made a network by :class:`~cntk_builder_python.recurrence.Recurrence` or ``Fold``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from cntk_builder_python.blocks import layer
from cntk_builder_python.functions import Function, sigmoid, tanh
from cntk_builder_python.graph import Init, Term
from cntk_builder_python.layers import StabilizedLayer


class Cell(StabilizedLayer, ABC):
    """Base of the cells.

    Args:
        units: width of the output h.
        cell_units: width inside, if h is projected from something wider (or narrower).
        activation: of the candidate.
        init, scale: how the weights start; see :meth:`Graph.parameter`.
        init_bias: how the biases start.
        enable_self_stabilization: a :class:`Stabilizer` at every place where the state is used.
        name: stem of the parameter names.
    """

    states: tuple[str, ...] = ("h",)
    gates = 1

    def __init__(
        self,
        units: int,
        cell_units: int | None = None,
        *,
        activation: Function = tanh,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        init_bias: float = 0.0,
        enable_self_stabilization: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(enable_self_stabilization, name)
        self.units = units
        self.cell_units = units if cell_units is None else cell_units
        self.activation = activation
        self.how: dict[str, Any] = {"init": init, "scale": scale}
        self.init_bias = init_bias

    @abstractmethod
    def __call__(self, *operands: Any, **more: Any) -> Any:
        """Return the new states, from the states of the step before and the input."""

    def _bias(self, x: Term) -> Term:
        return self._own(x, "B", (self.gates * self.cell_units,), init=self.init_bias)

    def _weights(self, x: Term, key: str, rows: int, columns: int) -> Term:
        return self._own(x, key, (rows, columns), **self.how)

    def _part(self, x: Term, number: int) -> Term:
        """The rows of a gate, of several that one product made."""
        return x[number * self.cell_units : (number + 1) * self.cell_units]

    def _projection(self, x: Term) -> Term | None:
        """The matrix that makes h narrower (or wider), if there is one; BrainScript draws it before the others."""
        if self.units == self.cell_units:
            return None
        return self._weights(x, "Wmr", self.cell_units, self.units)

    def _project(self, h: Term, projection: Term | None) -> Term:
        h = self._named(h, "ht")
        return h if projection is None else self._stabilized(h, "Sht") @ projection

    def _named(self, x: Term, key: str) -> Term:
        return x.named(x.graph.unique(f"{self.name}.{key}"))


class RNNStep(Cell):
    """Plain recurrence: ``h = activation(B + x @ W + h' @ H)``; arguments as of every :class:`Cell`."""

    stem = "rnn"

    def __init__(
        self, units: int, cell_units: int | None = None, *, activation: Function = sigmoid, **how: Any
    ) -> None:
        super().__init__(units, cell_units, activation=activation, **how)

    @layer
    def __call__(self, dh: Term, x: Term) -> Term:
        """Return h, from h of the step before and the input."""
        projection = self._projection(x)
        total = self._bias(x) + x @ self._weights(x, "W", 0, self.cell_units)
        recurrent = self._weights(x, "H", self.units, self.cell_units)
        return self._project(self.activation(total + self._stabilized(dh, "Sdh") @ recurrent), projection)


RNNUnit = RNNStep
"""The name in earlier versions of CNTK's layers library."""


class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with a forget gate (Gers et al. 2000).

    With (i, candidate, f, o) the four parts of ``B + x @ W + h' @ H`` (and ``+ aux @ A``):
    ``c = sigmoid(f) * c' + sigmoid(i) * tanh(candidate)`` and ``h = sigmoid(o) * tanh(c)``.

    Args:
        units, cell_units: as of every :class:`Cell`; c has ``cell_units``.
        use_peepholes: the gates see the cell: ``i + Ci * c'``, ``f + Cf * c'``, ``o + Co * c`` (Gers et al. 2002).
        how: the other arguments of a :class:`Cell`.
    """

    stem = "lstm"
    states = ("h", "c")
    gates = 4

    def __init__(self, units: int, cell_units: int | None = None, *, use_peepholes: bool = False, **how: Any) -> None:
        super().__init__(units, cell_units, **how)
        self.use_peepholes = use_peepholes

    @layer
    def __call__(self, dh: Term, dc: Term, x: Term, aux: Term | None = None) -> tuple[Term, Term]:
        """Return h and c, from those of the step before, the input, and perhaps a second one such as attention."""
        width = 4 * self.cell_units
        projection = self._projection(x)
        total = self._bias(x) + x @ self._weights(x, "W", 0, width)
        recurrent = self._weights(x, "H", self.units, width)
        total = total + self._stabilized(dh, "Sdh") @ recurrent
        if aux is not None:
            total = total + aux @ self._weights(x, "A", 0, width)
        output_sees, forget_sees, input_sees = (self._peephole(x, key) for key in ("Co", "Cf", "Ci"))

        seen = self._stabilized(dc, "Sdc") if self.use_peepholes else dc
        forget = sigmoid(_peep(self._part(total, 2), forget_sees, seen))
        take = sigmoid(_peep(self._part(total, 0), input_sees, seen))
        c = self._named(forget * dc + take * self.activation(self._part(total, 1)), "ct")
        seen = self._stabilized(c, "Sct") if self.use_peepholes else c
        give = sigmoid(_peep(self._part(total, 3), output_sees, seen))
        return self._project(give * self.activation(c), projection), c

    def _peephole(self, x: Term, key: str) -> Term | None:
        return self._own(x, key, (self.cell_units,), **self.how) if self.use_peepholes else None


def _peep(gate: Term, weights: Term | None, cell: Term) -> Term:
    return gate if weights is None else gate + weights * cell


class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014), as CNTK has it: the reset gate comes before the product.

    With (z, r, candidate) the three parts of ``B + x @ W`` and (z, r) those of ``h' @ H``:
    ``candidate = tanh(... + (h' * sigmoid(r)) @ H1)`` and ``h = (1 - sigmoid(z)) * candidate + sigmoid(z) * h'``.
    Arguments are those of every :class:`Cell`.
    """

    stem = "gru"
    gates = 3

    def __init__(self, units: int, **how: Any) -> None:
        super().__init__(units, **how)

    @layer
    def __call__(self, dh: Term, x: Term) -> Term:
        """Return h, from h of the step before and the input."""
        seen = self._stabilized(dh, "Sdh")
        by_input = self._bias(x) + x @ self._weights(x, "W", 0, 3 * self.units)
        by_state = seen @ self._weights(x, "H", self.units, 2 * self.units)
        keep = sigmoid(self._part(by_input, 0) + self._part(by_state, 0))
        reset = sigmoid(self._part(by_input, 1) + self._part(by_state, 1))
        recurrent = self._weights(x, "H1", self.units, self.units)
        candidate = self.activation(self._part(by_input, 2) + (seen * reset) @ recurrent)
        return self._named((1.0 - keep) * candidate + keep * seen, "ht")
