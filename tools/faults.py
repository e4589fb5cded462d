"""Plausible mistakes in Python files, for `tools/mutants.py`: where one could be made, and the file with it.

The kinds are the classic operators of mutation testing (R. A. DeMillo, R. J. Lipton, F. G. Sayward, "Hints on Test Data
Selection", 1978), without those that only crash: names stay, and so do types and the text of messages. Nor is there one
in assertions, in what only developers read, in how long something is kept or waited for: no test could tell.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any

import attrs

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
SPOKEN = ("line", "doing", "info", "debug", "warning", "note", "said", "print")
"""Functions whose arguments are for people: a fault there changes words."""
UNSEEN = ("repr", "cache", "nogil", "maxsize", "stacklevel")
"""Keywords that change only what developers read, or how soon something is ready."""
SYMMETRIC = (
    "min",
    "max",
    "minimum",
    "maximum",
    "multiply",
    "logaddexp",
    "compare_digest",
    "gcd",
    "lcm",
    "array_equal",
    "shares_memory",
    "may_share_memory",
    "samefile",
    "common_type",
    "same_wheel",
    "plus",
    "element_times",
    "not_equal",
    "equal",
    "bitwise_or",
    "bitwise_xor",
)
"""Functions to which it is all one in which order their first two arguments come: sums, products, comparisons."""

CRASHING = ("isinstance", "issubclass", "hasattr", "map", "filter", "partial")
"""Functions that refuse their first two arguments the other way round: any test that comes there would notice."""


@attrs.frozen
class Fault:
    """One mistake in one file."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    where: str
    """The line as it is without it."""
    text: str = attrs.field(repr=False)
    """The whole file with it."""

    @property
    def key(self) -> str:
        """What it is called in the list of those that change nothing; lines may move."""
        return f"{self.file}: {self.kind}: {self.before} -> {self.after} in: {self.where}"


Change = Callable[[Any], ast.AST]


@attrs.frozen
class Site:
    """A place where a mistake could be made."""

    file: str
    kind: str
    node: ast.expr | ast.stmt = attrs.field(repr=False)
    change: Change = attrs.field(repr=False)
    """Makes the mistake, in a copy of the node."""

    def fault(self, text: str) -> Fault | None:
        """Return the mistake in the text of the file; None if it changes nothing, or cannot be written there."""
        before = ast.get_source_segment(text, self.node)
        if before is None:
            return None
        written = ast.unparse(ast.fix_missing_locations(self.change(deepcopy(self.node))))
        if isinstance(self.node, ast.expr):
            written = f"({written})"
        whole = _replaced(text, self.node, written)
        try:
            if ast.dump(ast.parse(whole)) == ast.dump(ast.parse(text)):
                return None
        except SyntaxError:
            return None  # in the text of an f-string, for example
        line = text.splitlines()[self.node.lineno - 1]
        return Fault(self.file, self.node.lineno, self.kind, _short(before), _short(written), line.strip(), whole)


def sites_of(file: str, text: str) -> Iterator[Site]:
    """Yield every place in a file where a mistake could be made.

    Args:
        file: its name, for the records.
        text: what is in it.
    """
    for node, kind, change in _sites(ast.parse(text)):
        yield Site(file, kind, node, change)


def _short(text: str) -> str:
    return " ".join(text.split())[:100]


def _replaced(text: str, node: ast.expr | ast.stmt, written: str) -> str:
    lines = text.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + (node.end_col_offset or 0)
    whole = b"".join(lines)
    return (whole[:begin] + written.encode() + whole[end:]).decode()


Found = tuple[ast.expr | ast.stmt, str, Change]


def _sites(tree: ast.AST) -> Iterator[Found]:
    """Walk through functions and the values of modules and classes, past what is for people or for types."""
    passed = {one for one, said in pairwise(ast.iter_child_nodes(tree)) if _is_duration(said)}
    passed.update(_left_to_reshape(tree))
    for child in ast.iter_child_nodes(tree):
        if _is_passed(child) or child in passed:
            continue
        if isinstance(child, ast.expr | ast.stmt):
            yield from ((child, kind, change) for kind, change in _kinds(child))
        if isinstance(child, ast.If | ast.While | ast.IfExp) and isinstance(child.test, _CONDITIONS):
            yield child.test, "negate condition", lambda test: ast.UnaryOp(ast.Not(), test)
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for default in (*child.args.defaults, *child.args.kw_defaults):
                yield from ((default, kind, change) for kind, change in _kinds(default) if default is not None)
            yield from _sites(ast.Module(child.body, []))
        elif isinstance(child, ast.AnnAssign):
            yield from _sites(ast.Module([ast.Expr(child.value)] if child.value else [], []))
        else:
            yield from _sites(child)


