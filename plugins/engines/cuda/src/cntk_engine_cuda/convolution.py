"""Convolution: by cuDNN where it is installed and has a plan, else as products of matrices.

For the latter, what the windows of some samples cover is copied into a matrix with a row for each element of the
kernel and a column for each window of each sample ("im2col"); its product with the weights has a row for each map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, convolution_geometry, is_legacy
from cntk_engine_cuda.correlation import Operand, Product, correlation_of
from cntk_engine_cuda.cudnn import ALIGNMENT, Missing, Plan
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.layouts import Legacy, Plain
from cntk_engine_cuda.products import gemm
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.windows import Windows, launch

MOST = 1 << 26
"""Elements of the matrix of what windows cover: as many samples as fit are done at once (256 MiB in float)."""

DIGITS = 5
"""Binary digits of numbers of samples for which plans are made, so that minibatches of any sizes need few of them."""

WEIGHTS_AT = {Product.MAPS: 1, Product.IMAGE: 0, Product.WEIGHTS: None}
"""Which operand of a product has no samples."""

APART = 64
"""Elements of which the places of arrays within work space are multiples."""


@attrs.frozen
class Form:
    """A convolution as matrices: ``maps`` rows of weights for windows; a transposed one goes the other way.

    Attributes:
        legacy: its arrays lie in the legacy layout.
        groups: parts of the channels, and of the maps that see them.
    """

    windows: Windows
    maps: int
    transpose: bool
    legacy: bool
    groups: int

    @property
    def covered(self) -> int:
        """Elements of a window that one map sees."""
        return self.windows.covered // self.groups


def form_of(node: Node) -> Form | None:
    """The form of a convolution; None if it is another kind (weights that are not shared)."""
    weights, data = node.inputs
    attributes = node.attributes
    if weights.framed or not data.framed or 0 in weights.known_shape:
        return None
    geometry = convolution_geometry(weights.known_shape, data.known_shape, attributes)
    windows = Windows.of(geometry)
    if windows is None or not all(attributes.sharing) or any(count != 1 for count in geometry.maps[:-1]):
        return None
    legacy = is_legacy(attributes.image_layout)
    if legacy and (len(geometry.input) != 3 or geometry.counts[-1] != 1):
        return None
    return Form(windows, geometry.maps[-1], attributes.transpose, legacy, attributes.groups)


def _swap(site: Site, given: Array, out: Array, dims: tuple[int, int, int], *, accumulate: bool = False) -> list[Call]:
    """The calls that write ``(first, second, width)`` as ``(second, first, width)``."""
    count = math.prod(dims)
    if not count:
        return []
    kernel = site.gpu.named("common", "swap_outer", site.dtype)
    arguments = (given, out, *map(np.int64, dims), np.int64(accumulate))
    return [site.gpu.launch(kernel, site.gpu.grid(count), (THREADS,), arguments)]


class GemmProducts:
    """The products of one convolution by copying what windows cover.

    Its arrays are an image ``(frames, elements)``, maps ``(frames, maps * windows)`` and weights ``(maps, covered)``;
    in the matrices of what windows cover and of the maps, each group has rows of its own.
    """

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

    def _by_group(self, multiply: Callable[[Array, Array, Array], list[Call]], *matrices: Array) -> list[Call]:
        """The calls of a product of two matrices into a third, group by group."""
        groups = self.form.groups
        calls: list[Call] = []
        for group in range(groups):
            parts = (slice(group * len(each) // groups, (group + 1) * len(each) // groups) for each in matrices)
            calls += multiply(*(each[part] for each, part in zip(matrices, parts, strict=True)))
        return calls

    def _cover(self, image: Array, cols: Array) -> list[Call]:
        windows, count = self.form.windows, len(image)
        columns = count * windows.places
        return launch(self.site, windows, "im2col", columns, (image, cols, np.int64(count)), windows.covered)

    def to_maps(self, image: Array, weights: Array, maps: Array, *, accumulate: bool = False) -> list[Call]:
        """Maps from an image."""
        calls: list[Call] = []
        for part in self.parts():
            cols, rows = self._room(part.stop - part.start)
            calls += self._cover(image[part], cols)
            calls += self._by_group(partial(gemm, self.site.gpu), weights, cols, rows)
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
            multiply = partial(gemm, self.site.gpu, turn_b=True, accumulate=accumulate or part.start > 0)
            calls += self._by_group(multiply, rows, cols, weights)
        return calls if self.frames or accumulate else self.site.gpu.fill(weights, 0.0)

    def to_image(self, maps: Array, weights: Array, image: Array, *, accumulate: bool = False) -> list[Call]:
        """The image from maps: the gradient of the data."""
        calls: list[Call] = []
        windows = self.form.windows
        for part in self.parts():
            count = part.stop - part.start
            cols, rows = self._room(count)
            calls += self._spread(maps[part], rows)
            calls += self._by_group(partial(gemm, self.site.gpu, turn_a=True), weights, rows, cols)
            arguments = (cols, image[part], np.int64(count), np.int64(accumulate))
            calls += launch(self.site, windows, "col2im", count * windows.size, arguments)
        return calls


def pieces(frames: int) -> Iterator[slice]:
    """Samples that one plan takes: their number has no more than :data:`DIGITS` significant binary digits."""
    begin = 0
    while begin < frames:
        rest = frames - begin
        size = rest >> max(0, rest.bit_length() - DIGITS) << max(0, rest.bit_length() - DIGITS)
        yield slice(begin, begin + size)
        begin += size


class Products:
    """The products of one convolution: those for which cuDNN has a plan by cuDNN, the others as matrices.

    Args:
        site: the arrays.
        node: the convolution.
        form: what it computes.
    """

    def __init__(self, site: Site, node: Node, form: Form) -> None:
        self._site = site
        self._node = node
        self._form = form
        self._frames = site.rows(node)
        self._gemm = GemmProducts(site, form, self._frames)

    def to_maps(self, image: Array, weights: Array, maps: Array, *, accumulate: bool = False) -> list[Call]:
        """Maps from an image."""
        found = self._by_cudnn(Product.MAPS, (image, weights), maps, accumulate)
        return self._gemm.to_maps(image, weights, maps, accumulate=accumulate) if found is None else found

    def to_weights(self, image: Array, maps: Array, weights: Array, *, accumulate: bool) -> list[Call]:
        """The gradient of the weights."""
        found = self._by_cudnn(Product.WEIGHTS, (image, maps), weights, accumulate)
        return self._gemm.to_weights(image, maps, weights, accumulate=accumulate) if found is None else found

    def to_image(self, maps: Array, weights: Array, image: Array, *, accumulate: bool = False) -> list[Call]:
        """The image from maps: the gradient of the data."""
        found = self._by_cudnn(Product.IMAGE, (weights, maps), image, accumulate)
        return self._gemm.to_image(maps, weights, image, accumulate=accumulate) if found is None else found

    def _plan(self, product: Product, frames: int) -> Plan | None:
        cudnn, form = self._site.gpu.cudnn, self._form
        assert cudnn is not None
        correlation = correlation_of(form.windows, form.maps, frames, self._site.dtype, form.groups)
        found = Missing(correlation) if isinstance(correlation, str) else cudnn.plan(correlation, product)
        if isinstance(found, Plan):
            return found
        what = _describe(product, form)
        self._site.remarks.setdefault(
            f"{self._node.name}.{what}",
            f"'{self._node.name}' {self._node.op.name}: {what} is computed without cuDNN: {found.reason}",
        )
        return None

    def _by_cudnn(
        self, product: Product, operands: tuple[Array, Array], result: Array, accumulate: bool
    ) -> list[Call] | None:
        """The calls for a product whose operands come in cuDNN's order; None if it has no plan for it."""
        if self._site.gpu.cudnn is None or not self._frames:
            return None
        calls: list[Call] = []
        for part in pieces(self._frames):
            plan = self._plan(product, part.stop - part.start)
            if plan is None:
                return None
            first, second = (
                array if index == WEIGHTS_AT[product] else array[part] for index, array in enumerate(operands)
            )
            if product is Product.WEIGHTS:
                calls += self._run(plan, (first, second), result, accumulate or part.start > 0)
            else:
                calls += self._run(plan, (first, second), result[part], accumulate)
        return calls

    def _run(self, plan: Plan, operands: tuple[Array, Array], result: Array, accumulate: bool) -> list[Call]:
        site = self._site
        direct = not accumulate and _is_aligned(result)  # a plan adds to nothing
        moved = [array for array in operands if not _is_aligned(array)]
        size = -(-plan.workspace // site.dtype.itemsize)
        *rooms, workspace = _cut(site, [*(array.size for array in moved), 0 if direct else result.size, size])
        places = {id(array): room for array, room in zip(moved, rooms, strict=False)}
        out = result if direct else rooms[-1]
        calls = [call for array in moved for call in site.gpu.copy(places[id(array)], array)]
        calls.append(Call(plan.run, (*(places.get(id(array), array) for array in operands), out, workspace)))
        if not direct:
            calls += _swap(site, out, result, (1, 1, result.size), accumulate=accumulate)
        return calls


def _describe(product: Product, form: Form) -> str:
    if product is Product.WEIGHTS:
        return "the gradient of its weights"
    return "its value" if (product is Product.IMAGE) == form.transpose else "the gradient of its input"


def _is_aligned(array: Array) -> bool:
    return int(array.data.ptr) % ALIGNMENT == 0


def _cut(site: Site, counts: Sequence[int]) -> list[Array]:
    """Storage for some arrays for the time of a step, each at a place that is aligned."""
    begins = [0]
    for count in counts:
        begins.append(begins[-1] - -count // APART * APART)
    flat = site.workspace(begins[-1])
    return [flat[begin : begin + count] for begin, count in zip(begins, counts, strict=False)]


def _layout(site: Site, node: Node, form: Form) -> Plain:
    """How the arrays of a convolution lie."""
    windows, rows = form.windows, site.rows(node)
    dims = {
        Operand.IMAGE: (rows, *windows.sizes[1:]),
        Operand.WEIGHTS: (form.maps, *windows.kernel[1:]),
        Operand.MAPS: (rows, form.maps, *windows.counts[2:]),
    }
    if form.legacy:
        return Legacy(site, node, dims)
    dims[Operand.IMAGE] = rows, windows.size
    dims[Operand.WEIGHTS] = form.maps, form.covered
    dims[Operand.MAPS] = rows, form.maps * windows.places
    return Plain(site, node, dims)


def bind_convolution(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a convolution; None if it has another form."""
    (node,) = step.nodes
    form = form_of(node)
    if form is None:
        return None
    weights, data = node.inputs
    product, layout = Products(site, node, form), _layout(site, node, form)
    source, target = (Operand.MAPS, Operand.IMAGE) if form.transpose else (Operand.IMAGE, Operand.MAPS)
    matrix, calls = layout.given(Operand.WEIGHTS, site.values[weights])
    given, more = layout.given(source, site.values[data])
    out, _, after = layout.wanted(target, site.values[node], accumulate=False)
    compute = product.to_image if form.transpose else product.to_maps
    return [*calls, *more, *compute(given, matrix, out), *after]


def bind_convolution_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a convolution; None if it has another form."""
    (node,) = step.step.nodes
    form = form_of(node)
    if form is None:
        return None
    weights, data = node.inputs
    product, layout = Products(site, node, form), _layout(site, node, form)
    source, target = (Operand.MAPS, Operand.IMAGE) if form.transpose else (Operand.IMAGE, Operand.MAPS)
    gradient, calls = layout.given(target, site.gradients[node])
    for each in step.targets:
        if each.node is weights:
            given, before = layout.given(source, site.values[data])
            image, maps = (gradient, given) if form.transpose else (given, gradient)
            out, add, after = layout.wanted(Operand.WEIGHTS, site.gradients[weights], accumulate=each.accumulate)
            calls += [*before, *product.to_weights(image, maps, out, accumulate=add), *after]
        else:
            matrix, before = layout.given(Operand.WEIGHTS, site.values[weights])
            out, add, after = layout.wanted(source, site.gradients[data], accumulate=each.accumulate)
            compute = product.to_maps if form.transpose else product.to_image
            calls += [*before, *compute(gradient, matrix, out, accumulate=add), *after]
    return calls
