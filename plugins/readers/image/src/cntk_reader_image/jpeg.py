"""JPEG files by simplejpeg, which decodes straight into the array that is wanted; to the same pixels as Pillow's."""

from __future__ import annotations

import threading
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


class Scratch(threading.local):
    """Memory for one large image after the other, for each thread its own.

    New memory comes from the system page by page, which takes a quarter of the time of decoding.
    """

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, rows: int, columns: int, planes: int) -> Bytes | None:
        """Return room for an image, which the next one will overwrite; None for a small one."""
        size = rows * columns * planes
        if size <= SMALL:
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


def decode_jpeg(data: bytes, *, gray: bool, most_pixels: int | None, scratch: Scratch | None = None) -> Bytes | None:
    """Return the pixels ``(rows, columns, planes)``, red first, of a file that can be decoded as it is.

    None where Pillow has to look: without the library, for anything but a sound JPEG in gray or colour, for more than
    ``most_pixels``, and where EXIF data may say how a camera was held. With ``scratch`` the pixels of a large image lie
    there.
    """
    library = _library()
    if library is None or not data.startswith(_BEGIN) or _EXIF in data[:_HEAD]:
        return None
    try:
        rows, columns, colors, _ = library.decode_jpeg_header(data)
        if colors not in _COLORS or (most_pixels is not None and rows * columns > most_pixels):
            return None
        space = "GRAY" if gray or colors == "Gray" else "RGB"
        room = None if scratch is None else scratch.take(rows, columns, len(space) if space == "RGB" else 1)
        pixels: Bytes = library.decode_jpeg(data, space, fastdct=False, fastupsample=False, buffer=room)
    except ValueError:  # Pillow says better what is wrong
        return None
    return pixels
