"""The formulas of recurrent cells, for all who have operands with ``+``, ``*``, ``@`` and ranges ``x[0:4]``.

This wheel's layers and those of :mod:`cntk` (the wheel cntk-compat) compute their cells here, each with operands and
parameters of its own.
"""

from __future__ import annotations

from typing import Any, Protocol

Operand = Any
"""A vector for each step, in whatever network is made."""


class CellParts(Protocol):
    """What a formula needs of a cell.

    Attributes:
        cell_units: width inside.
    """

    cell_units: int

    def weight(self, x: Operand, key: str) -> Operand:
        """Return a parameter, made when it is asked for first: ``B`` a bias, ``W`` for the input, ``H`` for h, ..."""

    def peephole(self, x: Operand, key: str) -> Operand | None:
        """Return the weights with which a gate sees the cell, None if it does not."""

    def part(self, x: Operand, number: int) -> Operand:
        """Return the elements of a gate, of several that one product made."""

    def stabilized(self, x: Operand, key: str) -> Operand:
        """Return x, perhaps times a learned factor."""

    def sigmoid(self, x: Operand) -> Operand:
        """Return ``1 / (1 + exp(-x))``."""

    def activation(self, x: Operand) -> Operand:
        """Return the activation of the candidate."""

    def named(self, x: Operand, key: str) -> Operand:
        """Return x with a name, where the network has names for it."""


def rnn_step(cell: CellParts, dh: Operand, x: Operand) -> Operand:
    """Return ``activation(x @ W + h' @ H + B)``: CNTK 2 has the parameters of this cell in this order."""
    bias, by_input, recurrent = (cell.weight(x, key) for key in ("B", "W", "H"))
    return cell.activation(x @ by_input + cell.stabilized(dh, "Sdh") @ recurrent + bias)


def lstm_step(
    cell: CellParts, dh: Operand, dc: Operand, x: Operand, aux: Operand | None = None
) -> tuple[Operand, Operand]:
    """Return h before its projection, and c.

    With (i, candidate, f, o) the four parts of ``B + x @ W + h' @ H`` (and ``+ aux @ A``):
    ``c = sigmoid(f) * c' + sigmoid(i) * activation(candidate)`` and ``h = sigmoid(o) * activation(c)``
    (Hochreiter and Schmidhuber 1997; Gers et al. 2000; peepholes: Gers et al. 2002).
    """
    total = cell.weight(x, "B") + x @ cell.weight(x, "W")
    recurrent = cell.weight(x, "H")
    total = total + cell.stabilized(dh, "Sdh") @ recurrent
    if aux is not None:
        total = total + aux @ cell.weight(x, "A")
    output_sees, forget_sees, input_sees = (cell.peephole(x, key) for key in ("Co", "Cf", "Ci"))
    sees = output_sees is not None

    seen = cell.stabilized(dc, "Sdc") if sees else dc
    forget = cell.sigmoid(_peep(cell.part(total, 2), forget_sees, seen))
    take = cell.sigmoid(_peep(cell.part(total, 0), input_sees, seen))
    c = cell.named(forget * dc + take * cell.activation(cell.part(total, 1)), "ct")
    seen = cell.stabilized(c, "Sct") if sees else c
    give = cell.sigmoid(_peep(cell.part(total, 3), output_sees, seen))
    return give * cell.activation(c), c


def _peep(gate: Operand, weights: Operand | None, cell: Operand) -> Operand:
    return gate if weights is None else gate + weights * cell


def gru_step(cell: CellParts, dh: Operand, x: Operand) -> Operand:
    """Return h of a gated recurrent unit (Cho et al. 2014), with the reset gate before the product.

    With (z, r, candidate) the three parts of ``B + x @ W`` and (z, r) those of ``h' @ H``:
    ``candidate = activation(... + (h' * sigmoid(r)) @ H1)`` and ``h = (1 - sigmoid(z)) * candidate + sigmoid(z) * h'``.
    """
    seen = cell.stabilized(dh, "Sdh")
    by_input = cell.weight(x, "B") + x @ cell.weight(x, "W")
    by_state = seen @ cell.weight(x, "H")
    keep = cell.sigmoid(cell.part(by_input, 0) + cell.part(by_state, 0))
    reset = cell.sigmoid(cell.part(by_input, 1) + cell.part(by_state, 1))
    recurrent = cell.weight(x, "H1")
    candidate = cell.activation(cell.part(by_input, 2) + (seen * reset) @ recurrent)
    return (1.0 - keep) * candidate + keep * seen
