"""Calling hooks: what the training loop gets in place of pluggy's own callers, so that silence costs nothing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cntk_core.errors import CntkError
from cntk_core.plugins.faults import hook_failure
from cntk_core.plugins.markers import Check, RetiredHookWarning
from cntk_core.plugins.offer import Source, short_place
from cntk_core.system.console import tell

TRACE_SWITCH = "CNTK_TRACE_PLUGINS"
"""Environment variable: with 1, every call of a hook is printed to standard error."""

Listener = Callable[..., Any]
Report = Callable[[str], None]


def warn(text: str) -> None:
    """Print a warning to standard error."""
    tell(f"warning: {text}")


def tracing() -> bool:
    """Whether :data:`TRACE_SWITCH` asks for a line for each call."""
    return os.environ.get(TRACE_SWITCH) == "1"


@contextmanager
def told_of_retired(title: str, report: Report) -> Iterator[None]:
    """Within, a plugin is registered; a hook of it that is retired is reported with the plugin's title."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RetiredHookWarning)
        yield
    for one in found:
        if isinstance(one.message, RetiredHookWarning):
            report(f"{title}: {one.message}\n    {short_place(one.filename, one.lineno)}")
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, source=one.source)


def traced(listener: Listener, hook: str, who: str) -> Listener:
    """Print a line for each call of a listener, with what it was told and what it answered."""

    def call(**arguments: Any) -> Any:
        answer = listener(**arguments)
        tell(trace_line(hook, who, arguments, answer))
        return answer

    return call


def trace_line(hook: str, who: str, arguments: Mapping[str, Any], answer: Any) -> str:
    """``cntk_epoch_end(job, summary) of cntk-hooks-x 0.1.0 gave None``."""
    return f"plugins: {hook}({', '.join(arguments)}) of {who} gave {_short(answer)}"


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) <= 60 else f"{text[:57]}..."


def with_fewer_arguments(function: Listener, wanted: tuple[str, ...], given: tuple[str, ...]) -> Listener:
    """Return a function that takes all arguments of a hook and hands on those that the implementation wants."""
    if wanted == given:
        return function
    return lambda **arguments: function(**{name: arguments[name] for name in wanted})


def first_answer(listeners: Iterable[Listener], arguments: Mapping[str, Any]) -> Any:
    """Ask one listener after the other, and return the first answer that is not None."""
    for listener in listeners:
        answer = listener(**arguments)
        if answer is not None:
            return answer
    return None


def passed_on(listeners: Iterable[Listener], argument: str, **told: Any) -> Any:
    """Let each listener replace an argument for those after it, and return what it is in the end.

    Args:
        listeners: of a hook that is a chain.
        argument: the one that is passed on; a listener that answers None leaves it as it is.
        told: all arguments of the hook.
    """
    for listener in listeners:
        answer = listener(**told)
        if answer is not None:
            told[argument] = answer
    return told[argument]


def gathered(listeners: Iterable[Listener], **told: Any) -> list[Any]:
    """Return the entries of all answers."""
    return [entry for listener in listeners for entry in listener(**told) or ()]


class WrongAnswer(ValueError):
    """A plugin answered a hook with something that cannot be used."""


def checked(listener: Listener, check: Check | None) -> Listener:
    """Let an answer that is wrong be an error of the listener."""
    if check is None:
        return listener

    def call(**arguments: Any) -> Any:
        answer = listener(**arguments)
        wrong = "" if answer is None else check(arguments, answer)
        if wrong:
            raise WrongAnswer(wrong)
        return answer

    return call


def guarded(
    listener: Listener, hook: str, source: Source, *, decides: bool, report: Report, function: object = None
) -> Listener:
    """Keep the failure of a plugin's listener apart from the run.

    A hook that decides something fails the run, with the plugin's name; one that only listens is reported and not
    called again. Errors of the project's own types pass: so a plugin says something to the user. ``function`` is the
    plugin's own, for the place that a message names.
    """
    silent = False

    def call(**arguments: Any) -> Any:
        nonlocal silent
        if silent:
            return None
        try:
            return listener(**arguments)
        except (CntkError, KeyboardInterrupt):
            raise
        except BaseException as error:
            broken = hook_failure(hook, source, error, ends=decides, function=function)
            if decides:
                raise broken from error
            silent = True
            report(f"{broken}\n    It is not called again in this run.")
            return None

    return call
