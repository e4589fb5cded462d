"""Cells of recurrent networks: functions from the state of the step before and the input of this step to the state.

Parameters have the names, shapes and order of the BrainScript library's, so that a model of either can be read by the
other. A cell is made a network by :class:`~cntk_builder_python.recurrence.Recurrence` or ``Fold``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cntk_builder_python.blocks import layer
from cntk_builder_python.formulas import gru_step, lstm_step, rnn_step
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
    widths: Mapping[str, int] = MappingProxyType({})
    """Of parameters that are not as many times as wide as the cell as there are gates."""

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

    def weight(self, x: Term, key: str) -> Term:
        """Return a parameter of the cell, of which ``x`` is an input."""
        if key == "B":
            return self._own(x, "B", (self.gates * self.cell_units,), init=self.init_bias)
        rows = self.units if key in ("H", "H1") else 0
        return self._own(x, key, (rows, self.widths.get(key, self.gates) * self.cell_units), **self.how)

    def peephole(self, x: Term, key: str) -> Term | None:
        """Return the weights with which a gate sees the cell, None if it does not."""
        return None

    def stabilized(self, x: Term, key: str) -> Term:
        """Return ``x``, perhaps times a learned factor."""
        return self._stabilized(x, key)

    def part(self, x: Term, number: int) -> Term:
        """Return the elements of a gate."""
        return x[number * self.cell_units : (number + 1) * self.cell_units]

    def sigmoid(self, x: Term) -> Term:
        """Return the activation of gates."""
        return sigmoid(x)

    def named(self, x: Term, key: str) -> Term:
        """Return ``x`` with a name that begins with the cell's."""
        return x.named(x.graph.unique(f"{self.name}.{key}"))

    def _projection(self, x: Term) -> Term | None:
        """The matrix that makes h narrower (or wider), if there is one; BrainScript draws it before the others."""
        if self.units == self.cell_units:
            return None
        return self._own(x, "Wmr", (self.cell_units, self.units), **self.how)

    def _project(self, h: Term, projection: Term | None) -> Term:
        h = self.named(h, "ht")
        return h if projection is None else self._stabilized(h, "Sht") @ projection


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
        return self._project(rnn_step(self, dh, x), projection)


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
        projection = self._projection(x)
        h, c = lstm_step(self, dh, dc, x, aux)
        return self._project(h, projection), c

    def peephole(self, x: Term, key: str) -> Term | None:
        """Return the weights with which a gate sees the cell, None if it does not."""
        return self._own(x, key, (self.cell_units,), **self.how) if self.use_peepholes else None


class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014), as CNTK has it: the reset gate comes before the product.

    With (z, r, candidate) the three parts of ``B + x @ W`` and (z, r) those of ``h' @ H``:
    ``candidate = tanh(... + (h' * sigmoid(r)) @ H1)`` and ``h = (1 - sigmoid(z)) * candidate + sigmoid(z) * h'``.
    Arguments are those of every :class:`Cell`.
    """

    stem = "gru"
    gates = 3
    widths = MappingProxyType({"H": 2, "H1": 1})

    def __init__(self, units: int, **how: Any) -> None:
        super().__init__(units, **how)

    @layer
    def __call__(self, dh: Term, x: Term) -> Term:
        """Return h, from h of the step before and the input."""
        return self.named(gru_step(self, dh, x), "ht")
