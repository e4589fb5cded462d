"""The two pluggy markers of the project, and what a hook of ours says of its answers beside what pluggy knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pluggy

F = TypeVar("F", bound=Callable[..., Any])

PROJECT = "cntk"
"""Project name of the markers: an implementation is known by its attribute ``cntk_impl``."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function or method that implements a hook of the same name."""


_PASSES_ON, _GATHERS, _CHECK = "cntk_passes_on", "cntk_gathers", "cntk_check"


Check = Callable[[Mapping[str, Any], Any], str]
"""Takes the arguments of a hook and an answer; returns what is wrong with it, or nothing."""


def passes_on(argument: str, check: Check | None = None) -> Callable[[F], F]:
    """Mark a specification as a chain: what an implementation answers is the ``argument`` that the next one gets.

    Args:
        argument: that is passed on.
        check: of answers; one that is wrong is a failure of the plugin.
    """

    def mark(spec: F) -> F:
        setattr(spec, _PASSES_ON, argument)
        setattr(spec, _CHECK, check)
        return spec

    return mark


def gathers(spec: F) -> F:
    """Mark a specification whose answers are collections that are put together."""
    setattr(spec, _GATHERS, True)
    return spec


def passed_on_by(spec: object) -> str:
    """Return the argument that a specification passes on; empty if it is no chain."""
    return str(getattr(spec, _PASSES_ON, ""))


def check_of(spec: object) -> Check | None:
    """Return the check of the answers to a specification, if there is one."""
    return getattr(spec, _CHECK, None)


def is_gathered(spec: object) -> bool:
    """Whether the answers to a specification are put together."""
    return bool(getattr(spec, _GATHERS, False))


class RetiredHookWarning(DeprecationWarning):
    """Says that a hook, or an argument of one, is going away: since when, when it goes, and what takes its place.

    A specification that is retired has it as ``warn_on_impl`` or ``warn_on_impl_args``; every plugin that implements
    it is then named in a warning, and goes on working.
    """


def retired(what: str, since: str, gone: str, instead: str) -> RetiredHookWarning:
    """Make what a retired specification says.

    Args:
        what: the hook, or ``the argument 'x' of cntk_hook``.
        since: the plugin interface that retired it, such as ``1.1``.
        gone: the first one that will not have it any more.
        instead: what a plugin does in its place, as a sentence.
    """
    return RetiredHookWarning(f"{what} is retired since plugin interface {since} and will be gone in {gone}. {instead}")
