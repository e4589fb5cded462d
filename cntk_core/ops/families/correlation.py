"""Sums of products of weights with what windows cover, and their gradients: convolution as products of matrices.

The elements under the windows of some samples are copied into a matrix with one row for each element of the kernel
("im2col"), place by place, and multiplied by the weights; gradients go the same way back. The matrix is made for a few
samples at a time, so that it stays in the processor's cache and memory does not grow with the minibatch.

With stride 1 all windows have at one place a single run of the padded sample, if the windows that would cross the end
of a line are computed too and then thrown away: such runs are copied as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import attrs

from cntk_core.ops.families.geometry import reach_of
from cntk_core.ops.families.windows import Windows
from cntk_core.ops.language.op import Array
from cntk_core.ops.language.shapes import Shape, elements

_ELEMENTS = 1 << 18
"""How many elements of the matrix are made at once: 1 MB in single precision."""

_WASTE = 1.5
"""How many times as many windows as needed may be computed so that runs can be copied as a whole."""


def _number(place: Sequence[int], dims: Sequence[int]) -> int:
    """Number of an element in memory order."""
    number = 0
    for index, size in zip(place, dims, strict=True):
        number = number * size + index
    return number


@attrs.frozen
class Correlation:
    """Products of weights ``(maps, kernel elements)`` with data ``(frames, *sizes)`` of a sample.

    Of several groups, the elements of a kernel are those of one group's channels.

    Attributes:
        windows: where the weights are applied.
        maps: how many sets of weights there are.
        groups: parts of the first axis, the channels, each of which goes into as many maps of its own.
        whole: leading axes of a sample that a window takes whole, such as the channels.
        runs: whether whole runs are copied.
        lines: the windows that are computed along the other axes.
        views: for each place in a window, where padded samples have the elements of all windows: as runs of elements,
            or by axes.
    """

    windows: Windows
    maps: int
    groups: int
    whole: int
    runs: bool
    lines: Shape
    views: tuple[tuple[Any, ...], ...]

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, windows: Windows, maps: int, groups: int = 1) -> Correlation:
        """Prepare the products of windows with so many maps. If there are groups, windows take the first axis whole."""
        reach = reach_of(windows.kernel, windows.dilation)
        axes = zip(windows.sizes, windows.kernel, reach, windows.lower, windows.counts, strict=True)
        flags = [size == width == across and not pad and count == 1 for size, width, across, pad, count in axes]
        whole = flags.index(False) if False in flags else len(flags)
        counts, padded = windows.counts[whole:], windows.padded[whole:]
        lines = (*counts[:1], *padded[1:])
        runs = set(windows.stride[whole:]) <= {1} and elements(lines) <= _WASTE * elements(counts)
        if not runs:
            slices = (windows.slices((*(0,) * whole, *place))[whole:] for place in windows.places(whole))
            return cls(windows, maps, groups, whole, runs, counts, tuple((..., *view) for view in slices))
        begins = (_number(place, padded) for place in windows.places(whole))
        views = tuple((..., slice(begin, begin + elements(lines))) for begin in begins)
        return cls(windows, maps, groups, whole, runs, lines, views)

    @property
    def channels(self) -> int:
        """Elements of the leading axes."""
        return elements(self.windows.sizes[: self.whole])

    @property
    def kernel(self) -> int:
        """Elements of the kernel along the other axes."""
        return elements(self.windows.kernel[self.whole :])

    def _by_group(self, matrix: Array) -> Array:
        """A matrix whose rows are channels, or maps, as one matrix for each group if there are several."""
        return matrix if self.groups == 1 else matrix.reshape(self.groups, -1, matrix.shape[1])

    def _parts(self, frames: int) -> Iterator[slice]:
        """Samples that are done at once."""
        size = max(1, _ELEMENTS // (self.channels * self.kernel * elements(self.lines)))
        return (slice(begin, min(begin + size, frames)) for begin in range(0, frames, size))

    def _padded(self, xp: Any, frames: int, dtype: Any) -> tuple[Array, Array]:
        """Zeros for padded samples: with their axes, and as :attr:`views` take them."""
        dims = self.windows.padded[self.whole :]
        size = max(elements(dims), self.views[-1][-1].stop) if self.runs else elements(dims)
        flat = xp.zeros((self.channels, frames, size), dtype=dtype)
        shaped = flat[:, :, : elements(dims)].reshape(self.channels, frames, *dims)
        return shaped, flat if self.runs else shaped

    def _matrix(self, xp: Any, data: Array) -> Array:
        """What the windows of some samples cover: ``(kernel elements, frames * windows)``."""
        frames = data.shape[0]
        shaped, viewed = self._padded(xp, frames, data.dtype)
        source = data.reshape(frames, self.channels, *data.shape[self.whole + 1 :])
        shaped[(..., *self.windows.within[self.whole :])] = source.swapaxes(0, 1)[
            (..., *self.windows.taken[self.whole :])
        ]
        lines = (elements(self.lines),) if self.runs else self.lines
        matrix = xp.empty((self.channels, self.kernel, frames, *lines), dtype=data.dtype)
        for index, view in enumerate(self.views):
            matrix[:, index] = viewed[view]
        return matrix.reshape(self.channels * self.kernel, -1)

    def _from_matrix(self, xp: Any, matrix: Array, frames: int) -> Array:
        """Samples ``(frames, *sizes)`` with the sum of what the windows have at each place."""
        shaped, viewed = self._padded(xp, frames, matrix.dtype)
        lines = (elements(self.lines),) if self.runs else self.lines
        values = matrix.reshape(self.channels, self.kernel, frames, *lines)
        for index, view in enumerate(self.views):
            viewed[view] += values[:, index]
        result = xp.zeros((frames, self.channels, *self.windows.sizes[self.whole :]), dtype=matrix.dtype)
        result.swapaxes(0, 1)[(..., *self.windows.taken[self.whole :])] = shaped[
            (..., *self.windows.within[self.whole :])
        ]
        return result.reshape(frames, *self.windows.sizes)

    def _kept(self) -> tuple[Any, ...]:
        """Those of the windows that are computed which are wanted."""
        return (..., *(slice(0, count) for count in self.windows.counts[self.whole :]))

    def _spread(self, xp: Any, products: Array) -> Array:
        """Products ``(frames, maps, *counts)`` as ``(maps, frames * windows)``, 0 for windows that are not wanted."""
        frames = products.shape[0]
        source = products.reshape(frames, self.maps, *self.windows.counts[self.whole :]).swapaxes(0, 1)
        if self.lines == self.windows.counts[self.whole :]:
            return xp.ascontiguousarray(source).reshape(self.maps, -1)
        result = xp.zeros((self.maps, frames, *self.lines), dtype=products.dtype)
        result[self._kept()] = source
        return result.reshape(self.maps, -1)

    def forward(self, xp: Any, data: Array, weights: Array) -> Array:
        """Products of the weights with all windows: ``(frames, maps, *counts)``."""
        frames = data.shape[0]
        counts = self.windows.counts[self.whole :]
        result = xp.empty((frames, self.maps, *counts), dtype=data.dtype)
        own = self._by_group(weights)
        for part in self._parts(frames):
            found = (own @ self._by_group(self._matrix(xp, data[part]))).reshape(self.maps, -1, *self.lines)
            result[part] = found[self._kept()].swapaxes(0, 1)
        return result.reshape(frames, self.maps, *self.windows.counts)

    def to_weights(self, xp: Any, data: Array, products: Array) -> Array:
        """Gradient of the weights ``(maps, kernel elements)`` from that of the products."""
        # Products with the larger matrix on the left are much faster where there are few maps.
        shape = self.channels * self.kernel // self.groups, self.maps // self.groups
        result = xp.zeros(shape if self.groups == 1 else (self.groups, *shape), dtype=data.dtype)
        for part in self._parts(data.shape[0]):
            covered = self._by_group(self._matrix(xp, data[part]))
            result += covered @ self._by_group(self._spread(xp, products[part])).swapaxes(-1, -2)
        return xp.ascontiguousarray(result.swapaxes(-1, -2)).reshape(self.maps, -1)

    def to_data(self, xp: Any, products: Array, weights: Array) -> Array:
        """Gradient of the data ``(frames, *sizes)`` from that of the products; also the transposed convolution."""
        frames = products.shape[0]
        result = xp.empty((frames, *self.windows.sizes), dtype=products.dtype)
        turned = self._by_group(weights).swapaxes(-1, -2)
        for part in self._parts(frames):
            matrix = turned @ self._by_group(self._spread(xp, products[part]))
            result[part] = self._from_matrix(xp, matrix, len(products[part]))
        return result


@attrs.frozen
class Unshared:
    """The same products where windows at different places along some axes have weights of their own.

    Weights are ``(maps, places, maps, places, ..., kernel elements)``: for each axis its maps, then its places, of
    which an axis with shared weights has one.

    Attributes:
        windows: where the weights are applied.
        maps: maps along each axis, memory order.
        shared: which axes share their weights.
    """

    windows: Windows
    maps: Shape
    shared: tuple[bool, ...]

    @property
    def _own(self) -> list[int]:
        return [axis for axis, shared in enumerate(self.shared) if not shared]

    @property
    def _common(self) -> list[int]:
        return [axis for axis, shared in enumerate(self.shared) if shared]

    @property
    def weights_shape(self) -> Shape:
        """The shape of the weights."""
        counts = self.windows.counts
        places = [1 if shared else count for shared, count in zip(self.shared, counts, strict=True)]
        return (*(dim for pair in zip(self.maps, places, strict=True) for dim in pair), elements(self.windows.kernel))

    def _parts(self, frames: int) -> Iterator[slice]:
        size = max(1, _ELEMENTS // (elements(self.windows.kernel) * elements(self.windows.counts)))
        return (slice(begin, min(begin + size, frames)) for begin in range(0, frames, size))

    def _by_place(self, values: Array) -> Array:
        """Values ``(n, frames, *counts)`` as ``(places, frames * windows of each, n)``."""
        order = [axis + 2 for axis in self._own], [axis + 2 for axis in self._common]
        counts = self.windows.counts
        places = elements([counts[axis] for axis in self._own])
        return values.transpose(*order[0], 1, *order[1], 0).reshape(places, -1, values.shape[0])

    def _in_order(self, values: Array, frames: int) -> Array:
        """The inverse of :meth:`_by_place`."""
        counts, own, common = self.windows.counts, self._own, self._common
        dims = [counts[axis] for axis in own], [counts[axis] for axis in common]
        shaped = values.reshape(*dims[0], frames, *dims[1], values.shape[2])
        found = [*own, -1, *common, -2]  # which axis of the result each axis is; -1 are frames, -2 the last
        order = [found.index(axis) for axis in (-2, -1, *range(len(counts)))]
        return shaped.transpose(order)

    def _weights(self, weights: Array) -> Array:
        """Weights as ``(places, kernel elements, maps)``."""
        rank = len(self.maps)
        order = [*(2 * axis + 1 for axis in range(rank)), 2 * rank, *(2 * axis for axis in range(rank))]
        shaped = weights.reshape(self.weights_shape).transpose(order)
        return shaped.reshape(-1, elements(self.windows.kernel), elements(self.maps))

    def _weights_back(self, xp: Any, matrices: Array) -> Array:
        shape = self.weights_shape
        shaped = matrices.reshape(*shape[1:-1:2], shape[-1], *self.maps)
        rank = len(self.maps)
        order = [index for axis in range(rank) for index in (rank + 1 + axis, axis)]
        return xp.ascontiguousarray(shaped.transpose(*order, rank))

    def _matrices(self, xp: Any, data: Array) -> Array:
        """What windows cover, ``(places, frames * windows of each, kernel elements)``."""
        windows = self.windows
        padded = windows.pad(xp, data, 0.0)
        covered = xp.empty((elements(windows.kernel), data.shape[0], *windows.counts), dtype=data.dtype)
        for index, place in enumerate(windows.places()):
            covered[index] = windows.at(padded, place)
        return self._by_place(covered)

    def forward(self, xp: Any, data: Array, weights: Array) -> Array:
        """Products of the weights with all windows: ``(frames, all maps, *counts)``."""
        frames, by_place = data.shape[0], self._weights(weights)
        result = xp.empty((frames, elements(self.maps), *self.windows.counts), dtype=data.dtype)
        for part in self._parts(frames):
            found = self._in_order(self._matrices(xp, data[part]) @ by_place, len(data[part]))
            result[part] = found.swapaxes(0, 1)
        return result

    def to_weights(self, xp: Any, data: Array, products: Array) -> Array:
        """Gradient of the weights, of their shape, from that of the products ``(frames, all maps, *counts)``."""
        result = xp.zeros_like(self._weights(xp.empty(self.weights_shape, dtype=data.dtype)))
        for part in self._parts(data.shape[0]):
            incoming = self._by_place(products[part].swapaxes(0, 1))
            result += self._matrices(xp, data[part]).swapaxes(1, 2) @ incoming
        return self._weights_back(xp, result)

    def to_data(self, xp: Any, products: Array, weights: Array) -> Array:
        """Gradient of the data ``(frames, *sizes)`` from that of the products."""
        windows, frames = self.windows, products.shape[0]
        by_place = self._weights(weights).swapaxes(1, 2)
        result = xp.empty((frames, *windows.sizes), dtype=products.dtype)
        for part in self._parts(frames):
            count = len(products[part])
            covered = self._in_order(self._by_place(products[part].swapaxes(0, 1)) @ by_place, count)
            padded = xp.zeros((count, *windows.padded), dtype=products.dtype)
            for index, place in enumerate(windows.places()):
                view = windows.at(padded, place)
                view += covered[index]
            result[part] = windows.unpad(xp, padded)
        return result
