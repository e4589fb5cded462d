"""What is true of an op is said in the op: planners and engines ask for traits and kernels, never for a name."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cntk_core.ops.table import core_ops

NAMES = frozenset(op.name for op in core_ops())

ROOMS = ("cntk_core/", "kits/", "plugins/")
"""Where no op may be asked for by name. ``cntk_core/ops`` defines them, and tests name what they try."""

TRANSLATORS = (
    "plugins/models/onnx/",
    "plugins/models/cntk1/",
    "plugins/models/cntk2/",
    "plugins/frontends/cntk/",
    "plugins/readers/kaldi/src/cntk_reader_kaldi/nnet1_",
)
"""Formats of other programs, and CNTK 2's Python: tables from our operations to theirs, where one is its name."""

ALLOWED = {
    # BrainScript's words.
    "attributes.py": 6,
    # What the libraries of CNTK 2 make of sequence.first and sequence.last.
    "single_steps.py": 4,
    # What the original prints of a network, word for word.
    "dump_geometry.py": 3,
    # Words of a language that are names of operations: in BrainScript, of layers, of Python's functions, and of what
    # is done to pictures.
    "nodes.py": 2,
    "options.py": 3,
    "__init__.py": 1,
}
"""How often files may, by their name."""

REGISTRATIONS = frozenset({"kernel", "kernels"})


def _asks_for_name(node: ast.expr) -> bool:
    """Whether an expression is the name of an op: ``op.name``, ``node.op.name``."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = getattr(node.value, "attr", "") or getattr(node.value, "id", "")
    return bool(owner == "op")


def _is_name(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES


def _outside_registrations(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree but those within calls that register kernels."""
    found = [tree]
    while found:
        node = found.pop()
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in REGISTRATIONS):
            yield node
            found.extend(ast.iter_child_nodes(node))


def findings(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield comparisons and look-ups of an op's name, and sets and tables of such names."""
    for node in _outside_registrations(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_asks_for_name(side) for side in sides) and not all(_asks_for_name(side) for side in sides):
                yield node
        elif isinstance(node, ast.Subscript):
            if _asks_for_name(node.slice):
                yield node
        elif isinstance(node, ast.Call):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            looked_up = isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args
            if (looked_up and _asks_for_name(node.args[0])) or (owner is not None and _asks_for_name(owner)):
                yield node
        elif isinstance(node, ast.Set | ast.List | ast.Tuple):
            if sum(map(_is_name, node.elts)) > 1:
                yield node
        elif isinstance(node, ast.Dict) and sum(map(_is_name, node.keys)) > 1:
            yield node


def _where(root: Path, files: list[Path]) -> Iterator[tuple[Path, int]]:
    for file in files:
        path = file.as_posix()
        own = path.startswith(ROOMS) and not path.startswith("cntk_core/ops/") and "/tests/" not in path
        own = own and not path.startswith(TRANSLATORS)
        if own and file.suffix == ".py" and (root / file).is_file():
            for node in findings(ast.parse((root / file).read_text(encoding="utf-8"))):
                yield file, getattr(node, "lineno", 0)


def test_nobody_asks_for_an_op_by_name(root: Path, tracked_files: list[Path]) -> None:
    found = list(_where(root, tracked_files))
    counts = Counter(file.name for file, _ in found)
    over = {f"{file}:{line}" for file, line in found if counts[file.name] > ALLOWED.get(file.name, 0)}
    assert over == set(), "give the op a trait, or the engine a kernel for it"
    assert counts == ALLOWED, "there are fewer now: lower the allowance"
    # Engines, planners and networks have no allowance.
    rooms = ("cntk_core/plan", "cntk_core/training", "kits/recipes", "kits/engines", "plugins/engines")
    assert [f"{file}:{line}" for file, line in found if file.as_posix().startswith(rooms)] == []


def test_what_is_found() -> None:
    texts = {
        'node.op.name == "Plus"': 1,
        "op.name in NAMES": 1,
        "TABLE[node.op.name]": 1,
        "TABLE.get(op.name)": 1,
        'op.name.startswith("Sparse")': 1,
        'X = {"Times", "Plus"}': 1,
        'X = {"Times": 1, "Plus": 2}': 1,
        'kernels("xla", ["Times", "Plus"], forward)': 0,
        "print(op.name)": 0,
        "one.op.name == other.op.name": 0,
        'X = ["Times", "more"]': 0,
    }
    assert {text: len(list(findings(ast.parse(text)))) for text in texts} == texts
