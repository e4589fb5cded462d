"""Whether the attributes that a file gives an operation are of the types that the operation declares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def wrong_attribute(attributes: type, given: Mapping[str, Any]) -> str:
    """Return the name of the first attribute whose value is not of the declared type, or nothing."""
    hints = _hints(attributes)
    return next((name for name, value in given.items() if not _fits(value, hints.get(name, Any))), "")


@cache
def _hints(attributes: type) -> Mapping[str, Any]:
    try:
        return get_type_hints(attributes)
    except NameError:  # a third party's annotation that is there for type checkers alone
        return {}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type: a plain one, a tuple, a choice of texts, or several of them."""
    if hint in (bool, int, str):
        return type(value) is hint or (hint is int and type(value) is bool)
    if hint is float:
        return isinstance(value, float | int)
    if hint is None or hint is type(None):
        return value is None
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(_fits(value, choice) for choice in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    return True  # a type of a third party's own: its class checks it
