"""Convolution and pooling: windows over samples, as products of matrices and as kernels of their own.

For a convolution, what the windows of some samples cover is copied into a matrix with a row for each element of the
kernel and a column for each window of each sample ("im2col"); its product with the weights has a row for each map.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import (
    Geometry,
    GradientStep,
    Node,
    Step,
    convolution_geometry,
    image_pooling_geometry,
    is_legacy,
    pooling_geometry,
)
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.products import gemm
from cntk_engine_cuda.site import Site, elements_of

AXES = 4
"""Axes of a sample that the kernels know."""

POOLING = ("Pooling", "MaxPooling", "AveragePooling")

MOST = 1 << 26
"""Elements of the matrix of what windows cover: as many samples as fit are done at once (256 MiB in float)."""


@attrs.frozen
class Windows:
    """Windows over samples, with a number for each of four axes in the order of memory.

    Attributes:
        sizes: of the samples.
        kernel: elements of a window.
        strides: from window to window.
        lower: padding before the first element; negative where the first elements are left out.
        counts: windows.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, geometry: Geometry) -> Windows | None:
        """The windows of a geometry; None if it has more axes."""
        missing = AXES - len(geometry.input)
        if missing < 0 or 0 in geometry.input:
            return None
        parts = (geometry.input, geometry.kernel, geometry.stride, geometry.lower, geometry.counts)
        return cls(*((fill,) * missing + tuple(part[::-1]) for part, fill in zip(parts, (1, 1, 1, 0, 1), strict=True)))

    @property
    def size(self) -> int:
        """Elements of a sample."""
        return math.prod(self.sizes)

    @property
    def covered(self) -> int:
        """Elements of a window."""
        return math.prod(self.kernel)

    @property
    def places(self) -> int:
        """Windows of a sample."""
        return math.prod(self.counts)

    def text(self, name: str) -> str:
        """The kernels of these windows that go with one of them."""
        part = "CONVOLUTION" if name in ("im2col", "col2im") else name.partition("_")[0].upper()
        letters = zip("SKTLN", (self.sizes, self.kernel, self.strides, self.lower, self.counts), strict=True)
        lines = [f"#define {letter}{axis} ({number})" for letter, of in letters for axis, number in enumerate(of)]
        return "\n".join([*lines, _text(part)])


