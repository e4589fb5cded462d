"""Sparse inputs: on the host as matrices, on the device as their elements row by row and column by column."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, StreamData
from cntk_engine_cuda.inputs import check_size
from cntk_engine_cuda.site import elements_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

IntArray = NDArray[np.int64]


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
        from scipy.sparse import csr_array

        check_size(self.node, stream)
        data: Any = stream.data
        rows = data if stream.sparse else data.reshape(data.shape[0], elements_of(self.node))
        fits = isinstance(rows, csr_array) and rows.dtype == self._dtype
        self.matrix = rows if fits else csr_array(rows).astype(self._dtype, copy=False)
        self.__dict__.pop("columns", None)

    @functools.cached_property
    def columns(self) -> IntArray:
        """The elements that occur in the minibatch, sorted."""
        return np.unique(self.matrix.indices).astype(np.int64, copy=False)
