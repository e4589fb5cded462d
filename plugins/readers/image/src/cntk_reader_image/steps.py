"""The transforms of CNTK, one after the other, from decoded pixels to the numbers of a sample.

A picture is bytes as long as it can be: crops and mirroring only say which part of it is meant, resizing takes that
part alone. Colours lie in the order of CNTK's image library, blue first, once a transform has touched the pixels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_reader_image.geometry import CropRule, Rectangle, scaled_size
from cntk_reader_image.resample import resize_bytes, resize_floats, taps

Pixels = NDArray[Any]
"""``(rows, columns, planes)``, bytes or floating-point numbers."""
_WHITE = 255


@cache
def kernels() -> Any:
    """Return the compiled loops, or None where there is no compiler."""
    from cntk_core.api.engines import can_compile

    if not can_compile():
        return None
    from cntk_reader_image import kernels as compiled

    return compiled


@attrs.frozen(eq=False)
class Picture:
    """A part of some pixels.

    Attributes:
        pixels: all of them.
        part: which of them are meant.
        channels: 1 or 3; gray pixels may stand for three channels.
        flipped: right and left of the part change places.
        red_first: the pixels are as they were decoded.
    """

    pixels: Pixels
    part: Rectangle
    channels: int
    flipped: bool = False
    red_first: bool = False

    @classmethod
    def decoded(cls, pixels: NDArray[np.uint8], channels: int) -> Picture:
        """Return all of what was decoded."""
        return cls(pixels, Rectangle(0, 0, *pixels.shape[:2]), channels, red_first=True)

    @classmethod
    def of(cls, pixels: Pixels) -> Picture:
        """Return all of some pixels, blue first."""
        return cls(pixels, Rectangle(0, 0, *pixels.shape[:2]), pixels.shape[2])

    @property
    def array(self) -> Pixels:
        """The part alone: ``(rows, columns, channels)``, blue first. It may be a view."""
        part = self.part
        found = self.pixels[part.top : part.top + part.rows, part.left : part.left + part.columns]
        if self.flipped:
            found = found[:, ::-1]
        if self.red_first:
            if found.shape[2] == 1:
                return np.broadcast_to(found, (*found.shape[:2], self.channels))
            found = found[:, :, 2::-1]
        return found

    def floats(self, dtype: np.dtype[Any]) -> Pixels:
        """The part as floating-point numbers that may be changed."""
        return self.array.astype(dtype)


class Step(ABC):
    """One transform.

    Attributes:
        draws: how many random numbers it needs for an image.
        purpose: what these are for; steps of a kind have the same, so that an image looks alike in all streams.
        seed: of these.
    """

    draws: int = 0
    purpose: int = 0
    seed: int = 0

    @abstractmethod
    def apply(self, picture: Picture, draws: list[float], view: int, dtype: np.dtype[Any]) -> Picture:
        """Return the changed picture.

        Args:
            picture: as the step before left it.
            draws: random numbers of [0, 1), ``draws`` of them.
            view: which of several views of the image it is.
            dtype: precision of floating-point numbers.
        """

    def size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return columns and rows that an image of a size has afterwards; None if they are not always the same."""
        return size


class Crop(Step):
    """Takes a part, and lets right and left change places."""

    purpose = 1

    def __init__(self, rule: CropRule, hflip: bool | None, seed: int = 0) -> None:
        self.rule = rule
        self.hflip = rule.random_place if hflip is None else hflip
        self.draws = rule.draws
        self.seed = seed

    def apply(self, picture: Picture, draws: list[float], view: int, dtype: np.dtype[Any]) -> Picture:
        """Say which part of the pixels is meant."""
        whole = picture.part
        found = self.rule.place(whole.rows, whole.columns, draws, view)
        left = whole.columns - found.columns - found.left if picture.flipped else found.left
        part = Rectangle(whole.top + found.top, whole.left + left, found.rows, found.columns)
        flipped = picture.flipped ^ self.rule.mirrored(draws, view, self.hflip)
        return attrs.evolve(picture, part=part, flipped=flipped)

    def size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the size of the part."""
        return self.rule.fixed_size(size)


class Scale(Step):
    """Resizes to a size: all of the image, or so that it is cut or padded."""

    def __init__(self, width: int, height: int, *, method: str = "linear", mode: str = "fill", pad: int = -1) -> None:
        self.width, self.height = width, height
        self.method, self.mode, self.pad = method, mode, pad

    @property
    def is_plain(self) -> bool:
        """Whether it is what the compiled loops do on the way into planes."""
        return (self.method, self.mode) == ("linear", "fill")

    def apply(self, picture: Picture, draws: list[float], view: int, dtype: np.dtype[Any]) -> Picture:
        """Make new pixels."""
        part = picture.part
        rows, columns = scaled_size(part.rows, part.columns, self.height, self.width, self.mode)
        found = _resize(picture, rows, columns, self.method)
        if self.mode == "crop":
            top, left = (rows - self.height) // 2, (columns - self.width) // 2
            found = found[top : top + self.height, left : left + self.width]
        elif self.mode == "pad":
            found = self._padded(found)
        return Picture.of(found)

    def _padded(self, pixels: Pixels) -> Pixels:
        rows, columns = pixels.shape[:2]
        top, left = (self.height - rows) // 2, (self.width - columns) // 2
        widths = ((top, self.height - rows - top), (left, self.width - columns - left), (0, 0))
        if self.pad < 0:
            return np.pad(pixels, widths, mode="edge")
        value = min(self.pad, _WHITE) if pixels.dtype == np.uint8 else self.pad
        return np.pad(pixels, widths, constant_values=value)

    def size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the size that is asked for."""
        return self.width, self.height


