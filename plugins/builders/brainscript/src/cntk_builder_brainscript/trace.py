"""Errors of evaluation: the place in the user's text and the chain of calls that led there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cntk_builder_brainscript.syntax import LIBRARY, Expression
from cntk_builder_brainscript.values import CallSite, Lambda, Record, Thunk, number_text
from cntk_core.api import BuildError, CntkError, Location, Problems, did_you_mean

MAX_LINES = 10
"""Lines of a chain of calls, at most; the last one says how many calls are left out."""

_MAX_ARGUMENTS = 4
_MAX_TEXT = 20


def calls(scope: Record | None) -> Iterator[CallSite]:
    """Yield the calls that an expression in this scope is part of, innermost first."""
    while scope is not None:
        if scope.call is not None:
            yield scope.call
            scope = scope.call.caller
        else:
            scope = scope.parent


def in_library(where: Location | None) -> bool:
    """Whether a place is in library text, or unknown."""
    return where is None or where.file.startswith(LIBRARY)


def users_place(where: Location | None, scope: Record | None) -> Location | None:
    """Return the place itself or, if it is in the library, the place of the innermost call in the user's text."""
    if in_library(where):
        for call in calls(scope):
            if call.site is not None and not in_library(call.site.where):
                return call.site.where
    return where


def chain(scope: Record | None) -> list[str]:
    """Return the lines of the chain of calls, innermost first."""
    lines: list[str] = []
    total = 0
    for total, call in enumerate(calls(scope), start=1):
        if total < MAX_LINES + 1:
            lines.append(_line(call))
    if total > MAX_LINES:
        lines[MAX_LINES - 1 :] = [f"... and {total - MAX_LINES + 1} more calls"]
    return lines


def _line(call: CallSite) -> str:
    function = call.function
    shown = [_argument(name, value) for name, value in zip(function.parameters, call.arguments, strict=True)]
    if len(shown) > _MAX_ARGUMENTS:
        shown[_MAX_ARGUMENTS:] = ["..."]
    place = f" called at {call.site.where}" if call.site is not None else ""
    return f"in {function.name or 'a function'} ({', '.join(shown)}){place}"


def _argument(name: str, value: object) -> str:
    """Return a parameter's name and, if that is known without evaluating anything, what it was called with."""
    if type(value) is Thunk:
        value = value.value
    if type(value) is float:
        return f"{name} = {number_text(value)}"
    if type(value) is bool:
        return f"{name} = {'true' if value else 'false'}"
    if type(value) is str:
        return f"{name} = '{value}'" if len(value) <= _MAX_TEXT else f"{name} = '{value[: _MAX_TEXT - 3]}...'"
    return name


def failure(message: str, expression: Expression, scope: Record | None, hint: str | None = None) -> BuildError:
    """Return the error about an expression that is evaluated in a scope."""
    error = BuildError(message, where=expression.where, hint=hint)
    explain(error, expression, scope)
    return error


def explain(error: CntkError, expression: Expression, scope: Record | None) -> None:
    """Put the user's place and the chain of calls into an error that came up at an expression."""
    if isinstance(error, Problems):
        return
    where = error.where or expression.where
    error.where = users_place(where, scope)
    lines = [error.hint] if error.hint else []
    if in_library(where) and error.where is not where:
        lines.append(f"at {where}")
    error.hint = "\n".join([*lines, *chain(scope)]) or None


def wrong_count(function: Lambda, given: int, named: Sequence[str]) -> tuple[str, str | None]:
    """Return message and hint for a call with too few or too many arguments by position."""
    wanted = len(function.parameters)
    name = f"'{function.name}'" if function.name else "the function"
    listed = f" ({', '.join(function.parameters)})" if wanted else ""
    message = f"{name} takes {wanted or 'no'} argument{'' if wanted == 1 else 's'}{listed}, not {given}"
    if wanted == 1 and function.parameters[0] == "dims" and given > 1:
        return message, f"Write several dimensions as one argument: {function.name} (m : n)."
    by_name = [word for word in named if word in function.parameters]
    if by_name:
        return message, f"Give {', '.join(by_name)} by position: only optional parameters have names."
    return message, f"Optional: {', '.join(function.optional)}." if function.optional else None


def no_option(function: Lambda, name: str) -> tuple[str, str | None]:
    """Return message and hint for a named argument that the function does not have."""
    called = f"'{function.name}'" if function.name else "the function"
    message = f"{called} has no optional parameter '{name}'{did_you_mean(name, function.optional)}"
    if name in function.parameters:
        return message, f"Give {name} by position: only optional parameters have names."
    return message, f"Optional: {', '.join(function.optional)}." if function.optional else None
