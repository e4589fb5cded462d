"""Inputs of a minibatch as XLA takes them: in the precision of the program, padded to the size of a bucket."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, StreamData, elements
from cntk_core.api.engines import check_size
from cntk_engine_xla.staging import Stage, Staging

Array = NDArray[Any]


class Feed:
    """Takes in the frames of one input.

    Args:
        node: the input.
        dtype: of the program.
        staging: where minibatches wait.
    """

    def __init__(self, node: Input, dtype: np.dtype[Any], staging: Staging) -> None:
        self._node = node
        self._stage = Stage(staging, node.known_shape, dtype)

    def take(self, stream: StreamData, rows: int) -> Array:
        """Return the frames of a stream as an array ``(rows, *shape)`` that nobody changes before XLA has read it.

        The rows of the padding repeat the first frame: what is computed of them is no stranger than the minibatch.

        Raises:
            DataError: the samples have another size than the input.
        """
        data: Any = stream.data
        found = self._stage.array(rows)
        if found.shape == data.shape and type(data) is np.ndarray:
            found[...] = data
            return found
        check_size(self._node, stream)
        frames, size = data.shape[0], elements(self._node.known_shape)
        flat = found.reshape(rows, size)
        flat[:frames] = data.toarray() if stream.sparse else data.reshape(frames, size)
        if frames:
            flat[frames:] = flat[0]
        return found


def entries(matrix: Any, rows: int) -> tuple[Array, Array, Array]:
    """Return row, column and number of each element that a sparse matrix names, padded with zeros at a place beyond.

    There is room for ``rows`` elements, doubled until it is enough: labels have one for each row.
    """
    count = len(matrix.indices)
    room = rows
    while room < count:
        room = max(1, 2 * room)
    row, column = np.full(room, rows, np.int32), np.zeros(room, np.int32)
    data = np.zeros(room, matrix.dtype)
    row[:count] = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    column[:count] = matrix.indices
    data[:count] = matrix.data
    return row, column, data


def padded(value: Array, rows: int, *, repeat: bool) -> Array:
    """Return frames ``(frames, ...)`` with further ones until there are ``rows``: the first one again, or zeros."""
    frames = value.shape[0]
    found = np.zeros((rows, *value.shape[1:]), value.dtype)
    found[:frames] = value
    if frames and repeat:
        found[frames:] = value[0]
    return found
