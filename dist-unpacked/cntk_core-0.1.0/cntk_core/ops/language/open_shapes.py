"""Shape rules where a dimension is open: as long as the longest sequence of a minibatch, or free.

The rules of ops know nothing of such dimensions. They are asked twice, with two different sizes: what is the same both
times is fixed, and what is an open dimension both times is that one. Anything else is a free dimension of its own, if
it may depend on a free one; of the length of a sequence it cannot be said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cntk_core.errors import ShapeError, WrongResult
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Free, Longest, Shape, is_free, longest_axes

_TRIED = (10007, 20011)
"""The lengths of the first axis; those of others follow. No other dimension is likely to be one of them."""

Rule = Callable[[Sequence[Shape]], Sequence[Any]]


def infer_shape(op: Op, shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Return the shape of an op's result.

    Raises:
        ShapeError: the inputs do not fit, or the op cannot work on axes without a fixed length.
        WrongResult: the op gives no shape.
    """
    if not _open(shapes):
        return _ruled(op, shapes, attributes)
    merged = _merged(shapes, *_asked(lambda tried: _ruled(op, tried, attributes), shapes))
    if merged is None:
        raise ShapeError(f"its dimensions would depend on {_measured(shapes)} of a minibatch in a way that it cannot")
    return merged


def _ruled(op: Op, shapes: Sequence[Shape], attributes: Any) -> Shape:
    found = op.infer(shapes, attributes)
    if not (isinstance(found, tuple | list) and all(hasattr(dim, "__index__") for dim in found)):
        raise WrongResult(op.infer, f"returned {found!r:.40} as the shape of {op.name}, not a tuple of whole numbers")
    return tuple(found)


def complete_shapes(op: Op, shapes: Sequence[Shape], attributes: Any) -> Sequence[Shape]:
    """Return the shapes of an op's inputs with the dimensions 0 of parameters filled in.

    Raises:
        ShapeError: a parameter would have a dimension that every minibatch has its own of.
    """
    assert op.complete is not None
    complete = op.complete
    if not _open(shapes):
        return [tuple(shape) for shape in complete(shapes, attributes)]
    first, second = _asked(lambda tried: complete(tried, attributes), shapes)
    found = []
    for shape, one, other in zip(shapes, first, second, strict=True):
        if 0 in shape and tuple(one) != tuple(other):
            size = "large as a free dimension" if any(map(is_free, shapes)) else f"long as {_measured(shapes)}"
            raise ShapeError(
                f"a parameter would be as {size} of a minibatch",
                hint="Parameters have fixed dimensions: give them, or multiply along another axis.",
            )
        found.append(tuple(one) if 0 in shape else shape)
    return found


def _open(shapes: Sequence[Shape]) -> bool:
    return any(isinstance(dim, Longest | Free) for shape in shapes for dim in shape)


def _measured(shapes: Sequence[Shape]) -> str:
    samples = any(isinstance(dim, Longest) and dim.samples for shape in shapes for dim in shape)
    return "the number of samples" if samples else "the longest sequence"


def _lengths(shapes: Sequence[Shape]) -> list[dict[str, int]]:
    """Two lengths for each axis, all different."""
    axes = sorted(frozenset().union(*map(longest_axes, shapes)))
    return [{axis: tried + 2 * place for place, axis in enumerate(axes)} for tried in _TRIED]


def _asked(rule: Rule, shapes: Sequence[Shape]) -> list[Any]:
    """What a rule says of shapes with the first sizes, and with the second; these do not show in its message."""
    said: list[Any] = []
    errors: list[ShapeError] = []
    for time, lengths in enumerate(_lengths(shapes)):
        try:
            said.append(rule([tuple(_size(dim, time, lengths) for dim in shape) for shape in shapes]))
        except ShapeError as error:
            errors.append(error)
    if errors:
        errors[0].message = _blurred([error.message for error in errors], shapes)
        raise errors[0]
    return said


def _size(dim: int, time: int, lengths: Mapping[str, int]) -> int:
    if isinstance(dim, Free):
        return dim.tried[time]
    return lengths[dim.key] if isinstance(dim, Longest) else dim


def _blurred(messages: Sequence[str], shapes: Sequence[Shape]) -> str:
    """A message in which sizes that were tried, and numbers that the other message has otherwise, are ``?``."""
    tried = [_size(dim, 0, _lengths(shapes)[0]) for shape in shapes for dim in shape if isinstance(dim, Longest | Free)]
    first, other = (re.split(r"(\d+)", message) for message in (messages[0], messages[-1]))
    alike = len(first) == len(other)
    hidden = {one for one, two in zip(first, other, strict=alike) if alike and one != two} | set(map(str, tried))
    return "".join("?" if part in hidden else part for part in first)


def _merged(shapes: Sequence[Shape], first: Shape, second: Shape) -> Shape | None:
    if len(first) != len(second):
        return None
    one, other = _lengths(shapes)
    longest = [dim for shape in shapes for dim in shape if isinstance(dim, Longest)]
    meanings: dict[tuple[int, ...], int] = {(one[dim.key], other[dim.key]): dim for dim in longest}
    meanings |= {dim.tried: dim for shape in shapes for dim in shape if isinstance(dim, Free)}
    merged: list[int] = []
    for pair in zip(first, second, strict=True):
        if pair[0] != pair[1] and pair not in meanings:
            if not any(map(is_free, shapes)):
                return None
            meanings[pair] = Free(tried=pair)
        merged.append(meanings.get(pair, pair[0]))
    return tuple(merged)
