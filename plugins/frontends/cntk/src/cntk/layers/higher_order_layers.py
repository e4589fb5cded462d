"""Functions of functions: one after the other, with connections around."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from cntk._inherited import inherit
from cntk.internal.utils import get_python_function_arguments
from cntk.layers.blocks import identity, inject_name
from cntk.ops import combine
from cntk.ops.functions import Function


def Sequential(layers: Any, name: str = "") -> Any:
    """One function after the other; lists may be in lists.

    Args:
        layers: a list of functions, of tuples of functions that are applied beside each other, or of lists.
        name: of the user.
    """
    if not isinstance(layers, list):
        return layers
    found = [_single(Sequential(each)) for each in layers]
    composed: Any = identity
    for each in found:
        composed = each if composed is identity else _then(composed, each)
    return inject_name(_joined(composed) if layers and isinstance(layers[-1], tuple) else composed, name)


def _joined(several: Callable[..., Any]) -> Callable[..., Any]:
    """A function of several values as one whose outputs they are."""
    if isinstance(several, Function):
        return several
    return lambda *args: combine(list(several(*args)))


def _single(layer: Any) -> Any:
    """A tuple of functions as one that gives the results of all: of one value, or each of its own of several."""
    if not isinstance(layer, tuple):
        return layer
    functions = [_single(each) for each in layer]

    def beside(*values: Any) -> tuple[Any, ...]:
        if 1 < len(values) < len(functions):
            raise ValueError(f"Sequential: {len(functions)} functions side by side, and {len(values)} values for them")
        given = values if len(values) > 1 else values * len(functions)
        return tuple(each(value) for each, value in zip(functions, given, strict=False))

    return beside


def _then(first: Any, second: Any) -> Any:
    if isinstance(first, Function) and isinstance(second, Function):
        return first >> second

    def both(*args: Any) -> Any:
        made = first(*args)
        if isinstance(made, tuple):
            return second(*made)
        if isinstance(made, Function) and len(made.outputs) > 1:
            return second(*made.outputs)
        return second(made)

    known = isinstance(first, Function)
    # A function that takes any number of arguments has no names of them.
    names = [each.name for each in first.signature] if known else get_python_function_arguments(first)[0]
    if names:
        both.argument_names = [name or f"x{index}" for index, name in enumerate(names)]  # type: ignore[attr-defined]
    return Function(both) if known else both


def For(what_range: Iterable[Any], constructor: Callable[..., Any], name: str = "") -> Any:
    """Functions one after the other, each made of a number: ``For(range(3), lambda i: Dense(64))``.

    Args:
        what_range: the numbers.
        constructor: makes a function of a number, or of nothing.
        name: of the user.

    Raises:
        ValueError: the constructor is no Python function.
    """
    if not inspect.isfunction(constructor):
        raise ValueError("constructor must be a Python function/lambda")
    takes = bool(inspect.signature(constructor).parameters)
    return inject_name(Sequential([constructor(i) if takes else constructor() for i in what_range]), name)


def SequentialClique(functions: Iterable[Any], name: str = "") -> Any:
    """One function after the other, each of which gets the sum of the input and of all results before it."""
    several = list(functions)

    def clique(x: Any) -> Any:
        out = x
        for each in several:
            out = each(x)
            x = x + out
        return out

    return inject_name(clique, name)


def ResNetBlock(f: Any, name: str = "") -> Any:
    """``f(x) + x`` (He et al., CVPR 2016)."""

    def skip(x: Any) -> Any:
        return f(x) + x

    return inject_name(skip, name)


inherit(__name__)
