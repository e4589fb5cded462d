"""Defaults of layers that ``default_options`` may replace."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from cntk.default_options import get_default_override, is_default_override
from cntk.initializer import Initial, initializer_with_rank

_Layer = TypeVar("_Layer", bound=Callable[..., Any])


def optional(layer: _Layer) -> _Layer:
    """Give the arguments of a layer that nobody gives the defaults that hold when it is called."""
    signature = inspect.signature(layer)
    open_ = [name for name, each in signature.parameters.items() if is_default_override(each.default)]

    @wraps(layer)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name in open_:
            value = bound.arguments.get(name, signature.parameters[name].default)
            bound.arguments[name] = get_default_override(called, **{name: value})
        return layer(*bound.args, **bound.kwargs)

    return cast(_Layer, called)


def first_values(init: Any, **ranks: int) -> Any:
    """Return how a parameter starts, with the ranks by which random numbers are scaled.

    Raises:
        ValueError: nothing is said.
    """
    if init is None:
        raise ValueError("init parameter cannot be None")
    return initializer_with_rank(init, **ranks) if isinstance(init, Initial) and ranks else init


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a number as a tuple."""
    return tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value,)


def padded_to(shape: tuple[Any, ...], values: Any, what: str) -> tuple[Any, ...]:
    """Return one value for each axis, of one for all or of as many.

    Raises:
        ValueError: there are too many.
    """
    several = as_tuple(values)
    if len(several) > len(shape):
        raise ValueError(f"{what} has {len(several)} values for {len(shape)} axes")
    return (*((several[0],) * (len(shape) - len(several))), *several)
