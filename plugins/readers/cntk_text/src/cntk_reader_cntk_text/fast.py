"""The fast parser: regular text by a compiled loop over its bytes (:mod:`.lines`).

It accepts only what the exact parser accepts without complaint and gives the same result, or it returns None.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api.readers import POWERS_OF_TEN, decimals_file, fill_odd
from cntk_reader_cntk_text import lines
from cntk_reader_cntk_text.records import IntArray, Parsed, Samples, StreamSpec

_BYTES_OF_ODD = 5
"""Bytes of text for each number for which there is room among the odd ones: ``1e99`` and a blank."""
_MOST_ODD = 1 << 17
"""Odd numbers at most: a usual block cannot have more, and what has a line of megabytes is left to the exact parser."""
_MOST_FILLED = 64
"""Values for each byte of text that are filled up with zeros at most; the exact parser knows of no room."""

Loop = Callable[..., int]


def parse_fast(
    data: bytes, streams: Sequence[StreamSpec], dtype: np.dtype[Any], loop: Loop | None = None
) -> Parsed | None:
    """Read lines of text, or return None if something in them is unusual.

    Args:
        data: ends with a newline.
        streams: what is wanted.
        dtype: precision of the values.
        loop: :func:`.lines.read_lines` or its like; usually what was compiled of it.
    """
    loop = loop or _loop(dtype)
    if loop is None:
        return None
    known = _known(tuple(streams))
    items = data.count(b"|")
    rooms = [len(data) // 4 + 1 if stream.sparse else len(data) // 2 + 1 + stream.dim for stream in streams]
    found = _read(data, known, rooms, items, dtype, loop)
    if isinstance(found, int) and found == lines.NO_ROOM and items * known.widest <= _MOST_FILLED * len(data):
        rooms = [room if stream.sparse else items * stream.dim for room, stream in zip(rooms, streams, strict=True)]
        found = _read(data, known, rooms, items, dtype, loop)
    return None if isinstance(found, int) else found


@attrs.frozen(eq=False)
class _Streams:
    """What the loop is told about the streams.

    Attributes:
        specs: the streams.
        names, ends: their names one after the other, and where each ends.
        dims, sparse: of each.
        widest: the largest ``dim`` of a dense one.
    """

    specs: tuple[StreamSpec, ...]
    names: NDArray[np.uint8]
    ends: IntArray
    dims: IntArray
    sparse: NDArray[np.uint8]
    widest: int


@functools.lru_cache(maxsize=16)
def _known(specs: tuple[StreamSpec, ...]) -> _Streams:
    return _Streams(
        specs,
        np.frombuffer(b"".join(spec.alias for spec in specs), dtype=np.uint8),
        np.cumsum([len(spec.alias) for spec in specs], dtype=np.int64),
        np.array([spec.dim for spec in specs], dtype=np.int64),
        np.array([spec.sparse for spec in specs], dtype=np.uint8),
        max((spec.dim for spec in specs if not spec.sparse), default=0),
    )


def _read(
    data: bytes, streams: _Streams, rooms: list[int], items: int, dtype: np.dtype[Any], loop: Loop
) -> Parsed | int:
    """Read lines, or return why they cannot be read."""
    count = len(streams.specs)
    ends = np.cumsum(rooms, dtype=np.int64)
    used = np.zeros(2 * count + 2, dtype=np.int64)
    used[0 : 2 * count : 2] = ends - rooms
    used[1 : 2 * count : 2] = np.arange(count) * items
    first = used.copy()
    values = np.empty(int(ends[-1]), dtype=dtype)
    indices = np.empty(len(values) if streams.sparse.any() else 1, dtype=np.int32)
    of_line, counts = np.empty(count * items, dtype=np.int64), np.empty(count * items, dtype=np.int64)
    short = np.empty(items, dtype=np.int64)
    odd = np.empty(3 * min(len(data) // _BYTES_OF_ODD, _MOST_ODD), dtype=np.int64)
    total = loop(
        np.frombuffer(data, dtype=np.uint8), streams.names, streams.ends, streams.dims, streams.sparse,
        POWERS_OF_TEN, ends, used, values, indices, of_line, counts, short, odd,
    )  # fmt: skip
    if total < 0:
        return total
    if not fill_odd(data, odd[: 3 * used[-1]], values):
        return lines.GIVE_UP
    samples = []
    for number, spec in enumerate(streams.specs):
        mine = slice(int(first[2 * number]), int(used[2 * number]))
        rows = slice(int(first[2 * number + 1]), int(used[2 * number + 1]))
        if spec.sparse:
            samples.append(Samples(of_line[rows], values[mine].copy(), indices[mine].copy(), counts[rows]))
        else:
            samples.append(Samples(of_line[rows], values[mine].reshape(-1, spec.dim).copy()))
    return Parsed(total, samples, short=short[: used[-2]].tolist())


def _loop(dtype: np.dtype[Any]) -> Loop | None:
    """Return the loop, compiled for values of a precision; None where there is no compiler."""
    from cntk_core.api.engines import byte_loop, can_compile

    if not can_compile():
        return None
    return byte_loop(lines.__file__, "read_lines", lines.SIGNATURE.format(numbers=dtype), decimals_file())
