"""Walking through functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cntk.ops.functions import Function, primitive_function


def search(root: Function, wanted: Callable[[Any], bool], depth: int = 0) -> list[Any]:
    """Return functions and leaves for which a condition holds: depth first, beginning with the root.

    Args:
        root: where to begin.
        wanted: the condition on a primitive function or a leaf.
        depth: how deep to look into blocks; -1 for all.
    """
    found: list[Any] = []
    seen: set[Any] = set()
    stack: list[tuple[Any, int]] = [(each, depth) for each in _starts(root)]
    while stack:
        one, level = stack.pop(0)
        if one in seen:
            continue
        seen.add(one)
        below: list[tuple[Any, int]] = []
        if isinstance(one, Function):
            if one._primitive.inside is not None and level != 0:
                inside = one._primitive.inside
                below = [(each, level - 1) for each in _starts_of(inside.root, inside.roots)]
                below += [(_start(each), level) for each in inside.arguments.values()]
                stack = below + stack
                continue
            below = [(_start(each), level) for each in one._primitive.operands]
        if wanted(one):
            found.append(one)
        stack = below + stack
    return found


def _start(variable: Any) -> Any:
    return variable if variable._owner is None else variable.owner


def _starts(root: Function) -> list[Any]:
    return _starts_of(root._primitive, root.outputs)


def _starts_of(primitive: Any, roots: Any) -> list[Any]:
    from cntk._graph.primitive import COMBINE

    return [primitive_function(primitive)] if primitive.number != COMBINE else [_start(each) for each in roots]
