"""Source text of compiled kernels: loops over rows and columns around a few expression trees.

A kernel works on operands of four kinds:

- ``full``: ``(rows, columns)``, read at ``[i, j]``;
- ``at5``: some columns of a wider matrix, read at ``[i, j + 5]``; ``at2c``: those from twice as many columns on as the
  kernel has, so that the gates of a cell are read alike whatever its size;
- ``row``: ``(columns,)``, the same for every row (a parameter);
- ``col``: ``(rows,)``, the same for every column;
- ``scalar``: ``(1,)``.

Results are matrices, or sums: a ``row`` result is summed over the rows, a ``col`` result over the columns, a ``scalar``
result over both. A result may be added to what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from cntk_core.api.engines import Expr, rename_symbols, symbols_in_order

_INDEX = {"full": "[i, j]", "row": "[j]", "col": "[i]", "scalar": "[0]"}
_BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARE = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}


def part_of(offset: int, columns: int) -> str:
    """The kind of an operand that is ``columns`` of a wider matrix, as many as its kernel has, from ``offset`` on."""
    if not offset:
        return "full"
    return f"at{offset // columns}c" if columns and offset % columns == 0 else f"at{offset}"


def is_matrix(kind: str) -> bool:
    """Whether an operand or result has an element for every row and column."""
    return kind == "full" or kind.startswith("at")


def _index(kind: str) -> str:
    if not kind.startswith("at"):
        return _INDEX[kind]
    offset = kind[2:]
    return f"[i, j + {offset[:-1]} * columns]" if offset.endswith("c") else f"[i, j + {offset}]"


@attrs.frozen
class Result:
    """What a kernel writes.

    Attributes:
        expression: the tree.
        kind: where it goes.
        accumulate: add to what is there.
        into: name of the full operand in whose place it goes. The kernel then has one argument for both: with two, the
            compiler would have to take a write for a change of what is read next, and would not vectorise.
    """

    expression: Expr | float
    kind: str
    accumulate: bool = False
    into: str = ""


@attrs.frozen
class KernelSpec:
    """A kernel: names and kinds of its operands, names of its numbers, and its results.

    Two equal specs are the same kernel, whatever the network. It is called as ``kernel(rows, columns, *operands,
    *numbers, *outputs)``; the outputs are those of the results that have a place of their own. Without ``vectors``
    it goes element by element, and is compiled sooner.
    """

    operands: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]
    results: tuple[Result, ...]
    vectors: bool = True

    @property
    def outputs(self) -> tuple[int, ...]:
        """Indices of the results that have an argument of their own."""
        return tuple(index for index, result in enumerate(self.results) if not result.into)

    def source(self, dtype: str) -> str:
        """Text of a module with the function ``kernel``."""
        header = HEADER if self.vectors else f"VECTORS = False\n{HEADER}"
        return "\n".join([header.format(dtype=dtype), *self.lines("kernel"), ""])

    def lines(self, name: str) -> list[str]:
        """Lines of the function under a name."""
        return list(_Writer(self).lines(name))

    def signature(self, dtype: str) -> str:
        """Argument types."""
        full, flat = f"{dtype}[:, ::1]", f"{dtype}[::1]"
        kinds = [kind for _, kind in self.operands] + [self.results[index].kind for index in self.outputs]
        arrays = [full if is_matrix(kind) else flat for kind in kinds]
        count = len(self.operands)
        types = ["int64", "int64", *arrays[:count], *["float64"] * len(self.numbers), *arrays[count:]]
        return f"void({', '.join(types)})"


HEADER = "F = np.{dtype}\n"


class _Writer:
    """Writes the body of one kernel."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.kinds = dict(spec.operands)
        self.names: dict[Expr, str] = {}
        self.targets = [result.into or f"r{index}" for index, result in enumerate(spec.results)]

    def lines(self, function: str) -> Iterator[str]:
        spec = self.spec
        outputs = [self.targets[index] for index in spec.outputs]
        yield f"def {function}(rows, columns, {', '.join([*self.kinds, *spec.numbers, *outputs])}):"
        yield from self._hoisted()
        yield from self._cleared()
        yield "    for i in range(rows):"
        for name, kind in spec.operands:
            if kind == "col":
                yield f"        {name}_c = {name}[i]"
        for index, result in enumerate(spec.results):
            if result.kind == "col":
                yield f"        sum{index} = F(0)"
        yield "        for j in range(columns):"
        yield from self._body()
        for index, result in enumerate(spec.results):
            if result.kind == "col":
                yield f"        r{index}[i] {'+=' if result.accumulate else '='} sum{index}"
        for index, result in enumerate(spec.results):
            if result.kind == "scalar":
                yield f"    r{index}[0] {'+=' if result.accumulate else '='} sum{index}"

    def _hoisted(self) -> Iterator[str]:
        """Scalars, and everything that depends on numbers alone: computed once, numbers in double precision."""
        for name, kind in self.spec.operands:
            if kind == "scalar":
                yield f"    {name}_s = {name}[0]"
        for result in self.spec.results:
            yield from self._hoist(result.expression)

    def _hoist(self, expression: Expr | float) -> Iterator[str]:
        if not isinstance(expression, Expr) or expression in self.names:
            return
        if expression.symbols() <= set(self.spec.numbers):
            name = f"h{len(self.names)}"
            yield f"    {name} = F({self._text(expression, double=True)})"
            self.names[expression] = name
            return
        for arg in expression.args:
            if isinstance(arg, Expr):
                yield from self._hoist(arg)

    def _cleared(self) -> Iterator[str]:
        for index, result in enumerate(self.spec.results):
            if result.kind == "row" and not result.accumulate:
                yield "    for j in range(columns):"
                yield f"        r{index}[j] = F(0)"
            elif result.kind == "scalar":
                yield f"    sum{index} = F(0)"

    def _body(self) -> Iterator[str]:
        values = []
        for result in self.spec.results:
            yield from self._define(result.expression)
            values.append(self._atom(result.expression))
        for index, (result, value) in enumerate(zip(self.spec.results, values, strict=True)):
            if is_matrix(result.kind) or result.kind == "row":
                add = "+=" if result.accumulate or result.kind == "row" else "="
                yield f"            {self.targets[index]}{_index(result.kind)} {add} {value}"
            else:
                yield f"            sum{index} += {value}"

    def _define(self, expression: Expr | float) -> Iterator[str]:
        """Give every inner node a name, once."""
        if not isinstance(expression, Expr) or expression in self.names:
            return
        if expression.operation == "symbol":
            name = str(expression.args[0])
            kind = self.kinds[name]
            if is_matrix(kind) or kind == "row":
                yield f"            {name}_v = {name}{_index(kind)}"
            self.names[expression] = name + {"col": "_c", "scalar": "_s"}.get(kind, "_v")
            return
        for arg in expression.args:
            if isinstance(arg, Expr):
                yield from self._define(arg)
        name = f"t{len(self.names)}"
        yield f"            {name} = {self._text(expression)}"
        self.names[expression] = name

    def _text(self, expression: Expr, *, double: bool = False) -> str:
        operation = expression.operation
        if operation == "symbol":
            return str(expression.args[0])
        convert = self.double if double else self._atom
        args = [convert(arg) for arg in expression.args if not isinstance(arg, str)]
        one, zero = ("1.0", "0.0") if double else ("F(1)", "F(0)")
        if operation in _BINARY:
            return f"({args[0]} {_BINARY[operation]} {args[1]})"
        if operation == "neg":
            return f"(-{args[0]})"
        if operation in _COMPARE:
            return f"({one} if {args[0]} {_COMPARE[operation]} {args[1]} else {zero})"
        if operation == "where":
            return f"({args[1]} if {args[0]} != {zero} else {args[2]})"
        if operation == "abs":
            return f"abs({args[0]})"
        if operation == "power":
            return f"({args[0]} ** {args[1]})"
        known = ("exp", "erf", "tanh", "sigmoid", "logaddexp", "minimum", "maximum", "sign")
        if operation in known and not double:
            return f"{operation}({', '.join(args)})"
        if operation == "erf":
            return f"math.erf({args[0]})"
        if operation == "sigmoid":
            return f"(0.5 + 0.5 * np.tanh(0.5 * {args[0]}))"
        return f"np.{operation}({', '.join(args)})"

    def _atom(self, value: Expr | float | str) -> str:
        return self.names[value] if isinstance(value, Expr) else _literal(value)

    def double(self, value: Expr | float | str) -> str:
        """Text of a tree over numbers, or of a number."""
        return self._text(value, double=True) if isinstance(value, Expr) else _number(value)


