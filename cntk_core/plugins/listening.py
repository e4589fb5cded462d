"""Calling hooks: what the training loop gets in place of pluggy's own callers, so that silence costs nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from cntk_core.errors import BrokenPluginError, CntkError
from cntk_core.plugins.offer import Source, last_line

TRACE_SWITCH = "CNTK_TRACE_PLUGINS"
"""Environment variable: with 1, every call of a hook is printed to standard error."""

Listener = Callable[..., Any]
Report = Callable[[str], None]


def warn(text: str) -> None:
    """Print a warning to standard error."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


def tracing() -> bool:
    """Whether :data:`TRACE_SWITCH` asks for a line for each call."""
    return os.environ.get(TRACE_SWITCH) == "1"


def traced(listener: Listener, hook: str, who: str) -> Listener:
    """Print a line for each call of a listener, with what it was told and what it answered."""

    def call(**arguments: Any) -> Any:
        answer = listener(**arguments)
        print(trace_line(hook, who, arguments, answer), file=sys.stderr, flush=True)
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


def guarded(listener: Listener, hook: str, source: Source, *, decides: bool, report: Report) -> Listener:
    """Keep the failure of a plugin's listener apart from the run.

    A hook that decides something fails the run, with the plugin's name; one that only listens is reported and not
    called again. Errors of the project's own types pass: so a plugin says something to the user.
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
            broken = hook_failure(hook, source, error)
            if decides:
                raise broken from error
            silent = True
            report(f"{broken}\n    It is not called again in this run.")
            return None

    return call


def hook_failure(hook: str, source: Source, error: BaseException) -> BrokenPluginError:
    """Describe a hook that raised an error that is none of ours."""
    return BrokenPluginError(
        f"hook {hook} of {source} failed: {type(error).__name__}: {error}", hint=f"raised by {last_line(error)}"
    )
