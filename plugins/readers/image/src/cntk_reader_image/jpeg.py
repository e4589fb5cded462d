"""JPEG files by simplejpeg, which decodes straight into the array that is wanted; to the same pixels as Pillow's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from types import ModuleType

import numpy as np

from cntk_reader_image.resample import Bytes

_BEGIN = b"\xff\xd8\xff"
_EXIF = b"Exif\0\0"
_HEAD = 1 << 16
"""Where the EXIF block is, if there is one: in one of the first segments."""
_COLORS = ("YCbCr", "Gray", "RGB")
SMALL = 1 << 16
"""Images up to so many bytes are made together, and so lie in memory of their own."""


_END = b"\xff\xd9"
_SEQUENTIAL = (0xC0, 0xC1)
_OTHER_FRAMES = range(0xC0, 0xD0)
_TABLES = 0xC4
_SCAN, _LINES = 0xDA, 0xDC
_MARGIN = 32
"""Rows below those that are wanted: the last ones lack the colours of their neighbours. No block row is larger."""

_LARGEST_KEPT = 1 << 26
"""Memory for images of more bytes than these is not kept by each thread for the next one."""

Claim = Callable[[int, int], None]
"""Waits for room for an image of some rows and columns."""
Lowest = Callable[[int, int, int], int]
"""Says how many of the upper rows of an image of some rows, columns and planes are wanted."""


class Scratch(threading.local):
    """Memory for one large image after the other, for each thread its own.

    New memory comes from the system page by page, which takes a quarter of the time of decoding.
    """

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, rows: int, columns: int, planes: int) -> Bytes | None:
        """Return room for an image, which the next one will overwrite; None for a small or a huge one."""
        size = rows * columns * planes
        if not SMALL < size <= _LARGEST_KEPT:
            return None
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size]


@cache
def _library() -> ModuleType | None:
    try:
        import simplejpeg
    except ImportError:
        return None
    found: ModuleType = simplejpeg
    return found


def decode_jpeg(
    data: bytes,
    *,
    gray: bool,
    most_pixels: int | None,
    claim: Claim | None = None,
    scratch: Scratch | None = None,
    lowest: Lowest | None = None,
) -> Bytes | None:
    """Return the pixels ``(rows, columns, planes)``, red first, of a file that can be decoded as it is.

    None where Pillow has to look: without the library, for anything but a sound JPEG in gray or colour, for more than
    ``most_pixels``, and where EXIF data may say how a camera was held. With ``scratch`` the pixels of a large image lie
    there, and with ``lowest`` the rows are decoded that it wants; the others are anything. ``claim`` is called before
    there is any pixel.
    """
    library = _library()
    if library is None or not data.startswith(_BEGIN) or _EXIF in data[:_HEAD]:
        return None
    try:
        rows, columns, colors, _ = library.decode_jpeg_header(data)
        if colors not in _COLORS or (most_pixels is not None and rows * columns > most_pixels):
            return None
        if claim is not None:
            claim(rows, columns)
        space = "GRAY" if gray or colors == "Gray" else "RGB"
        planes = 3 if space == "RGB" else 1
        room = None if scratch is None else scratch.take(rows, columns, planes)
        wanted = rows if room is None or lowest is None else lowest(rows, columns, planes) + _MARGIN
        part = _shortened(data, wanted) if wanted <= rows - rows // 16 else None
        whole = part is None
        pixels: Bytes = library.decode_jpeg(
            data if part is None else part, space, fastdct=False, fastupsample=False, buffer=room, strict=whole
        )
        if room is not None:
            return room.reshape(rows, columns, planes)
    except ValueError:  # Pillow says better what is wrong
        return None
    return pixels


def _shortened(data: bytes, rows: int) -> bytes | None:
    """Return a file with its upper rows alone: the decoder passes over all that comes behind them.

    It cannot tell then whether the file is sound. None unless that does no harm: one scan has all colours, row by row,
    and the file has its end. (Whatever else is wrong with the pixels of a file, Pillow takes it as it is, too.)
    """
    place, height, colors = len(_BEGIN) - 1, 0, 0
    while place + 9 < len(data):
        lead, marker = data[place], data[place + 1]
        if lead != 0xFF or marker in (0xFF, _LINES):
            return None
        if marker == _SCAN:
            sound = height and data[place + 4] == colors and data.endswith(_END)
            return data[:height] + rows.to_bytes(2, "big") + data[height + 2 :] if sound else None
        if marker in _SEQUENTIAL:
            height, colors = place + 5, data[place + 9]
        elif marker in _OTHER_FRAMES and marker != _TABLES:
            return None
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return None
