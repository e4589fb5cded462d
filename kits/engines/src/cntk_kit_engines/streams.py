"""Streams of a minibatch as engines take them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cntk_core.errors import DataError
from cntk_core.network.node import Input
from cntk_core.ops.language.shapes import elements, show
from cntk_core.records.minibatch import StreamData

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def check_size(node: Input, stream: StreamData) -> None:
    """Make sure that the samples of a stream have as many values as the input; of no samples, nobody can tell.

    Raises:
        DataError: they have not.
    """
    sample = stream.data.shape[1:]
    if not stream.data.shape[0] and not stream.sparse:
        return
    if elements(sample) != elements(node.known_shape):
        raise DataError(
            f"the input '{node.name}' is {show(node.known_shape)}, but its stream gives samples of {show(sample)}"
        )


def sparse_matrix(node: Input, stream: StreamData, dtype: Any) -> csr_array:
    """Return the frames of a stream, which may be an array, as a sparse matrix ``(frames, dim)``.

    Raises:
        DataError: the samples have another size than the input.
    """
    from scipy.sparse import csr_array

    check_size(node, stream)
    data: Any = stream.data
    rows = data if stream.sparse else data.reshape(data.shape[0], elements(node.known_shape))
    if isinstance(rows, csr_array) and rows.dtype == dtype:
        return rows
    found: csr_array = csr_array(rows).astype(dtype, copy=False)
    return found
