"""Defaults of keyword arguments that hold within a ``with`` block, for layers, blocks and inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

_GLOBAL: dict[str, Any] = {}


class default_override_or:
    """A default value of an argument that :func:`default_options` may replace.

    Args:
        value: the default where nothing replaces it.
    """

    value: Any

    def __init__(self, value: Any) -> None:
        self.value = value.value if isinstance(value, default_override_or) else value

    def __repr__(self) -> str:
        return f"default_override_or({self.value!r})"


class _Options:
    """A ``with`` block with options.

    Args:
        scope: the functions for which they hold, None for all.
        options: the options.
    """

    current: _Options | None = None

    def __init__(self, scope: frozenset[Any] | None, options: Mapping[str, Any]) -> None:
        self.scope = scope
        self.options = {name: value.value if is_default_override(value) else value for name, value in options.items()}
        self.outer: _Options | None = None

    def __enter__(self) -> _Options:
        self.outer, _Options.current = _Options.current, self
        return self

    def __exit__(self, *_: object) -> None:
        _Options.current, self.outer = self.outer, None


def default_options(**kwargs: Any) -> _Options:
    """Replace defaults of arguments within a ``with`` block.

    Args:
        kwargs: the values, by the name of the argument.
    """
    return _Options(None, kwargs)


def default_options_for(functions: Any, **kwargs: Any) -> _Options:
    """Replace defaults of the arguments of some functions within a ``with`` block.

    Args:
        functions: a function or several.
        kwargs: the values, by the name of the argument.
    """
    several: Iterable[Callable[..., Any]] = functions if isinstance(functions, list | tuple) else (functions,)
    return _Options(frozenset(several), kwargs)


def is_default_override(value: Any) -> bool:
    """Whether a value is a default that may be replaced."""
    return isinstance(value, default_override_or)


def get_default_override(function_or_class: Any, **kwargs: Any) -> Any:
    """Return the value of one argument: what was given, or the default that holds now.

    Args:
        function_or_class: whose argument it is.
        kwargs: the name and the value of the argument.

    Raises:
        TypeError: there is not exactly one.
    """
    if len(kwargs) != 1:
        raise TypeError("get_default_override() expects one keyword argument")
    ((name, value),) = kwargs.items()
    if not is_default_override(value):
        return value
    options = _Options.current
    while options is not None:
        if name in options.options and (options.scope is None or function_or_class in options.scope):
            return options.options[name]
        options = options.outer
    return value.value


def set_global_option(key: str, value: Any) -> None:
    """Set an option of the whole program, such as ``align_axis``."""
    _GLOBAL[key] = value


def get_global_option(key: str, default_value: Any) -> Any:
    """Return an option of the whole program."""
    return _GLOBAL.get(key, default_value)


class _Callable(ModuleType):
    """This module, which can be called as the function of its name: importing it puts it in the function's place."""

    def __call__(self, **kwargs: Any) -> _Options:
        """Replace defaults of arguments within a ``with`` block (:func:`default_options`)."""
        return default_options(**kwargs)


sys.modules[__name__].__class__ = _Callable
