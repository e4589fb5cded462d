"""Sparse inputs; and products with them: neither the input nor the gradient of the weights is ever a dense array."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, Node, StreamData
from cntk_core.api.engines import (
    GradientStep,
    Native,
    Step,
    best_columns,
    elements_of,
    is_sparse_product,
    sparse_matrix,
)
from cntk_engine_cpu import parts
from cntk_engine_cpu.compiler import compile_file
from cntk_engine_cpu.kernels import Bound
from cntk_engine_cpu.parts import Cut, Parts
from cntk_engine_cpu.shared_calls import shared_calls
from cntk_engine_cpu.site import Array, Call, Site

if TYPE_CHECKING:
    from scipy.sparse import csr_array

IntArray = NDArray[np.intp]

SUMMED_COLUMNS = 32
"""Least columns of a gradient that one thread sums."""


class SparseInlet:
    """Holds the minibatch of a sparse input.

    Args:
        node: the input.
        dtype: precision of the program.
    """

    def __init__(self, node: Input, dtype: np.dtype[Any]) -> None:
        self.node = node
        self.matrix: csr_array
        self._dtype = dtype

    def take(self, stream: StreamData) -> None:
        """Take in a stream, which may be an array, too.

        Raises:
            DataError: the samples have another size than the input.
        """
        self.matrix = sparse_matrix(self.node, stream, self._dtype)
        for name in ("_places", "columns", "compact", "best", "entries"):
            self.__dict__.pop(name, None)

    @functools.cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        columns, places = np.unique(self.matrix.indices, return_inverse=True)
        return columns.astype(np.intp, copy=False), places.reshape(-1)

    @functools.cached_property
    def best(self) -> NDArray[np.int64]:
        """The element of the largest number of each row."""
        return best_columns(self.matrix)

    @functools.cached_property
    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """The elements that the rows name: where each row's begin (and the end), which they are, and their numbers."""
        matrix = self.matrix
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), np.ascontiguousarray(matrix.data)

    @functools.cached_property
    def columns(self) -> IntArray:
        """The elements that occur in the minibatch, sorted."""
        return self._places[0]

    @functools.cached_property
    def compact(self) -> csr_array:
        """The minibatch with the occurring elements alone: ``(frames, len(columns))``."""
        from scipy.sparse import csr_array

        matrix = self.matrix
        shape = (matrix.shape[0], len(self.columns))
        return csr_array((matrix.data, self._places[1], matrix.indptr), shape=shape)


def inlet_of(site: Site, node: Node) -> SparseInlet | None:
    """The input of a product that is kept sparse, None for any other node."""
    return site.sparse.get(node.inputs[1]) if is_sparse_product(node) else None


def _weights(node: Node, array: Array) -> Array:
    """The weights, or something of their size, as a matrix ``(inner, outer)``."""
    return array.reshape(elements_of(node.inputs[1]), -1)


def _results(node: Node, array: Array) -> Array:
    return array.reshape(array.shape[0], elements_of(node))


