"""Regular tables, read by a compiled loop over their bytes (:mod:`.columns`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.readers import POWERS_OF_TEN, decimals_file, fill_odd
from cntk_reader_uci import columns

if TYPE_CHECKING:
    from cntk_reader_uci.table import Columns, Marks

_OF_NUMBERS = b"0123456789+-.eE"
_BYTES_OF_ODD = 5
"""Bytes of text for each number for which there is room among the odd ones: ``1e99`` and a blank."""
_MOST_ODD = 1 << 20
"""Odd numbers at most; a text with more of them is read by other means."""


def read_regular(
    text: bytes, streams: Sequence[Columns], marks: Marks, dtype: np.dtype[Any]
) -> list[NDArray[Any]] | None:
    """Return the values of each stream, as :func:`.table.parse_table`; None if anything is wrong or unusual."""
    from cntk_core.api.engines import byte_loop, can_compile

    kinds = _kinds(streams)
    if kinds is None or not can_compile() or not _usual(marks):
        return None
    loop = byte_loop(columns.__file__, "read_columns", columns.SIGNATURE.format(numbers=dtype), decimals_file())
    data = text if text.endswith(b"\n") else text + b"\n"
    lines = data.count(b"\n")
    numeric, named = np.flatnonzero(kinds == columns.NUMBER), np.flatnonzero(kinds == columns.NAME)
    # A number and what is after it have two bytes at least.
    values = np.empty(min(lines * len(numeric), len(data) // 2 + 1), dtype=dtype)
    names = np.empty(2 * min(lines * len(named), len(data) // 2 + 1), dtype=np.int64)
    odd, used = np.empty(3 * min(len(data) // _BYTES_OF_ODD, _MOST_ODD), dtype=np.int64), np.zeros(1, dtype=np.int64)
    delimiter, point = (marks.delimiter or b" ")[0], (marks.point or b".")[0]
    given = np.frombuffer(data, dtype=np.uint8)
    rows = loop(given, kinds, delimiter, point, POWERS_OF_TEN, values, names, odd, used)
    if rows < 0 or (used[0] and marks.point) or not fill_odd(data, odd[: 3 * used[0]], values):
        return None
    table = values[: rows * len(numeric)].reshape(rows, len(numeric))
    spans = names[: 2 * rows * len(named)].reshape(rows, len(named), 2)
    found = []
    for stream in streams:
        if stream.classes is None:
            first = int(np.searchsorted(numeric, stream.start))
            found.append(np.ascontiguousarray(table[:, first : first + stream.count]))
            continue
        own = spans[:, int(np.searchsorted(named, stream.start))].tolist()
        numbers = np.array([stream.classes.get(data[begin:end], -1) for begin, end in own], dtype=np.int64)
        if (numbers < 0).any():
            return None
        found.append(numbers)
    return found


def _usual(marks: Marks) -> bool:
    """Tell whether lines are cut the same way by one byte after the other: what separates columns is in no number."""
    if marks.point not in (b"", b",") or marks.point == marks.delimiter != b"":
        return False
    return not marks.delimiter or marks.delimiter not in _OF_NUMBERS


def _kinds(streams: Sequence[Columns]) -> NDArray[np.uint8] | None:
    """Return what each column holds; None if one holds numbers for a stream and names for another."""
    kinds = np.full(max(stream.start + stream.count for stream in streams), columns.SKIPPED, dtype=np.uint8)
    for stream in streams:
        kind = columns.NUMBER if stream.classes is None else columns.NAME
        own = kinds[stream.start : stream.start + (stream.count if stream.classes is None else 1)]
        if ((own != columns.SKIPPED) & (own != kind)).any():
            return None
        own[...] = kind
    return kinds
