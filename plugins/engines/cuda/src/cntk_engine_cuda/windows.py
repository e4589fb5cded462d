"""Windows over samples, the kernels that go with them, and pooling."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Kernel, Node
from cntk_core.api.engines import (
    Geometry,
    GradientStep,
    Step,
    image_pooling_geometry,
    is_legacy,
    kernels,
    pooling_geometry,
)
from cntk_engine_cuda.gpu import THREADS, Call
from cntk_engine_cuda.site import Site

AXES = 4
"""Axes of a sample that the kernels know."""


@attrs.frozen
class Windows:
    """Windows over samples, with a number for each of four axes in the order of memory.

    Attributes:
        sizes: of the samples.
        kernel: elements of a window.
        strides: from window to window.
        lower: padding before the first element; negative where the first elements are left out.
        counts: windows.
        dilation: distance between the places of a window; 1 where they stand side by side.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    counts: tuple[int, ...]
    dilation: tuple[int, ...] = (1,) * AXES

    @classmethod
    def of(cls, geometry: Geometry) -> Windows | None:
        """The windows of a geometry; None if it has more axes."""
        missing = AXES - len(geometry.input)
        if missing < 0 or 0 in geometry.input:
            return None
        fields = ("input", "kernel", "stride", "lower", "counts", "dilation")
        parts = zip((getattr(geometry, field)[::-1] for field in fields), (1, 1, 1, 0, 1, 1), strict=True)
        return cls(*((fill,) * missing + tuple(part) for part, fill in parts))

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
        letters = zip("SKTLND", attrs.astuple(self, recurse=False), strict=True)
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


def launch(site: Site, windows: Windows, name: str, count: int, arguments: Sequence[Any], deep: int = 1) -> list[Call]:
    """The calls of one of the kernels of these windows, for ``count`` threads, ``deep`` times over."""
    if not count:
        return []
    kernel = site.gpu.of_text(windows.text(name), name, site.dtype)
    grid = (*site.gpu.grid(count), min(deep, 65535))
    return [site.gpu.launch(kernel, grid, (THREADS,), arguments)]


@attrs.frozen
class Pool:
    """A pooling: of the largest element or of the mean, in which padding may count."""

    windows: Windows
    average: bool
    padding: bool


def _general(node: Node) -> Pool | None:
    """The form of Pooling; None if it has too many axes."""
    attributes = node.attributes
    windows = Windows.of(pooling_geometry(node.inputs[0].known_shape, attributes))
    average = attributes.pool_kind.lower() == "average"
    return None if windows is None else Pool(windows, average, bool(attributes.include_pad))


def _of_images(node: Node, *, average: bool) -> Pool | None:
    """The form of MaxPooling or AveragePooling; None for the legacy layout, or if it has too many axes."""
    attributes = node.attributes
    if is_legacy(attributes.image_layout):
        return None
    windows = Windows.of(image_pooling_geometry(node.inputs[0].known_shape, attributes))
    return None if windows is None else Pool(windows, average, False)


PoolOf = Callable[[Node], Pool | None]


def bind_pooling(pool_of: PoolOf, site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a pooling; None if it has another form."""
    (node,) = step.nodes
    pool = pool_of(node) if node.inputs[0].framed else None
    if pool is None:
        return None
    given, out = site.matrix(node.inputs[0]), site.matrix(node)
    frames = np.int64(len(out))
    settings = (np.int64(pool.padding),) if pool.average else ()
    name = "average" if pool.average else "largest"
    return launch(site, pool.windows, name, out.size, (given, out, frames, *settings))


def bind_pooling_gradient(pool_of: PoolOf, site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradient of a pooling; None if it has another form."""
    (node,) = step.step.nodes
    pool = pool_of(node) if node.inputs[0].framed else None
    if pool is None:
        return None
    (target,) = step.targets
    data, windows = node.inputs[0], pool.windows
    gradient, out = site.gradient_matrix(node), site.gradient_matrix(data)
    frames, accumulate = np.int64(len(out)), np.int64(target.accumulate)
    if pool.average:
        arguments = (gradient, out, frames, np.int64(pool.padding), accumulate)
        return launch(site, windows, "average_gradient", out.size, arguments)
    places = site.scratch(node, "places", windows.places, np.dtype(np.int32))
    found = launch(site, windows, "largest_places", places.size, (site.matrix(data), places, frames))
    return [*found, *launch(site, windows, "largest_gradient", out.size, (gradient, places, out, frames, accumulate))]


def _kernels(name: str, pool_of: PoolOf) -> tuple[Kernel, ...]:
    return kernels("cuda", [name], partial(bind_pooling, pool_of), partial(bind_pooling_gradient, pool_of))


KERNELS = (
    *_kernels("Pooling", _general),
    *_kernels("MaxPooling", partial(_of_images, average=False)),
    *_kernels("AveragePooling", partial(_of_images, average=True)),
)