def bind_look_up(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute LookupTable of one sparse word."""
    (node,) = step.nodes
    inlet = inlet_of(site, node)
    return bind_forward(site, node, inlet) if inlet is not None else None


def bind_forward(site: Site, node: Node, inlet: SparseInlet) -> list[Call]:
    """Return the calls that compute a product."""
    weights, out = _weights(node, site.values[node.inputs[0]]), _results(node, site.values[node])
    if site.kernels.compiled:
        multiply = _kernel(site, "multiply", "void({index}, {index}, {flat}, {matrix}, {matrix})")
        cuts: list[Cut] = [*ENTRIES, "whole", "rows"]
        return sparse_calls(site, multiply, lambda: inlet.entries, (weights, out), cuts, out)

    def compute() -> None:
        out[...] = inlet.matrix @ weights

    return [Call(compute)]


ENTRIES: tuple[Cut, ...] = ("borders", "whole", "whole")
"""What a part of the rows gets of the entries of a minibatch."""


def sparse_calls(
    site: Site,
    kernel: Native,
    entries: Callable[[], Sequence[Array]],
    rest: Sequence[Any],
    cuts: Sequence[Cut],
    like: Array,
) -> list[Call]:
    """Return the calls of a kernel whose first arguments are those of the minibatch, which are asked for each time.

    Args:
        site: where.
        kernel: goes row by row.
        entries: gives its first arguments.
        rest: its others.
        cuts: what a part of the rows gets of each argument.
        like: the matrix that it goes over.
    """
    first, *after = shared_calls(site, kernel, like.shape, [*entries(), *rest], cuts)
    bound = first.function if isinstance(first.function, Parts) else _bound(site, first)
    count = len(kernel.parameters) - len(rest)

    def compute() -> None:
        for place, array in zip(range(count), entries(), strict=True):
            bound.put(place, array)
        bound()

    return [Call(compute), *after]


def _bound(site: Site, call: Call) -> Bound:
    bound = Bound(call.function, call.arguments)
    for place, argument in enumerate(call.arguments):
        if isinstance(argument, np.ndarray):
            site.ports.follow_view(argument, functools.partial(bound.put, place))
    return bound


def _kernel(site: Site, name: str, signature: str) -> Native:
    dtype = site.dtype.name
    types = {"index": "int64[::1]", "flat": f"{dtype}[::1]", "matrix": f"{dtype}[:, ::1]"}
    return compile_file(Path(__file__).with_name("sparse_kernels.py"), name, dtype, signature.format(**types))


def bind_gradient(site: Site, node: Node, inlet: SparseInlet, *, accumulate: bool) -> Call:
    """Return the call that computes the gradient of the weights into an array as large as they are."""
    sums = _bind_sums(site, node, inlet)
    out = _weights(node, site.gradients[node.inputs[0]])

    def compute() -> None:
        if not accumulate:
            out.fill(0.0)
        rows, block = sums()
        out[rows] += block

    return Call(compute)


def bind_look_up_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradient of LookupTable of one sparse word."""
    (node,) = step.step.nodes
    inlet = inlet_of(site, node)
    if inlet is None:
        return None
    return [bind_gradient(site, node, inlet, accumulate=target.accumulate) for target in step.targets]


def _bind_sums(site: Site, node: Node, inlet: SparseInlet) -> Callable[[], tuple[IntArray, Array]]:
    """Return the function that gives the elements that occur, sorted, and the gradient of the weights by them:
    ``(elements, outer)``.
    """
    gradient = _results(node, site.gradients[node])
    if not site.kernels.compiled:
        return lambda: (inlet.columns, inlet.compact.T @ gradient)
    find = _kernel(site, "find", "int64({index}, {index}, {index})")
    add = _kernel(site, "sum_rows", "void({index}, {index}, {flat}, {matrix}, {index}, {index}, {matrix})")
    places = np.full(elements_of(node.inputs[1]), -1)
    room = [np.empty(0, np.int64), np.empty((0, gradient.shape[1]), gradient.dtype)]
    width = gradient.shape[1]
    shared = _shared_sums(site, gradient, places, room[1]) if site.gemm.team.threads > 1 else None

    def compute() -> tuple[IntArray, Array]:
        most = len(inlet.entries[1])
        if len(room[0]) < most:
            room[:] = [np.empty(most, np.int64), np.empty((most, gradient.shape[1]), gradient.dtype)]
        begins, elements, numbers = inlet.entries
        count = find(elements, places, room[0])
        found, sums = room[0][:count], room[1][:count]
        found.sort()
        if shared is not None and most * width >= parts.SPLIT_ELEMENTS:
            shared(inlet.entries, found, sums)
        else:
            add(begins, elements, numbers, gradient, places, found, sums)
        return found, sums

    return compute


def _shared_sums(
    site: Site, gradient: Array, places: IntArray, sums: Array
) -> Callable[[Sequence[Array], IntArray, Array], None]:
    """Return the function of a minibatch's entries, elements and sums that sums: some columns for each thread.

    The sum of a column does not depend on the others.
    """
    mark, unmark = (_kernel(site, name, "void({index}, {index})") for name in ("mark", "unmark"))
    signature = "void({index}, {index}, {flat}, {matrix}, {index}, {matrix}, int64, int64)"
    nothing, width = np.empty(0, np.int64), gradient.shape[1]
    count = max(1, width // SUMMED_COLUMNS)
    ends = [width * part // count for part in range(count + 1)]
    arguments = [nothing, nothing, np.empty(0, site.dtype), gradient, places, sums, 0, width]
    whole: list[Cut] = ["whole"] * 6
    cuts: list[Cut] = [*whole, "first", "count"]
    shared = Parts(site.gemm.team, _kernel(site, "sum_columns", signature), ends, arguments, cuts, site.ports)

    def compute(entries: Sequence[Array], found: IntArray, sums: Array) -> None:
        for place, array in (*enumerate(entries), (5, sums)):
            shared.put(place, array)
        mark(found, places)
        shared()
        unmark(found, places)

    return compute


@attrs.define(eq=False)
class RowGradient:
    """The gradient of a parameter by the elements that occur: the sum of those of several products."""

    rows: IntArray | None = None
    block: Array | None = None

    def clear(self) -> None:
        """Forget the last minibatch."""
        self.rows = self.block = None

    def add(self, rows: IntArray, block: Array) -> None:
        """Add the gradient that a product gives."""
        if self.rows is None or self.block is None:
            self.rows, self.block = rows, block
            return
        union = np.union1d(self.rows, rows)
        total = np.zeros((len(union), block.shape[1]), block.dtype)
        total[np.searchsorted(union, self.rows)] = self.block
        total[np.searchsorted(union, rows)] += block
        self.rows, self.block = union, total


def bind_rows(site: Site, node: Node, inlet: SparseInlet, gradient: RowGradient) -> Call:
    """Return the call that adds the gradient of a product to those of other products."""
    sums = _bind_sums(site, node, inlet)
    return Call(lambda: gradient.add(*sums()))