@lru_cache
def _text(part: str) -> str:
    """The text with one of its parts, between ``#ifdef WANT_...`` and ``#endif``: compilers take long for all."""
    text = (Path(__file__).parent / "kernels" / "windows.cu").read_text(encoding="utf-8")
    return re.sub(
        r"^#ifdef WANT_(\w+)\n(.*?)^#endif\n",
        lambda found: found.group(2) if found.group(1) == part else "",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


def _launch(site: Site, windows: Windows, name: str, count: int, arguments: Sequence[Any], deep: int = 1) -> list[Call]:
    if not count:
        return []
    kernel = site.gpu.of_text(windows.text(name), name, site.dtype)
    grid = (*site.gpu.grid(count), min(deep, 65535))
    return [site.gpu.launch(kernel, grid, (THREADS,), arguments)]


def _swap(site: Site, given: Array, out: Array, dims: tuple[int, int, int], *, accumulate: bool = False) -> list[Call]:
    """The calls that write ``(first, second, width)`` as ``(second, first, width)``."""
    count = math.prod(dims)
    if not count:
        return []
    kernel = site.gpu.named("common", "swap_outer", site.dtype)
    arguments = (given, out, *map(np.int64, dims), np.int64(accumulate))
    return [site.gpu.launch(kernel, site.gpu.grid(count), (THREADS,), arguments)]


# -- convolution --------------------------------------------------------------------------------------------


@attrs.frozen
class Form:
    """A convolution as matrices: ``maps`` rows of weights for windows; a transposed one goes the other way."""

    windows: Windows
    maps: int
    transpose: bool


def form_of(node: Node) -> Form | None:
    """The form of a convolution; None if it is another kind (weights that are not shared, the legacy layout)."""
    weights, data = node.inputs
    attributes = node.attributes
    if weights.framed or not data.framed or is_legacy(attributes.image_layout) or 0 in weights.known_shape:
        return None
    geometry = convolution_geometry(weights.known_shape, data.known_shape, attributes)
    windows = Windows.of(geometry)
    if windows is None or not all(attributes.sharing) or any(count != 1 for count in geometry.maps[:-1]):
        return None
    return Form(windows, geometry.maps[-1], attributes.transpose)


class _Product:
    """The products of one convolution: image ``(frames, elements)``, maps ``(frames, maps * windows)``, weights."""

    def __init__(self, site: Site, form: Form, frames: int) -> None:
        self.site = site
        self.form = form
        self.frames = frames

    def parts(self) -> Iterator[slice]:
        """Samples that are done at once."""
        each = self.form.windows.covered * self.form.windows.places
        size = max(1, min(self.frames, MOST // max(1, each)))
        return (slice(begin, min(begin + size, self.frames)) for begin in range(0, self.frames, size))

    def _room(self, count: int) -> tuple[Array, Array]:
        """A matrix for what windows cover and one for maps, ``(rows, frames * windows)``."""
        windows, columns = self.form.windows, count * self.form.windows.places
        flat = self.site.workspace((windows.covered + self.form.maps) * columns)
        cut = windows.covered * columns
        return flat[:cut].reshape(windows.covered, columns), flat[cut:].reshape(self.form.maps, columns)

    def _cover(self, image: Array, cols: Array) -> list[Call]:
        windows, count = self.form.windows, len(image)
        columns = count * windows.places
        return _launch(self.site, windows, "im2col", columns, (image, cols, np.int64(count)), windows.covered)

    def to_maps(self, image: Array, weights: Array, maps: Array, *, accumulate: bool = False) -> list[Call]:
        """Maps from an image."""
        calls: list[Call] = []
        for part in self.parts():
            cols, rows = self._room(part.stop - part.start)
            calls += self._cover(image[part], cols)
            calls += gemm(self.site.gpu, weights, cols, rows)
            dims = (self.form.maps, part.stop - part.start, self.form.windows.places)
            calls += _swap(self.site, rows, maps[part], dims, accumulate=accumulate)
        return calls

    def _spread(self, maps: Array, rows: Array) -> list[Call]:
        return _swap(self.site, maps, rows, (len(maps), self.form.maps, self.form.windows.places))

    def to_weights(self, image: Array, maps: Array, weights: Array, *, accumulate: bool) -> list[Call]:
        """The gradient of the weights."""
        calls: list[Call] = []
        for part in self.parts():
            cols, rows = self._room(part.stop - part.start)
            calls += self._cover(image[part], cols)
            calls += self._spread(maps[part], rows)
            calls += gemm(self.site.gpu, rows, cols, weights, turn_b=True, accumulate=accumulate or part.start > 0)
        return calls if self.frames or accumulate else self.site.gpu.fill(weights, 0.0)

    def to_image(self, maps: Array, weights: Array, image: Array, *, accumulate: bool = False) -> list[Call]:
        """The image from maps: the gradient of the data."""
        calls: list[Call] = []
        windows = self.form.windows
        for part in self.parts():
            count = part.stop - part.start
            cols, rows = self._room(count)
            calls += self._spread(maps[part], rows)
            calls += gemm(self.site.gpu, weights, rows, cols, turn_a=True)
            arguments = (cols, image[part], np.int64(count), np.int64(accumulate))
            calls += _launch(self.site, windows, "col2im", count * windows.size, arguments)
        return calls


def _matrix(site: Site, node: Node, array: Array) -> Array:
    return array.reshape(site.rows(node), elements_of(node))


def bind_convolution(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a convolution; None if it has another form."""
    (node,) = step.nodes
    form = form_of(node)
    if form is None:
        return None
    weights, data = node.inputs
    product = _Product(site, form, site.rows(node))
    matrix = site.values[weights].reshape(form.maps, form.windows.covered)
    given, out = site.matrix(data), site.matrix(node)
    return product.to_image(given, matrix, out) if form.transpose else product.to_maps(given, matrix, out)


def bind_convolution_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a convolution; None if it has another form."""
    (node,) = step.step.nodes
    form = form_of(node)
    if form is None:
        return None
    weights, data = node.inputs
    product = _Product(site, form, site.rows(node))
    gradient = site.gradient_matrix(node)
    shape = form.maps, form.windows.covered
    calls: list[Call] = []
    for target in step.targets:
        if target.node is weights:
            image, maps = (gradient, site.matrix(data)) if form.transpose else (site.matrix(data), gradient)
            out = site.gradients[weights].reshape(shape)
            calls += product.to_weights(image, maps, out, accumulate=target.accumulate)
            continue
        matrix, out = site.values[weights].reshape(shape), site.gradient_matrix(data)
        if form.transpose:
            calls += product.to_maps(gradient, matrix, out, accumulate=target.accumulate)
        else:
            calls += product.to_image(gradient, matrix, out, accumulate=target.accumulate)
    return calls


# -- pooling ------------------------------------------------------------------------------------------------


@attrs.frozen
class Pool:
    """A pooling: of the largest element or of the mean, in which padding may count."""

    windows: Windows
    average: bool
    padding: bool


def pool_of(node: Node) -> Pool | None:
    """The form of a pooling; None for the legacy layout."""
    (data,) = node.inputs
    attributes = node.attributes
    if not data.framed:
        return None
    if node.op.name == "Pooling":
        windows = Windows.of(pooling_geometry(data.known_shape, attributes))
        average, padding = attributes.pool_kind.lower() == "average", bool(attributes.include_pad)
    elif is_legacy(attributes.image_layout):
        return None
    else:
        windows = Windows.of(image_pooling_geometry(data.known_shape, attributes))
        average, padding = node.op.name == "AveragePooling", False
    return None if windows is None else Pool(windows, average, padding)


def bind_pooling(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a pooling; None if it has another form."""
    (node,) = step.nodes
    pool = pool_of(node)
    if pool is None:
        return None
    given, out = site.matrix(node.inputs[0]), site.matrix(node)
    frames = np.int64(len(out))
    settings = (np.int64(pool.padding),) if pool.average else ()
    name = "average" if pool.average else "largest"
    return _launch(site, pool.windows, name, out.size, (given, out, frames, *settings))


def bind_pooling_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradient of a pooling; None if it has another form."""
    (node,) = step.step.nodes
    pool = pool_of(node)
    if pool is None:
        return None
    (target,) = step.targets
    data, windows = node.inputs[0], pool.windows
    gradient, out = site.gradient_matrix(node), site.gradient_matrix(data)
    frames, accumulate = np.int64(len(out)), np.int64(target.accumulate)
    if pool.average:
        arguments = (gradient, out, frames, np.int64(pool.padding), accumulate)
        return _launch(site, windows, "average_gradient", out.size, arguments)
    places = site.scratch(node, "places", windows.places, np.dtype(np.int32))
    found = _launch(site, windows, "largest_places", places.size, (site.matrix(data), places, frames))
    return [*found, *_launch(site, windows, "largest_gradient", out.size, (gradient, places, out, frames, accumulate))]
