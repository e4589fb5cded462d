"""The elements that windows cover, gathered into rows and put back; what convolution and pooling are made of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.framing import flat_rows
from cntk_core.ops.geometry import Geometry
from cntk_core.ops.op import Array
from cntk_core.ops.shapes import elements

OUTSIDE = -1
"""Place of an element that lies in the padding: the one after the last of a sample that :func:`extended` makes."""


@lru_cache(maxsize=64)
def positions(geometry: Geometry) -> NDArray[np.int64]:
    """Return the places in a sample that each window covers, ``(windows, kernel elements)``, in memory order.

    Padding is :data:`OUTSIDE`.
    """
    axes = []
    for size, width, step, lower, count in zip(
        geometry.input, geometry.kernel, geometry.stride, geometry.lower, geometry.counts, strict=True
    ):
        covered = np.arange(count)[:, None] * step - lower + np.arange(width)[None, :]
        axes.append(np.where((covered >= 0) & (covered < size), covered, OUTSIDE))
    found: NDArray[np.int64] = np.zeros((1, 1), np.int64)
    inside: NDArray[np.bool_] = np.ones((1, 1), bool)
    # From CNTK's last axis, which is the slowest in memory, to its first.
    for size, covered in zip(reversed(geometry.input), reversed(axes), strict=True):
        found = found[:, None, :, None] * size + covered[None, :, None, :]
        inside = inside[:, None, :, None] & (covered != OUTSIDE)[None, :, None, :]
        rows, columns = found.shape[0] * found.shape[1], found.shape[2] * found.shape[3]
        found, inside = found.reshape(rows, columns), inside.reshape(rows, columns)
    found[~inside] = OUTSIDE
    found.setflags(write=False)
    return found


def gathered(xp: Any, data: Array, geometry: Geometry, padding: float) -> Array:
    """Return what the windows cover, ``(frames, windows, kernel elements)``, of data ``(frames, elements)``."""
    frames = data.shape[0]
    flat = flat_rows(data)
    column = xp.full((frames, 1), padding, dtype=flat.dtype)
    return xp.concatenate([flat, column], axis=1)[:, positions(geometry)]


def put_back(xp: Any, covered: Array, geometry: Geometry) -> Array:
    """Return samples ``(frames, elements)`` with the sum of what the windows have at each place."""
    places = positions(geometry)
    result = xp.zeros((covered.shape[0], elements(geometry.input) + 1), dtype=covered.dtype)
    for index in range(places.shape[1]):
        # One element of each window: no place twice but the padding, which is thrown away.
        result[:, places[:, index]] += covered[:, :, index]
    return result[:, :-1]


def add_at(values: Array, places: Array, size: int) -> Array:
    """Return samples ``(frames, size)`` with values ``(frames, n)`` added at places ``(frames, n)``."""
    frames = values.shape[0]
    result = np.zeros((frames, size + 1), values.dtype)
    np.add.at(result, (np.arange(frames)[:, None], places), values)
    return result[:, :-1]
