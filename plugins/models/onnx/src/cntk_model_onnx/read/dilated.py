"""Pooling over windows with gaps, which no operation of a network has: axis by axis, one slice for each place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk_model_onnx.read.borders import padded
from cntk_model_onnx.read.elementwise import chosen, of_two
from cntk_model_onnx.read.shapes import cntk_axis
from cntk_model_onnx.read.values import Array, Constant, Tensor, Unreadable
from cntk_model_onnx.read.windows import Windows
from cntk_model_onnx.sizes import are_free

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_MOST_PLACES = 128


def dilated_pool(
    reader: Importer, image: Tensor, windows: Windows, *, average: bool, include: bool, ceil: bool
) -> Tensor:
    """Return the largest elements of windows, or their means.

    Args:
        reader: takes the nodes.
        image: samples, channels and places, in this order.
        windows: over the places.
        average: means, not the largest.
        include: padding counts in means.
        ceil: a last window may reach beyond the image.

    Raises:
        Unreadable: the places are known only with the data, or a window has too many.
    """
    sizes = image.shape[1:]
    if are_free(sizes) or sum(windows.kernel) > _MOST_PLACES:
        raise Unreadable("its windows have gaps, and they or its input are too large")
    counts = [_count(windows, axis, size, ceil=ceil) for axis, size in enumerate(sizes)]
    needed = [
        (count - 1) * step + reach for count, step, reach in zip(counts, windows.strides, windows.reach, strict=True)
    ]
    feet = [max(0, need - size - low) for need, size, low in zip(needed, sizes, windows.lower, strict=True)]
    widths = {axis + 1: pair for axis, pair in enumerate(zip(windows.lower, feet, strict=True))}
    wide = padded(reader, image, widths, fill=0.0 if average else -math.inf)
    found = wide
    for axis, count in enumerate(counts):  # what is largest, or the sum, along one axis after the other
        found = _along(reader, found, windows, axis, count, average=average)
    if not average:
        return found
    weights = 1.0 / _there(windows, sizes, feet, counts, include=include)
    return of_two(reader, "ElementTimes", found, Constant(weights))


def _count(windows: Windows, axis: int, size: int, *, ceil: bool) -> int:
    """How many windows there are along an axis; the last one begins on the image or before it."""
    low, step = windows.lower[axis], windows.strides[axis]
    room = size + low + windows.upper[axis] - windows.reach[axis]
    count = -(-room // step) + 1 if ceil else room // step + 1
    return count - 1 if ceil and (count - 1) * step >= size + low else count


def _places(windows: Windows, counts: Sequence[int]) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """For each place of a window where its elements begin and end along the axes, and how far they are apart."""
    for offsets in itertools.product(*map(range, windows.kernel)):
        begins = [offset * gap for offset, gap in zip(offsets, windows.dilations, strict=True)]
        spans = ((count - 1) * step + 1 for count, step in zip(counts, windows.strides, strict=True))
        yield begins, [begin + span for begin, span in zip(begins, spans, strict=True)], windows.strides


def _along(reader: Importer, image: Tensor, windows: Windows, axis: int, count: int, *, average: bool) -> Tensor:
    """The largest elements, or the sums, of windows along one axis."""
    found: Tensor | None = None
    for offset in range(windows.kernel[axis]):
        begin, step = offset * windows.dilations[axis], windows.strides[axis]
        place: dict[str, Any] = {"begin": (begin,), "end": (begin + (count - 1) * step + 1,), "stride": (step,)}
        part = Tensor(reader.add("Slice", [image.node], axis=(cntk_axis(image, axis + 2),), **place), image.batch)
        if found is None:
            found = part
        elif average:
            found = of_two(reader, "Plus", found, part)
        else:
            found = chosen(reader, of_two(reader, "Greater", part, found), part, found)
    assert found is not None
    return found


def _there(
    windows: Windows, sizes: Sequence[int], feet: Sequence[int], counts: Sequence[int], *, include: bool
) -> Array:
    """How many elements of each window count."""
    ones = np.ones(sizes)
    own = list(
        zip(windows.lower, [min(foot, high) for foot, high in zip(feet, windows.upper, strict=True)], strict=True)
    )
    counted = np.pad(ones, own, constant_values=float(include))
    rest = [(0, foot - each[1]) for foot, each in zip(feet, own, strict=True)]
    wide = np.pad(counted, rest)
    index = (
        tuple(slice(begin, end, step) for begin, end, step in zip(*place, strict=True))
        for place in _places(windows, counts)
    )
    return np.asarray(sum(wide[each] for each in index))