def number_text(tree: Expr | float) -> str:
    """Python text of a tree over numbers alone, in double precision; it may use ``np`` and ``math``."""
    return _Writer(KernelSpec((), (), ())).double(tree)


def _number(value: Any) -> str:
    number = float(value)
    text = repr(number)
    return f"np.{text}" if text in ("inf", "nan") else "(-np.inf)" if text == "-inf" else text


def _literal(value: Any) -> str:
    return f"F({_number(value)})"


def spec_of(
    kinds: Mapping[str, str], numbers: Sequence[str], results: Sequence[Result]
) -> tuple[KernelSpec, tuple[str, ...]]:
    """Return the spec of some results, with operands renamed so that equal kernels are equal, and the old names.

    Operands are named ``a0``, ``a1``, ... in the order in which the trees meet them.
    """
    order: list[str] = []
    for result in results:
        for name in symbols_in_order(result.expression):
            if name in kinds and name not in order:
                order.append(name)
    names = {old: f"a{index}" for index, old in enumerate(order)}
    renamed = tuple(
        attrs.evolve(result, expression=rename_symbols(result.expression, names), into=names.get(result.into, ""))
        for result in results
    )
    return KernelSpec(tuple((names[old], kinds[old]) for old in order), tuple(numbers), renamed), tuple(order)
