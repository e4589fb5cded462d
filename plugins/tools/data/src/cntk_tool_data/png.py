"""PNG pictures, written without any other package.

ISO/IEC 15948: a signature, then chunks of length, name, data and CRC. Rows are stored without a filter.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOUR = 0, 2


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """Return a picture ``(height, width)`` in grey or ``(height, width, 3)`` in red, green and blue as a PNG file."""
    height, width = image.shape[:2]
    kind = _COLOUR if image.ndim == 3 else _GREY
    rows = np.zeros((height, 1 + image[0].size), np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return (
        _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + _chunk(b"IEND", b"")
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
