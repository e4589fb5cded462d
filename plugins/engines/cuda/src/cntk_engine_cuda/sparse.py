"""Sparse inputs, and products with them: on the host as matrices, on the device as their elements.

The device has the elements row by row, and column by column for gradients: a sum over the rows that name a column is
then done in one order, whatever the threads do.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, StreamData
from cntk_core.api.engines import GradientStep, Step, best_columns, elements_of, is_sparse_product, sparse_matrix
from cntk_engine_cuda.gpu import Array, Call, Gpu
from cntk_engine_cuda.inputs import Staging
from cntk_engine_cuda.site import Site

if TYPE_CHECKING:
    from scipy.sparse import csr_array

IntArray = NDArray[np.int64]

_INDEX = np.dtype(np.int64)

FORMS = {
    "row": ("start", "places", "data"),
    "column": ("count", "columns", "column_start", "rows", "column_data"),
    "best": ("best",),
}
"""The arrays in which the device may have a minibatch."""


class _Place:
    """An array of the device that is sent anew with each minibatch."""

    def __init__(self, gpu: Gpu, dtype: np.dtype[Any]) -> None:
        self._gpu = gpu
        self._dtype = dtype
        self._staging = Staging(gpu, dtype)
        self.array: Array = None

    def send(self, values: NDArray[Any]) -> bool:
        """Send values. Returns whether the array is another one now."""
        flat = np.ascontiguousarray(values, self._dtype)
        moved = self.array is None or self.array.size < flat.size
        if moved:
            self.array = self._gpu.empty(max(64, flat.size + flat.size // 4), self._dtype)
        self._staging.send(flat, self.array)
        return moved


class SparseInlet:
    """Holds the minibatch of a sparse input.

    Args:
        gpu: the device.
        node: the input.
        dtype: precision of the program.
    """

    def __init__(self, gpu: Gpu, node: Input, dtype: np.dtype[Any]) -> None:
        self.node = node
        self.matrix: csr_array
        self._dtype = dtype
        self._places = {
            name: _Place(gpu, dtype if name.endswith("data") else _INDEX) for form in FORMS.values() for name in form
        }
        self._wanted: set[str] = set()

    def take(self, stream: StreamData) -> bool:
        """Take in a stream, which may be an array, too. Returns whether an array of the device is another one now.

        Raises:
            DataError: the samples have another size than the input.
        """
        self.matrix = sparse_matrix(self.node, stream, self._dtype)
        for name in ("columns", "_by_column"):
            self.__dict__.pop(name, None)
        moved = [self._send(form) for form in sorted(self._wanted)]
        return any(moved)

    @functools.cached_property
    def columns(self) -> IntArray:
        """The elements that occur in the minibatch, sorted."""
        return np.unique(self.matrix.indices).astype(np.int64, copy=False)

    @functools.cached_property
    def _by_column(self) -> tuple[IntArray, IntArray, NDArray[Any]]:
        """The elements column by column: where each occurring column's begin, their rows and numbers."""
        matrix = self.matrix
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        order = np.argsort(matrix.indices, kind="stable")
        sorted_columns = matrix.indices[order]
        start = np.searchsorted(sorted_columns, self.columns)
        return np.append(start, len(order)), rows[order], matrix.data[order]

    def _send(self, form: str) -> bool:
        matrix = self.matrix
        if form == "row":
            arrays: tuple[Any, ...] = (matrix.indptr, matrix.indices, matrix.data)
        elif form == "column":
            arrays = (np.array([len(self.columns)]), self.columns, *self._by_column)
        else:
            arrays = (best_columns(matrix),)
        moved = [self._places[name].send(array) for name, array in zip(FORMS[form], arrays, strict=True)]
        return any(moved)

    def arrays(self, form: str) -> tuple[Array, ...]:
        """The arrays of a form on the device, for this minibatch and all that come."""
        if form not in self._wanted:
            self._wanted.add(form)
            self._send(form)
        return tuple(self._places[name].array for name in FORMS[form])


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of a product with a sparse input; None for any other node."""
    (node,) = step.nodes
    inlet = site.sparse.get(node.inputs[1]) if is_sparse_product(node) else None
    if inlet is None:
        return None
    out = site.matrix(node)
    rows, width = out.shape
    if not out.size:
        return []
    kernel = site.gpu.named("sparse", "multiply", site.dtype)
    arguments = (*inlet.arrays("row"), site.values[node.inputs[0]], out, np.int64(width))
    return [site.gpu.launch(kernel, (rows, *_columns(width)), (_threads(width),), arguments)]


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of the gradient of the weights of such a product; None for any other node.

    A step does not clear the gradient of a parameter whose gradients all come from sparse inputs: that is done before.
    """
    (node,) = step.step.nodes
    inlet = site.sparse.get(node.inputs[1]) if is_sparse_product(node) else None
    if inlet is None or [target.node for target in step.targets] != [node.inputs[0]]:
        return None
    (target,) = step.targets
    out = site.gradients[target.node]
    calls = [] if target.accumulate else site.gpu.fill(out, 0.0)
    rows = site.rows(node)
    if not rows or not out.size:
        return calls
    gradient = site.gradients[node].reshape(rows, elements_of(node))
    width = gradient.shape[1]
    kernel = site.gpu.named("sparse", "add_columns", site.dtype)
    arguments = (*inlet.arrays("column"), gradient, out, np.int64(width))
    grid = (4 * site.gpu.processors, *_columns(width))
    return [*calls, site.gpu.launch(kernel, grid, (_threads(width),), arguments)]


def _threads(width: int) -> int:
    return min(256, 32 * -(-width // 32))


def _columns(width: int) -> tuple[int, ...]:
    """Blocks beside each other along the columns."""
    return (-(-width // _threads(width)),)
