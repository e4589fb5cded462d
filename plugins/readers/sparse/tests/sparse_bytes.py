"""Files of the three formats, put together byte by byte as their descriptions say."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Row = dict[int, float]


def row(values: Row, code: str = "f") -> bytes:
    return struct.pack(f"<i{len(values)}{code}{len(values)}i", len(values), *values.values(), *values)


def dssm_file(dim: int, rows: Sequence[Row], code: str = "f") -> bytes:
    data = [row(values, code) for values in rows]
    offsets = [sum(map(len, data[:number])) for number in range(len(data))]
    head = struct.pack("<qiq", len(rows), dim, sum(map(len, rows)))
    return head + struct.pack(f"<{len(rows)}q", *offsets) + b"".join(data)


def corpus_file(rows: Sequence[tuple[Sequence[Row], float]], code: str = "f", check: int = 0) -> bytes:
    """Rows of sparse features, in the order of the file, and a label."""
    end = struct.pack("<i", check) if check else b""
    return b"".join(
        b"".join(row(values, code) for values in features) + struct.pack(f"<{code}", label) + end
        for features, label in rows
    )


Named = tuple[str, int]
"""Name and dimension of a stream."""


def batch(features: Sequence[Sequence[Row]], labels: Sequence[Sequence[Sequence[float]]], code: str = "f") -> bytes:
    """For each stream the rows of the batch."""
    count = len([*features, *labels][0])
    data = struct.pack("<i", count)
    for stream in features:
        values = [value for one in stream for value in one.values()]
        indices = [index for one in stream for index in one]
        begins = [sum(map(len, stream[:number])) for number in range(count + 1)]
        data += struct.pack(f"<i{len(values)}{code}", len(values), *values)
        data += struct.pack(f"<{len(indices)}i{count + 1}i", *indices, *begins)
    for dense in labels:
        flat = [value for one in dense for value in one]
        data += struct.pack(f"<{len(flat)}{code}", *flat)
    return data


def libsvm_file(features: Sequence[Named], labels: Sequence[Named], batches: Sequence[bytes], rows: int = 0) -> bytes:
    head = struct.pack("<qqii", rows, len(batches), len(features), len(labels))
    for name, dim in (*features, *labels):
        head += struct.pack("<i", len(name)) + name.encode() + struct.pack("<i", dim)
    offsets = [sum(map(len, batches[:number])) for number in range(len(batches))]
    return head + struct.pack(f"<{len(batches)}q", *offsets) + b"".join(batches)