_CONDITIONS = (ast.Name, ast.Attribute, ast.Call)
"""Conditions that have no fault of their own, as comparisons have."""


def _is_duration(said: ast.AST) -> bool:
    """Whether what stands before this docstring is how long something may take, which no test asserts."""
    match said:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text.startswith("Seconds")
    return False


def _left_to_reshape(node: ast.AST) -> list[ast.expr]:
    """The -1 among the sizes of a ``reshape``: NumPy takes every negative number for it, all others refuse them."""
    match node:
        case ast.Call(func=ast.Attribute(attr="reshape"), args=sizes):
            return [one for one in sizes if ast.unparse(one) == "-1"]
    return []


def _is_passed(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__") | ast.Attribute(attr="__doc__")]):
            return True
        case ast.FunctionDef(name="__repr__" | "__str__" | "__hash__"):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=called)):
            return _name(called) in SPOKEN
        case ast.keyword(arg=name, value=ast.Constant(value=value)):
            return name in UNSEEN or (name == "strict" and value is True)  # zip's: an assertion
    return False


def _name(called: ast.expr) -> str:
    """The last part of the name of a function that is called."""
    return str(getattr(called, "attr", getattr(called, "id", "")))


def _kinds(node: ast.AST | None) -> Iterator[tuple[str, Change]]:
    """The faults of one node, without those of the nodes in it."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            yield "flip comparison", _compare
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not _is_of_text(node):
            yield "swap arithmetic", _arithmetic
        case ast.BoolOp():
            yield "and/or", _and_or
        case ast.UnaryOp(op=ast.Not()):
            yield "drop not", lambda found: found.operand
        case ast.Constant(value=bool()):
            yield "constant", lambda found: ast.Constant(not found.value)
        case ast.Constant(value=int() | float()):
            yield "constant", lambda found: ast.Constant(found.value + 1)
        case ast.Continue():
            yield "continue->break", lambda found: ast.Break()
        case ast.AugAssign(op=operator) if type(operator) in ARITHMETIC:
            yield "swap arithmetic", _arithmetic
            yield "remove statement", lambda found: ast.Pass()
        case ast.Expr(value=ast.Call()):
            yield "remove statement", lambda found: ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "remove statement", lambda found: ast.Pass()
        case ast.Call(func=ast.Name(id="range"), args=[_, *_]):
            yield "range off by one", _shorter
        case ast.Call(args=[first, second, *_], keywords=_) if ast.dump(first) != ast.dump(second):
            fixed = any(isinstance(one, ast.Starred | ast.Constant) for one in (first, second))
            if not fixed and _name(node.func) not in (*SYMMETRIC, *CRASHING):
                yield "swap arguments", _swap


def _is_of_text(node: ast.BinOp) -> bool:
    """Whether it joins or formats text, or joins lists: another operator would crash at once."""
    kinds = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    sides = (node.left, node.right)
    return any(isinstance(one, kinds) or isinstance(getattr(one, "value", None), str | bytes) for one in sides)


def _compare(node: ast.Compare) -> ast.AST:
    node.ops = [COMPARISONS[type(node.ops[0])]()]
    return node


def _arithmetic(node: ast.BinOp | ast.AugAssign) -> ast.AST:
    node.op = ARITHMETIC[type(node.op)]()
    return node


def _and_or(node: ast.BoolOp) -> ast.AST:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _shorter(node: ast.Call) -> ast.AST:
    place = 0 if len(node.args) == 1 else 1
    node.args[place] = ast.BinOp(node.args[place], ast.Sub(), ast.Constant(1))
    return node


def _swap(node: ast.Call) -> ast.AST:
    node.args[:2] = node.args[1::-1]
    return node