def _resize(picture: Picture, rows: int, columns: int, method: str) -> Pixels:
    if picture.pixels.dtype != np.uint8:
        return resize_floats(picture.array, columns, rows, method)
    compiled = kernels()
    if compiled is None:
        return resize_bytes(picture.array, columns, rows, method)
    out = np.empty((rows, columns, picture.channels), np.uint8)
    compiled.resize_part(*_part_arguments(picture, rows, columns, method), method == "linear", out)
    return out


def resize_into(picture: Picture, less: Pixels, out: Pixels) -> bool:
    """Resize bytes into planes ``(channels, rows, columns)``, linearly, less other planes, if compiled loops can.

    Returns whether they can.
    """
    compiled = kernels()
    if compiled is None or picture.pixels.dtype != np.uint8:
        return False
    _, rows, columns = out.shape
    compiled.resize_to_planes(*_part_arguments(picture, rows, columns, "linear"), less, out)
    return True


def _part_arguments(picture: Picture, rows: int, columns: int, method: str) -> tuple[Any, ...]:
    """Return what the compiled loops want to know of a part that is resized."""
    part = picture.part
    across, down = taps(part.columns, columns, method), taps(part.rows, rows, method)
    return (
        np.ascontiguousarray(picture.pixels),
        part.top,
        part.left,
        part.columns,
        picture.flipped,
        picture.red_first,
        across.places,
        across.weights,
        down.places,
        down.weights,
    )


class Mean(Step):
    """Subtracts a mean image."""

    def __init__(self, mean: NDArray[np.float64]) -> None:
        self.mean = mean
        self._planes: dict[str, Pixels] = {}

    def fits(self, size: tuple[int, int], channels: int) -> bool:
        """Return whether the mean image has the size of the images."""
        return self.mean.shape == (size[1], size[0], channels)

    def planes(self, dtype: np.dtype[Any]) -> Pixels:
        """Return the mean image as ``(channels, rows, columns)``."""
        if dtype.str not in self._planes:
            self._planes[dtype.str] = np.ascontiguousarray(self.mean.transpose(2, 0, 1), dtype=dtype)
        return self._planes[dtype.str]

    def apply(self, picture: Picture, draws: list[float], view: int, dtype: np.dtype[Any]) -> Picture:
        """Subtract; an image of another size stays as it is, as in CNTK."""
        part = picture.part
        if not self.fits((part.columns, part.rows), picture.channels):
            return picture
        return Picture.of(picture.floats(dtype) - self.mean.astype(dtype))


class Color(Step):
    """Changes brightness, contrast and saturation by chance.

    Source: A. Howard, "Some improvements on deep convolutional neural network based image classification", 2013.
    """

    purpose = 2
    draws = 3

    def __init__(self, brightness: float, contrast: float, saturation: float, seed: int = 0) -> None:
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation
        self.seed = seed

    def apply(self, picture: Picture, draws: list[float], view: int, dtype: np.dtype[Any]) -> Picture:
        """Change the colours, and cut them off at 0 and 255."""
        if not (self.brightness or self.contrast or self.saturation):
            return picture
        values = picture.floats(dtype)
        brightness, contrast, saturation = (
            radius * (2 * draw - 1)
            for radius, draw in zip((self.brightness, self.contrast, self.saturation), draws, strict=True)
        )
        if self.brightness or self.contrast:
            shift = dtype.type(brightness * values.mean(dtype=np.float64))
            np.clip(values * dtype.type(1 + contrast) + shift, 0, _WHITE, out=values)
        if self.saturation and picture.channels == 3:
            values = _saturated(values, dtype.type(1 + saturation))
        return Picture.of(values)


def _saturated(values: Pixels, ratio: Any) -> Pixels:
    """Multiply the saturation of colours, at most to 1; hue and value (the largest part) stay.

    Of a colour with the value V, each part c is V - (V - c) s for the saturation s: no other colour space is needed.
    """
    value = values.max(axis=2, keepdims=True)
    spread = value - values.min(axis=2, keepdims=True)
    most = np.divide(value, spread, out=np.ones_like(value), where=spread > 0)
    found: Pixels = value - (value - values) * np.minimum(ratio, most)
    return found


class Intensity(Step):
    """Shifts the colours of an image along the axes on which those of a data set vary.

    Source: A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet classification with deep convolutional neural networks",
    NIPS 2012, section 4.1.
    """

    purpose = 3
    draws = 6

    def __init__(
        self, deviation: float, values: NDArray[np.float64], vectors: NDArray[np.float64], seed: int = 0
    ) -> None:
        self.deviation, self.values, self.vectors = deviation, values, vectors
        self.seed = seed

    def apply(self, picture: Picture, draws: list[float], view: int, dtype: np.dtype[Any]) -> Picture:
        """Shift the colours, and cut them off at 0 and 255."""
        if not self.deviation:
            return picture
        # Box and Muller: two uniform numbers make a normal one. 1 - u is never 0.
        radius = np.sqrt(-2 * np.log1p(-np.array(draws[0::2])))
        normal = self.deviation * radius * np.cos(2 * np.pi * np.array(draws[1::2]))
        red_first = self.vectors @ (normal * self.values)
        shift = red_first[picture.channels - 1 :: -1].astype(dtype)
        return Picture.of(np.clip(picture.floats(dtype) + shift, 0, _WHITE))
