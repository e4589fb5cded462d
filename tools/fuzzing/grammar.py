"""Networks out of a grammar with shapes: most of them are right, and say the same in BrainScript and in NDL."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs

_UNARY = ("Sigmoid", "Tanh", "RectifiedLinear", "Softmax", "LogSoftmax", "Negate")
_BINARY = ("Plus", "Minus", "ElementTimes")


@attrs.frozen
class Value:
    """A value of the network: its name and the length of its vectors."""

    name: str
    dim: int


class Writer:
    """Writes the nodes of a network in one of the languages, each under a name of its own.

    Args:
        pick: what decides.
        brainscript: else NDL.
        sequences: whether frames have frames before and behind them.
    """

    def __init__(self, pick: random.Random, *, brainscript: bool, sequences: bool) -> None:
        self._pick = pick
        self._brainscript = brainscript
        self._sequences = sequences
        self.lines: list[str] = []
        self.values: list[Value] = []

    def input(self, name: str, dim: int, *, label: bool = False) -> Value:
        """Write an input."""
        tag = "label" if label else "feature"
        value = Value(name, dim)
        if self._brainscript:
            self.lines.append(f"{name} = Input {{{dim}}}")
        else:
            self.lines.append(f"{name} = Input({dim}, tag={tag})")
        if not label:
            self.values.append(value)
        return value

    def vector(self, depth: int) -> Value:
        """Write a value out of others, or take one that is there."""
        if depth <= 0 or self._pick.random() < 0.1:
            return self._pick.choice(self.values)
        makers: list[Callable[[int], Value]] = [self._unary, self._unary, self._binary, self._product, self._product]
        makers += [self._slice, self._stack, self._sum]
        if self._sequences:
            makers += [self._delay, self._recurrence]
        return self._pick.choice(makers)(depth - 1)

    def of_dim(self, value: Value, dim: int) -> Value:
        """Write a product of a matrix and a value that has the wanted length, and a bias."""
        weights = self._parameter(dim, value.dim)
        product = self._node(dim, "Times", weights, value.name)
        return self._node(dim, "Plus", product.name, self._parameter(dim, 1))

    def _new(self) -> str:
        return f"n{len(self.lines)}"

    def _node(self, dim: int, op: str, *arguments: object) -> Value:
        name = self._new()
        self.lines.append(f"{name} = {op} ({', '.join(map(str, arguments))})")
        value = Value(name, dim)
        self.values.append(value)
        return value

    def _parameter(self, rows: int, columns: int) -> str:
        name = self._new()
        if self._brainscript:
            dims = f"{rows}" if columns == 1 else f"{rows}, {columns}"
            self.lines.append(f"{name} = ParameterTensor {{({dims.replace(', ', ':')})}}")
        else:
            self.lines.append(f"{name} = Parameter({rows}, {columns})")
        return name

    def _unary(self, depth: int) -> Value:
        value = self.vector(depth)
        return self._node(value.dim, self._pick.choice(_UNARY), value.name)

    def _binary(self, depth: int) -> Value:
        left = self.vector(depth)
        right = self.vector(depth)
        if right.dim not in (left.dim, 1):
            right = self.of_dim(right, left.dim)
        return self._node(left.dim, self._pick.choice(_BINARY), left.name, right.name)

    def _product(self, depth: int) -> Value:
        return self.of_dim(self.vector(depth), self._pick.choice((1, 2, 3, 5)))

    def _slice(self, depth: int) -> Value:
        value = self.vector(depth)
        first = self._pick.randrange(value.dim)
        rows = self._pick.randint(1, value.dim - first)
        return self._node(rows, "RowSlice", first, rows, value.name)

    def _stack(self, depth: int) -> Value:
        left, right = self.vector(depth), self.vector(depth)
        names = [f"{left.name} : {right.name}"] if self._brainscript else [left.name, right.name]
        return self._node(left.dim + right.dim, "RowStack", *names)

    def _sum(self, depth: int) -> Value:
        value = self.vector(depth)
        return (
            self._node(1, "ReduceSum" if self._brainscript else "SumElements", value.name) if value.dim > 1 else value
        )

    def _delay(self, depth: int) -> Value:
        value = self.vector(depth)
        return self._delayed(value.dim, value.name)

    def _delayed(self, dim: int, name: str, *, past: bool | None = None) -> Value:
        op = (
            ("PastValue" if past else "FutureValue")
            if past is not None
            else self._pick.choice(("PastValue", "FutureValue"))
        )
        steps, first = self._pick.choice((1, 1, 2)), self._pick.choice(("0", "0.1", "-1"))
        if self._brainscript:
            return self._node(dim, op, dim, name, f"timeStep={steps}", f"defaultHiddenActivation={first}")
        return self._node(dim, op, dim, 1, name, f"timeStep={steps}", f"defaultHiddenActivity={first}")

    def _recurrence(self, depth: int) -> Value:
        """Write ``h = tanh(W x + U h before)``: the node of the delay stands before what it delays."""
        value = self.vector(depth)
        dim = self._pick.choice((1, 2, 3))
        place = len(self.values)
        end = f"h{len(self.lines)}"
        before = self._delayed(dim, end, past=self._pick.random() < 0.7)
        total = self._node(dim, "Plus", self.of_dim(value, dim).name, self.of_dim(before, dim).name)
        self.lines.append(f"{end} = Tanh ({total.name})")
        # What lies inside of the loop stays there: a delay the other way round it could not be computed.
        del self.values[place:]
        found = Value(end, dim)
        self.values.append(found)
        return found
