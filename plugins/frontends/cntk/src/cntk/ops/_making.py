"""How operators make functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from cntk_model_cntk2.values import SizeT

from cntk._graph.edit import make_block
from cntk._graph.records import axis_record, shape_record
from cntk.axis import Axis
from cntk.initializer import SentinelValueForAutoSelectRandomSeed, next_seed
from cntk.internal import sanitize_input
from cntk.internal.utils import get_data_type
from cntk.ops.functions import Function, made
from cntk.variables import PLACEHOLDER, Variable


def one(x: Any) -> Variable:
    """Return an operand as a variable."""
    return sanitize_input(x)


def operands(*given: Any) -> list[Variable]:
    """Return operands as variables: numbers among them become constants of the type of the others."""
    dtype = get_data_type(*(each for each in given if not isinstance(each, int | float | list)))
    dtype = np.float32 if dtype is None else dtype
    return [sanitize_input(each, dtype) for each in given]


def stand_in(x: Variable) -> Variable:
    """Return a placeholder inside a block for a variable outside."""
    return Variable._made(
        PLACEHOLDER, x._shape, x._dtype, x._axes, name=x.name, sparse=x.is_sparse, gradient=x.needs_gradient
    )


def block(kind: str, name: str, given: list[Variable], inside: Callable[..., Any], **attributes: Any) -> Function:
    """Return a block of what a function makes of placeholders.

    Args:
        kind: what the block is called.
        name: of the user.
        given: the operands.
        inside: makes the function.
        attributes: of the block.
    """
    inner = [stand_in(each) for each in given]
    found: Function = inside(*inner)
    primitive = make_block(kind, found.outputs, found._primitive, dict(zip(inner, given, strict=True)), name)
    primitive.attributes.update(attributes)
    return Function._of(primitive)


def associative_multi_arg(f: Callable[..., Function]) -> Callable[..., Function]:
    """Let a function of two operands take any number of them: halves first, then both results."""

    @wraps(f)
    def several(*args: Any, name: str = "") -> Function:
        if not args:
            raise TypeError(f"{f.__name__}() needs at least one operand")
        if len(args) == 1:
            from cntk.ops import alias

            return alias(args[0], name)
        if len(args) == 2:
            return f(args[0], args[1], name)
        half = len(args) // 2
        left = several(*args[:half]) if half > 1 else args[0]
        return f(left, several(*args[half:]), name)

    several.argument_names = ["left", "right"]  # type: ignore[attr-defined]
    return several


def axis(value: Axis) -> Any:
    """Return an axis as attributes have it."""
    return axis_record(value)


def shape(dims: tuple[int, ...]) -> Any:
    """Return a shape (NumPy's order) as attributes have it."""
    return shape_record(dims)


def size(number: int) -> Any:
    """Return a number of 8 bytes as attributes have it."""
    return SizeT(number)


def chosen_seed(seed: int) -> Any:
    """Return a seed as attributes have it; where none is given, the next one of the program."""
    return next_seed() if seed == SentinelValueForAutoSelectRandomSeed else SizeT(seed)


def zero(dtype: Any = np.float32) -> Variable:
    """Return a constant 0."""
    return sanitize_input(0.0, np.float32 if dtype is None else dtype)


def rank(x: Variable) -> int | None:
    """How many axes a sample has; None while that is not known."""
    return None if x._shape is None else len(x._shape)


__all__ = [
    "associative_multi_arg",
    "axis",
    "block",
    "chosen_seed",
    "made",
    "one",
    "operands",
    "rank",
    "shape",
    "size",
    "stand_in",
    "zero",
]
