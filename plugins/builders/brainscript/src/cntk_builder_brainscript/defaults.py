"""Default values that depend on other parameters, such as ``LSTM (outputDim, cellDim = outputDim) = ...``.

A default value is evaluated where its function was defined. A parameter's name that means nothing there is the
parameter of the call; the original has such defaults in its library, and fails when one of them is used.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import attrs

from cntk_builder_brainscript.syntax import Argument, Expression, Function, Identifier, RecordMember
from cntk_builder_brainscript.values import Record


def depend_on_call(function: Function, scope: Record | None) -> tuple[tuple[str, Expression], ...]:
    """Return the optional parameters of a function defined in ``scope`` whose defaults need a call's arguments."""
    return tuple(
        (name, default)
        for name, default, mentioned in _mentions(function)
        if any(not _is_visible(parameter, scope) for parameter in mentioned)
    )


def _is_visible(name: str, scope: Record | None) -> bool:
    while scope is not None:
        if name in scope.members:
            return True
        scope = scope.parent
    return False


@functools.lru_cache(maxsize=4096)
def _mentions(function: Function) -> tuple[tuple[str, Expression, frozenset[str]], ...]:
    own = {*function.parameters, *function.optional}
    found = (
        (name, default.value, frozenset(own.intersection(_identifiers(default.value))))
        for name, default in function.optional.items()
    )
    return tuple(item for item in found if item[2])


def _identifiers(part: object) -> Iterator[str]:
    """The identifiers in a part of an expression tree."""
    if isinstance(part, Identifier):
        yield part.name
    elif isinstance(part, Argument | RecordMember):
        yield from _identifiers(part.value)
    elif isinstance(part, Expression):
        for field in attrs.fields(type(part)):
            yield from _identifiers(getattr(part, field.name))
    elif isinstance(part, tuple):
        for item in part:
            yield from _identifiers(item)
    elif isinstance(part, Mapping):
        for item in part.values():
            yield from _identifiers(item)
