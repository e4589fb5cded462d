"""What is known of an operation: formulas, attributes, names in the languages, engines and formats."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

import attrs
from cntk import losses, metrics, ops
from cntk.ops import sequence
from cntk_model_cntk2.operations import OPERATIONS

from cntk_core.api import NoAttributes, Op
from cntk_core.api.engines import Expr, TraceMath, symbol
from docs_site.pages import ROOT

SYMBOLS = ("x", "y", "z", "u", "v", "w")
"""What formulas and examples call inputs that have samples."""

GRADIENT, RESULT = "g", "result"

INFIX = {
    "add": ("+", 1), "sub": ("-", 1), "mul": ("·", 2), "div": ("/", 2),
    "less": ("<", 0), "less_equal": ("≤", 0), "greater": (">", 0), "greater_equal": ("≥", 0),
    "equal": ("=", 0), "not_equal": ("≠", 0),
}  # fmt: skip
"""Functions of the math namespace that are written between their arguments, with how closely they bind."""

CLOSEST = 4
MADE = re.compile(r"return \w+\(\s*\"(\w+)\"")
PYTHON = {"C.": ops, "C.sequence.": sequence, "C.losses.": losses, "C.metrics.": metrics}
"""Modules of ``import cntk as C`` with functions that make operations, and how their names begin."""

FIELD = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def formula(op: Op, attributes: Any) -> str:
    """Return what an element-wise op computes, as its own expression says; empty for others."""
    if op.elementwise is None:
        return ""
    return written(op.elementwise.forward(TraceMath(), attributes, *_symbols(op)))


def gradient_formulas(op: Op, attributes: Any) -> list[str]:
    """Return the gradients of an element-wise op by each input; empty texts where none flows."""
    if op.elementwise is None:
        return []
    inputs = _symbols(op)
    found = op.elementwise.gradient(TraceMath(), attributes, symbol(GRADIENT), symbol(RESULT), *inputs)
    return ["" if each is None or not op.flows_to(index) else written(each) for index, each in enumerate(found)]


def _symbols(op: Op) -> list[Expr]:
    return [symbol(name) for name in SYMBOLS[: op.arity[0]]]


def written(tree: Expr | float) -> str:
    """Return an expression as a formula."""
    return _written(tree)[0]


def _written(tree: Expr | float | str) -> tuple[str, int]:
    """Return a formula and how closely it binds."""
    if not isinstance(tree, Expr):
        return (f"{tree:.6g}", CLOSEST) if isinstance(tree, float) else (str(tree), CLOSEST)
    if tree.operation == "symbol":
        return str(tree.args[0]), CLOSEST
    parts = [_written(each) for each in tree.args]
    if tree.operation == "neg":
        return f"-{_in_brackets(parts[0], 2)}", 2
    if tree.operation == "where":
        return f"({parts[1][0]} if {parts[0][0]} else {parts[2][0]})", CLOSEST
    if tree.operation not in INFIX:
        name = {"minimum": "min", "maximum": "max", "power": "pow"}.get(tree.operation, tree.operation)
        return f"{name}({', '.join(text for text, _ in parts)})", CLOSEST
    sign, binds = INFIX[tree.operation]
    right = binds if tree.operation in ("add", "mul") else binds + 1
    return f"{_in_brackets(parts[0], binds)} {sign} {_in_brackets(parts[1], right)}", binds


def _in_brackets(part: tuple[str, int], least: int) -> str:
    return part[0] if part[1] >= least else f"({part[0]})"


def attributes_of(op: Op) -> list[tuple[str, str, str]]:
    """Return the attributes of an op: name, default (empty if there is none), and what the source says of it."""
    if op.attributes is NoAttributes:
        return []
    told: dict[str, str] = {}
    for names, text in FIELD.findall(inspect.getdoc(op.attributes) or ""):
        told |= {name: " ".join(text.split()) for name in names.split(", ")}
    found = []
    for field in attrs.fields(op.attributes):
        default = field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type, unused-ignore]
            default = default.factory()
        found.append((field.name, "" if default is attrs.NOTHING else repr(default), told.get(field.name, "")))
    return found


def inputs_of(op: Op) -> str:
    """Return how many inputs an op takes."""
    fewest, most = op.arity
    if most is None:
        return f"{fewest} or more"
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def spellings(op: Op) -> dict[str, list[str]]:
    """Return the names of an op by language: NDL, BrainScript, and Python's ``import cntk``."""
    found = {
        "NDL": [op.name, *op.aliases.get("ndl", ())],
        "BrainScript": [op.name, *op.aliases.get("brainscript", ())],
        "Python": [f'graph.apply("{op.name}", ...)'],
    }
    functions = python_names().get(op.name, [])
    return found | ({"CNTK 2's Python": functions} if functions else {})


@cache
def python_names() -> dict[str, list[str]]:
    """Return the functions of ``import cntk`` that make just one operation, by the name of the core's."""
    called = {each.name: each.ours for each in OPERATIONS.values()}
    found: dict[str, list[str]] = {}
    for prefix, module in PYTHON.items():
        for name, function in sorted(vars(module).items()):
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            makes = {each for each in MADE.findall(inspect.getsource(function)) if each in called}
            if len(makes) == 1:
                found.setdefault(called[makes.pop()], []).append(f"{prefix}{name}")
    return found


@cache
def formats() -> dict[str, list[str]]:
    """Return the rows of ``docs/model-operations.md``: engines, versions 1 and 2, ONNX out and in, by operation."""
    found = {}
    for line in (ROOT / "docs/model-operations.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| `") else []
        if len(cells) >= 5:
            found[cells[0].strip("` ")] = (cells[1:] + [""] * 5)[:5]
    return found
