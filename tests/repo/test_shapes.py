"""Functions that take or give arrays say of which shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("cntk_core/ops", "cntk_core/plan", "kits/engines/src")
"""Where arithmetic on arrays is written; engines say it in the plan's words, by node."""

ARRAY = re.compile(r"\b(NDArray|Array|FloatArray|IntArray)\b")
SAID = re.compile(
    r"\([\w*]+, ?[\w*, ]*\)|\bshapes?\b|\bframes?\b|\brows?\b|\bcolumns?\b|\bscalar|\bvector|\bmatri|\belement|\bsample"
    r"|\bone number\b|\bflat\b|\baxis\b|\baxes\b|\bimages?\b|\bsteps?\b|\bsequences?\b|\blength\b",
    re.IGNORECASE,
)
"""How a shape is said: as a tuple, or in a word of docs/glossary.md for what an array has one of for each place."""


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions and methods that others call. Definitions of ops have capitals, and a shape rule."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    for parent in (tree, *classes):
        for node in parent.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.name.isupper():
                yield node


def has_arrays(function: ast.FunctionDef) -> bool:
    given = [argument.annotation for argument in (*function.args.args, *function.args.kwonlyargs)]
    return any(ARRAY.search(ast.unparse(one)) for one in (*given, function.returns) if one is not None)


def test_array_functions_say_their_shapes(root: Path) -> None:
    silent = [
        f"{file.relative_to(root).as_posix()}:{function.lineno} {function.name}"
        for room in ROOMS
        for file in sorted((root / room).rglob("*.py"))
        for function in functions(ast.parse(file.read_text(encoding="utf-8")))
        if has_arrays(function) and not SAID.search(ast.get_docstring(function) or "")
    ]
    assert silent == []
