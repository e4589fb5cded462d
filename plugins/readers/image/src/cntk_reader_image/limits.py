"""How much memory an image may take, whoever has made it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

IMAGE_PIXELS = 89_478_485
"""Pixels of the largest image, where a recipe does not say ``maxImagePixels``: a quarter of a GiB in colour.

It is the size from which Pillow warns.
"""
_BYTES_OF_PIXEL = 8
"""No format that is read needs more for a pixel, before it is packed: four planes of 16 bits."""
_MORE = 1 << 24
"""Room for what files have besides pixels."""


class BrokenImageError(Exception):
    """An image that cannot be used; the text says why, for a message."""


class Limits:
    """What decoders may take, one image and all together.

    Args:
        pixels: of an image, and of all images that are decoded at the same time.
    """

    def __init__(self, pixels: int = IMAGE_PIXELS) -> None:
        self.pixels = pixels
        self._free = pixels
        self._changed = threading.Condition()
        self._mine = threading.local()

    @property
    def file_bytes(self) -> int:
        """Bytes of the file of an image at most."""
        return self.pixels * _BYTES_OF_PIXEL + _MORE

    def check_file(self, size: int) -> None:
        """Raise BrokenImageError if a file has more bytes than any image that may be decoded."""
        if size > self.file_bytes:
            text = f"its file has {size} bytes, more than an image of maxImagePixels={self.pixels} can have"
            raise BrokenImageError(text)

    def take(self, rows: int, columns: int) -> None:
        """Wait until there is room for the pixels of an image; :meth:`one_image` gives it back.

        Raises:
            BrokenImageError: it has more than are allowed.
        """
        wanted = rows * columns
        if wanted > self.pixels:
            text = f"it has {columns} x {rows} = {wanted} pixels, more than maxImagePixels={self.pixels}"
            raise BrokenImageError(text)
        more = wanted - getattr(self._mine, "pixels", 0)
        if more <= 0 or not hasattr(self._mine, "pixels"):
            return
        with self._changed:
            # Who has pixels already does not wait for others, which may wait for them.
            self._changed.wait_for(lambda: self._mine.pixels or self._free >= more)
            self._free -= more
        self._mine.pixels += more

    @contextmanager
    def one_image(self) -> Iterator[None]:
        """Give back at the end what this thread has taken for an image. Outside of it nothing is counted."""
        self._mine.pixels = 0
        try:
            yield
        finally:
            taken = self._mine.pixels
            del self._mine.pixels
            if taken:
                with self._changed:
                    self._free += taken
                    self._changed.notify_all()
