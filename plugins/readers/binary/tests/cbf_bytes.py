"""Files of the binary format, put together byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import attrs
import numpy as np

MAGIC = 0x636E746B5F62696E


@attrs.define
class Stream:
    """A stream of a file that is put together byte by byte, as the format says and without the writer's help."""

    name: bytes
    dim: int
    sparse: bool = False
    double: bool = False
    encoding: int | None = None
    kind: int | None = None

    def header(self) -> bytes:
        encoding = int(self.sparse) if self.encoding is None else self.encoding
        kind = int(self.double) if self.kind is None else self.kind
        return struct.pack("<BI", encoding, len(self.name)) + self.name + struct.pack("<BI", kind, self.dim)

    def data(self, sequence: np.ndarray) -> bytes:
        value = "<f8" if self.double else "<f4"
        if not self.sparse:
            return struct.pack("<I", len(sequence)) + sequence.astype(value).tobytes()
        places = np.nonzero(sequence)
        sizes = np.count_nonzero(sequence, axis=1)
        head = struct.pack("<Ii", len(sequence), len(places[0]))
        values, indices = sequence[places].astype(value), places[1].astype("<i4")
        return head + values.tobytes() + indices.tobytes() + sizes.astype("<i4").tobytes()


Chunks = list[list[dict[bytes, np.ndarray]]]


def binary_file(streams: Iterable[Stream], chunks: Chunks) -> bytes:
    """Return a file; ``chunks`` has for each sequence of each chunk the frames of each stream, dense."""
    streams = list(streams)
    data = struct.pack("<QI", MAGIC, 1)
    table = b""
    for chunk in chunks:
        lengths = [max(len(values) for values in sequence.values()) for sequence in chunk]
        table += struct.pack("<qII", len(data), len(chunk), sum(lengths))
        data += np.array(lengths, dtype="<u4").tobytes()
        data += b"".join(stream.data(sequence[stream.name]) for stream in streams for sequence in chunk)
    header = struct.pack("<QII", MAGIC, len(chunks), len(streams)) + b"".join(stream.header() for stream in streams)
    return data + header + table + struct.pack("<q", len(data))
