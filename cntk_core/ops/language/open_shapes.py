"""Shape rules where a dimension is the length of the longest sequence, which every minibatch has its own of.

The rules of ops know nothing of such dimensions. They are asked twice, with two different lengths: what is the same
both times is fixed, what is the length both times is that length, and anything else cannot be said of such an axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cntk_core.errors import ShapeError
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Longest, Shape, longest_axes, with_lengths

_TRIED = (10007, 20011)
"""The lengths of the first axis; those of others follow. No other dimension is likely to be one of them."""


def infer_shape(op: Op, shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Return the shape of an op's result.

    Raises:
        ShapeError: the inputs do not fit, or the op cannot work on axes without a fixed length.
    """
    if not any(map(longest_axes, shapes)):
        return tuple(op.infer(shapes, attributes))
    results = []
    for lengths in _lengths(shapes):
        results.append(tuple(_told(lengths, lambda tried: op.infer(tried, attributes), shapes)))
    merged = _merged(shapes, *results)
    if merged is None:
        raise ShapeError("its dimensions would depend on the longest sequence of a minibatch in a way that it cannot")
    return merged


def complete_shapes(op: Op, shapes: Sequence[Shape], attributes: Any) -> Sequence[Shape]:
    """Return the shapes of an op's inputs with the dimensions 0 of parameters filled in.

    Raises:
        ShapeError: a parameter would have the length of the longest sequence.
    """
    assert op.complete is not None
    complete = op.complete
    if not any(map(longest_axes, shapes)):
        return [tuple(shape) for shape in complete(shapes, attributes)]
    first, second = (_told(lengths, lambda tried: complete(tried, attributes), shapes) for lengths in _lengths(shapes))
    found = []
    for shape, one, other in zip(shapes, first, second, strict=True):
        if 0 in shape and tuple(one) != tuple(other):
            raise ShapeError(
                "a parameter would be as long as the longest sequence of a minibatch",
                hint="Parameters have fixed dimensions: give them, or multiply along another axis.",
            )
        found.append(tuple(one) if 0 in shape else shape)
    return found


def _lengths(shapes: Sequence[Shape]) -> list[dict[str, int]]:
    """Two lengths for each axis, all different."""
    axes = sorted(frozenset().union(*map(longest_axes, shapes)))
    return [{axis: tried + 2 * place for place, axis in enumerate(axes)} for tried in _TRIED]


def _told(lengths: Mapping[str, int], rule: Any, shapes: Sequence[Shape]) -> Any:
    """What a rule says of shapes with these lengths; they do not show in its message."""
    try:
        return rule([with_lengths(shape, lengths) for shape in shapes])
    except ShapeError as error:
        for length in lengths.values():
            error.message = error.message.replace(str(length), "?")
        raise


def _merged(shapes: Sequence[Shape], first: Shape, second: Shape) -> Shape | None:
    if len(first) != len(second):
        return None
    one, other = _lengths(shapes)
    meanings = {(one[axis], other[axis]): Longest(axis) for axis in one}
    merged: list[int] = []
    for pair in zip(first, second, strict=True):
        if pair[0] != pair[1] and pair not in meanings:
            return None
        merged.append(meanings.get(pair, pair[0]))
    return tuple(merged)
