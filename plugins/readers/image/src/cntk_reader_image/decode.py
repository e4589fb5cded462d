"""Encoded images to pixels."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk_reader_image.heard import heard
from cntk_reader_image.jpeg import Lowest, Scratch, decode_jpeg
from cntk_reader_image.limits import BrokenImageError, Limits
from cntk_reader_image.png import decode_png
from cntk_reader_image.resample import Bytes
from cntk_reader_image.steps import kernels
from cntk_reader_image.views import view

if TYPE_CHECKING:
    from PIL import Image

_ORIENTATION = 0x0112
"""The EXIF tag that says how a camera was held."""
_PLAIN = ("RGB", "L", "RGBA")


def decode(
    data: bytes,
    *,
    gray: bool,
    limits: Limits | None = None,
    scratch: Scratch | None = None,
    lowest: Lowest | None = None,
    tell: Callable[[str], None] | None = None,
) -> Bytes:
    """Return the pixels of an image file: ``(rows, columns, planes)``, red first.

    There is one plane if the image is gray or ``gray`` asks for it; else there are three, and perhaps a fourth that
    does not count. With ``scratch`` they may lie there, until this thread decodes the next image; then with ``lowest``
    there may be anything in the rows that it does not want. ``tell`` gets what Pillow remarks on the file.

    Raises:
        BrokenImageError: the bytes are no image, end too early, or have more pixels than ``limits`` allow.
    """
    limits = limits or Limits()
    compiled = kernels()
    most, claim = limits.pixels, limits.take
    found = decode_jpeg(data, gray=gray, most_pixels=most, claim=claim, scratch=scratch, lowest=lowest)
    if found is None and compiled is not None:
        found = decode_png(data, compiled, gray=gray, most_pixels=most, claim=claim)
    if found is not None:
        return found
    with heard() as remarks:
        try:
            return _decode_by_pillow(data, gray, limits)
        finally:
            if tell is not None:
                for remark in dict.fromkeys(remarks):
                    tell(remark)


def _decode_by_pillow(data: bytes, gray: bool, limits: Limits) -> Bytes:
    from PIL import Image, UnidentifiedImageError

    if Image.MAX_IMAGE_PIXELS is not None and limits.pixels > Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = limits.pixels  # the recipe asks for it, and Pillow has no other way to be told
    try:
        with Image.open(BytesIO(data)) as image:
            limits.take(image.height, image.width)
            if gray:
                # A JPEG has the gray image in it: its colours need not be decoded.
                image.draft("L", image.size)
            return _pixels(_upright(image), gray)
    except UnidentifiedImageError:
        raise BrokenImageError("the data are no image of a known format" if data else "the file is empty") from None
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise BrokenImageError(str(error) or type(error).__name__) from None


def _upright(image: Image.Image) -> Image.Image:
    if "exif" not in image.info or image.getexif().get(_ORIENTATION, 1) == 1:
        return image
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _pixels(image: Image.Image, gray: bool) -> Bytes:
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        return _gray_of_depth(image)
    if gray and image.mode != "L":
        image = image.convert("L")
    elif image.mode == "P":
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    elif image.mode in ("1", "LA", "La"):
        image = image.convert("L")
    elif image.mode not in _PLAIN:
        image = image.convert("RGB")
    return view(image)


def _gray_of_depth(image: Image.Image) -> Bytes:
    """Return the upper eight bits of a gray image with sixteen; other numbers are cut off at 0 and 255."""
    values: Any = np.asarray(image)[:, :, None]
    values = np.clip(np.rint(values), 0, 255) if image.mode == "F" else np.clip(values, 0, 65535) >> 8
    found: Bytes = values.astype(np.uint8)
    return found
