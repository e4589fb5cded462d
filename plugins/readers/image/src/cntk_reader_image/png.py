"""PNG files of the usual kinds, without the effort of an image library: unpacked by zlib, the rest in compiled loops.

Of a small image nearly all the time of a library goes into its objects, under the GIL. What is unusual in a file, and
whatever is wrong with it, is left to Pillow; the pixels are the same. Source of the format: Portable Network Graphics
Specification (W3C, 2003).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import attrs
import numpy as np

from cntk_reader_image.jpeg import Claim
from cntk_reader_image.resample import Bytes

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BEGIN = _SIGNATURE + b"\0\0\0\rIHDR"
_HEADER = struct.Struct(">IIBBBBB")
_CHUNK = struct.Struct(">I4s")
_NUMBER = struct.Struct(">I")
_FRAME = 12
"""Bytes of a chunk besides its data: the length and the type before, the check sum behind."""
_PLANES = {0: 1, 2: 3, 3: 1, 6: 4}
"""Kinds of images, and the bytes of their pixels where a number has eight bits: gray, colours, palette, with alpha."""
_GRAY, _PALETTE = 0, 3
_WITHOUT_EFFECT = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"pHYs": 9, b"tIME": 7, b"sBIT": 0, b"bKGD": 0, b"tEXt": 0}
"""Chunks that change no pixels, and the size that they have; 0: any."""
_TRANSPARENT = {0: 2, 2: 6}
"""Sizes of the chunk that calls a colour transparent; that of a palette may have any."""


@attrs.frozen
class _Header:
    """What a file says before its pixels: size, kind, the palette, and where the first chunk of pixels begins."""

    columns: int
    rows: int
    kind: int
    palette: bytes
    pixels: int


def decode_png(
    data: bytes, compiled: Any, *, gray: bool, most_pixels: int | None, claim: Claim | None = None
) -> Bytes | None:
    """Return the pixels ``(rows, columns, planes)``, red first, of a file that can be decoded as it is.

    None where Pillow has to look: for anything but a sound PNG with eight bits, not interlaced, for more than
    ``most_pixels``, for colours where ``gray`` is asked for, and for chunks that may change the pixels.

    Args:
        data: the file.
        compiled: :mod:`cntk_reader_image.kernels`.
        gray: as gray.
        most_pixels: None: any number.
        claim: is called before there is any pixel.
    """
    header = _read_header(data) if data.startswith(_BEGIN) else None
    if header is None or (gray and header.kind != _GRAY):
        return None
    rows, columns, planes = header.rows, header.columns, _PLANES[header.kind]
    if not rows * columns or (most_pixels is not None and rows * columns > most_pixels):
        return None
    if claim is not None:
        claim(rows, columns)
    size = columns * planes
    packed = _packed(data, header.pixels)
    unpacked = _unpack(packed, rows * (size + 1)) if packed else None
    if unpacked is None:
        return None
    filtered = np.frombuffer(unpacked, np.uint8).reshape(rows, size + 1)
    found = np.empty((rows, size), np.uint8)
    if not compiled.unfilter(filtered, planes, found):
        return None
    if header.kind == _PALETTE:
        return _colored(found, header.palette)
    return found.reshape(rows, columns, planes)


def _read_header(data: bytes) -> _Header | None:
    """Read up to the pixels; None if there is anything out of the usual."""
    try:
        columns, rows, depth, kind, packing, filtering, interlaced = _HEADER.unpack_from(data, len(_BEGIN))
        if depth != 8 or kind not in _PLANES or packing or filtering or interlaced:
            return None
        palette = b""
        place = len(_SIGNATURE)
        while True:
            size, name = _CHUNK.unpack_from(data, place)
            if name == b"IDAT":
                return None if kind == _PALETTE and not palette else _Header(columns, rows, kind, palette, place)
            content = data[place + 8 : place + 8 + size]
            if name == b"PLTE":
                if palette or size % 3:
                    return None
                palette = content
            elif name == b"tRNS":
                if size != _TRANSPARENT.get(kind, size):
                    return None
            elif _WITHOUT_EFFECT.get(name, -1) not in (0, size) and place > len(_SIGNATURE):
                return None
            (check,) = _NUMBER.unpack_from(data, place + 8 + size)
            if zlib.crc32(content, zlib.crc32(name)) != check:
                return None
            place += size + _FRAME
    except struct.error:
        return None


def _packed(data: bytes, place: int) -> bytes | None:
    """Return the data of the chunks of pixels, which follow each other; None if the last one ends too early."""
    parts = []
    while place + 8 <= len(data):
        size, name = _CHUNK.unpack_from(data, place)
        if name != b"IDAT":
            break
        parts.append(data[place + 8 : place + 8 + size])
        if len(parts[-1]) < size:
            return None
        place += size + _FRAME
    return b"".join(parts)


def _unpack(packed: bytes, size: int) -> bytes | None:
    """Return so many bytes; None if there are more or fewer. It never takes much more memory than these."""
    machine = zlib.decompressobj()
    try:
        unpacked = machine.decompress(packed, size + 1)
    except zlib.error:
        return None
    return unpacked if len(unpacked) == size and machine.eof else None


def _colored(numbers: Bytes, palette: bytes) -> Bytes | None:
    colors = np.frombuffer(palette, np.uint8).reshape(-1, 3)
    return colors[numbers] if int(numbers.max()) < len(colors) else None
