"""Expression trees as text in the language of an engine's kernels."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from cntk_core.ops.language.expression import Expr
from cntk_core.plan.traced import Tree
from cntk_kit_engines.trees import symbols_in_order

ARITHMETIC = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "neg": "(-{0})",
}

COMPARISONS = {
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}",
    "greater_equal": "{0} >= {1}",
    "equal": "{0} == {1}",
    "not_equal": "{0} != {1}",
}


@attrs.frozen
class Dialect:
    """How operations are written in a language. Arithmetic and comparisons are written alike in all that we know.

    Attributes:
        number: writes a number.
        condition: a number that tells whether a comparison holds, with ``{0}`` for the comparison.
        call: all other operations, with ``{operation}`` and ``{arguments}``.
        forms: operations that are written in another way, with ``{0}``, ``{1}``, ... for their arguments.
    """

    number: Callable[[Any], str]
    condition: str
    call: str = "{operation}({arguments})"
    forms: Mapping[str, str] = attrs.field(factory=dict)

    def operation(self, name: str, arguments: Sequence[str]) -> str:
        """Return the text of an operation on arguments that are texts."""
        form = self.forms.get(name) or ARITHMETIC.get(name)
        if form is not None:
            return form.format(*arguments)
        if name in COMPARISONS:
            return self.condition.format(COMPARISONS[name].format(*arguments))
        return self.call.format(operation=name, arguments=", ".join(arguments))

    def nested(self, tree: Tree | str, symbol: Callable[[str], str]) -> str:
        """Return the text of a whole tree as one expression; ``symbol`` writes a name."""
        if not isinstance(tree, Expr):
            return self.number(tree)
        if tree.operation == "symbol":
            return symbol(str(tree.args[0]))
        return self.operation(tree.operation, [self.nested(arg, symbol) for arg in tree.args])


class TreeWriter:
    """Writes trees statement by statement: each inner node gets a name, so that what is the same is computed once.

    Args:
        dialect: of the language.
        statement: gives a node its name, with ``{name}`` and ``{text}``.
        symbol: writes a name of a tree.

    Attributes:
        names: the texts of the nodes that have one by now.
    """

    def __init__(self, dialect: Dialect, statement: str, symbol: Callable[[str], str] = str) -> None:
        self.dialect = dialect
        self.names: dict[Expr, str] = {}
        self._statement = statement
        self._symbol = symbol

    def define(self, tree: Any) -> Iterator[str]:
        """Yield the statements after which :meth:`atom` writes a tree."""
        if not isinstance(tree, Expr) or tree in self.names:
            return
        if tree.operation == "symbol":
            self.names[tree] = self._symbol(str(tree.args[0]))
            return
        for arg in tree.args:
            yield from self.define(arg)
        name = f"t{len(self.names)}"
        text = self.dialect.operation(tree.operation, [self.atom(arg) for arg in tree.args])
        yield self._statement.format(name=name, text=text)
        self.names[tree] = name

    def atom(self, value: Any) -> str:
        """Return the name of a node, or the text of a number."""
        return self.names[value] if isinstance(value, Expr) else self.dialect.number(value)


def equal_names(trees: Iterable[Tree], operands: Container[str]) -> dict[str, str]:
    """Return names ``a0``, ``a1``, ... of the operands that trees meet, in the order in which they do.

    With them, kernels that compute the same are the same text, whatever the network.
    """
    order = dict.fromkeys(name for tree in trees for name in symbols_in_order(tree) if name in operands)
    return {old: f"a{index}" for index, old in enumerate(order)}
