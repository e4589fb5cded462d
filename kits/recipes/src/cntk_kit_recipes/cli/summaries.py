"""One line about a class of an installed wheel, from its source: nothing is imported."""

from __future__ import annotations

import ast
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

_MOST_STEPS = 4
"""So many modules may hand a class on to each other."""


def summary(target: str) -> str:
    """Return the first line of the docstring of what an entry point names; empty if it cannot be found.

    Args:
        target: ``module:Class``, as an entry point has it. The class may be imported into the module from another one
            of the same package.
    """
    module, _, name = target.partition("[")[0].strip().partition(":")
    try:
        return _summary(module.strip(), name.strip(), _MOST_STEPS)
    except (OSError, ImportError, KeyError, ValueError, SyntaxError):  # what is wrong is told to who uses the verb
        return ""


def _summary(module: str, name: str, steps: int) -> str:
    spec = _spec(module)
    if spec is None or spec.origin is None or not steps:
        return ""
    tree = ast.parse(Path(spec.origin).read_bytes())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _summary(_origin(node, module, spec), alias.name, steps - 1)
    return ""


def _origin(node: ast.ImportFrom, module: str, spec: ModuleSpec) -> str:
    """Return the full name of the module that something is imported from."""
    if not node.level:
        return node.module or ""
    is_package = spec.submodule_search_locations is not None
    parts = module.split(".")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


def _spec(module: str) -> ModuleSpec | None:
    """Find a module; those above it are not imported, as ``find_spec`` would do."""
    top, *rest = module.split(".")
    spec = find_spec(top)
    path = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path += f".{part}"
        spec = PathFinder.find_spec(path, spec.submodule_search_locations)
    return spec
