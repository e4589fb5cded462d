"""The elements that windows cover, one place of the window at a time; what convolution and pooling are made of.

For each place in the kernel, the elements that all windows have there are a regular slice of the padded samples. Going
over the places with whole slices needs no index arrays and reads memory in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any

import attrs
import numpy as np

from cntk_core.ops.families.geometry import Geometry, reach_of
from cntk_core.ops.language.op import Array
from cntk_core.ops.language.shapes import Shape, from_cntk

OUTSIDE = -1
"""Place of an element that lies in the padding, for :func:`add_at`."""

Place = tuple[int, ...]
"""A place in a window, memory order: elements from its first one."""


@attrs.frozen
class Windows:
    """Windows over samples; everything is in memory order, samples are ``(frames, *sizes)``.

    Attributes:
        sizes: dimensions of a sample.
        kernel: dimensions of the window.
        stride: distance between windows.
        lower: padding before the first element; negative where the first elements are left out.
        counts: windows along each axis.
        dilation: distance between the places of a window.
        padded: dimensions of what the windows cover: the sample with its padding, less what no window reaches.
        within, taken: where the padded sample has elements of the sample, and which these are.
    """

    sizes: Shape
    kernel: Shape
    stride: Shape
    lower: tuple[int, ...]
    counts: Shape
    dilation: Shape = attrs.field(default=attrs.Factory(lambda self: (1,) * len(self.kernel), takes_self=True))
    padded: Shape = attrs.field(init=False, eq=False)
    within: tuple[slice, ...] = attrs.field(init=False, eq=False)
    taken: tuple[slice, ...] = attrs.field(init=False, eq=False)

    @padded.default
    def _cover(self) -> Shape:
        axes = zip(self.counts, self.stride, reach_of(self.kernel, self.dilation), strict=True)
        return tuple((count - 1) * step + reach for count, step, reach in axes)

    @within.default
    def _within(self) -> tuple[slice, ...]:
        axes = zip(self.sizes, self.lower, self.padded, strict=True)
        return tuple(slice(max(pad, 0), min(max(pad, 0) + size + min(pad, 0), whole)) for size, pad, whole in axes)

    @taken.default
    def _taken(self) -> tuple[slice, ...]:
        axes = zip(self.lower, self.within, strict=True)
        return tuple(slice(max(-pad, 0), max(-pad, 0) + part.stop - part.start) for pad, part in axes)

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, geometry: Geometry) -> Windows:
        """Return the windows of a geometry."""
        fields = (
            geometry.input, geometry.kernel, geometry.stride, geometry.lower, geometry.counts, geometry.dilation
        )  # fmt: skip
        return cls(*(from_cntk(values) for values in fields))

    def places(self, first: int = 0) -> Iterator[Place]:
        """The places in a window, in memory order; only along the axes from ``first`` on."""
        axes = zip(self.kernel[first:], self.dilation[first:], strict=True)
        return product(*(range(0, width * apart, apart) for width, apart in axes))

    def pad(self, xp: Any, data: Array, fill: float) -> Array:
        """Return samples with their padding, ``(frames, *padded)``: a view where none is needed."""
        if all(part == slice(0, whole) for part, whole in zip(self.within, self.padded, strict=True)):
            return data[(slice(None), *self.taken)]
        result = xp.full((data.shape[0], *self.padded), fill, dtype=data.dtype)
        result[(slice(None), *self.within)] = data[(slice(None), *self.taken)]
        return result

    def unpad(self, xp: Any, padded: Array) -> Array:
        """Return the samples ``(frames, *sizes)`` of padded ones; elements that no window reaches are 0."""
        if all(part == slice(0, size) for part, size in zip(self.taken, self.sizes, strict=True)):
            return padded[(slice(None), *self.within)]
        result = xp.zeros((padded.shape[0], *self.sizes), dtype=padded.dtype)
        result[(slice(None), *self.taken)] = padded[(slice(None), *self.within)]
        return result

    def slices(self, place: Place) -> tuple[slice, ...]:
        """Where padded samples have what all windows have at a place."""
        axes = zip(place, self.counts, self.stride, strict=True)
        return tuple(slice(start, start + (count - 1) * step + 1, step) for start, count, step in axes)

    def at(self, padded: Array, place: Place) -> Array:
        """What all windows have at a place: a view ``(frames, *counts)`` of padded samples."""
        return padded[(slice(None), *self.slices(place))]

    def covered(self) -> Array:
        """How many elements of the sample each window spans, ``counts``; padding is none."""
        found = np.ones((1,) * len(self.counts))
        axes = zip(self.sizes, self.kernel, self.stride, self.lower, self.counts, strict=True)
        for axis, (size, width, step, pad, count) in enumerate(axes):
            begins = np.arange(count) * step - pad
            inside = np.minimum(begins + width, size) - np.maximum(begins, 0)
            found = found * inside.reshape([-1 if other == axis else 1 for other in range(len(self.counts))])
        return found

    def index(self, place: Place) -> Array:
        """Index in the sample of what each window has at a place, ``counts``; :data:`OUTSIDE` in the padding."""
        index, outside = np.zeros(self.counts, np.int64), np.zeros(self.counts, bool)
        for axis, size in enumerate(self.sizes):
            along = np.arange(self.counts[axis]) * self.stride[axis] - self.lower[axis] + place[axis]
            shaped = along.reshape([-1 if other == axis else 1 for other in range(len(self.counts))])
            index = index * size + shaped
            outside |= (shaped < 0) | (shaped >= size)
        index[outside] = OUTSIDE
        return index


def add_at(values: Array, places: Array, size: int) -> Array:
    """Return samples ``(frames, size)`` with values ``(frames, n)`` added at places ``(frames, n)``."""
    frames = values.shape[0]
    result = np.zeros((frames, size + 1), values.dtype)
    np.add.at(result, (np.arange(frames)[:, None], places), values)
    return result[:, :-1]
