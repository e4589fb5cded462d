"""The loops over pixels, compiled (:mod:`cntk_reader_image.loops`); they run without the GIL.

Several small images are made in one call (:func:`make_samples`): the way from Python to a compiled loop and back takes
longer than the resizing of one. Needs a compiler: ``can_compile`` of :mod:`cntk_core.api.engines`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.engines import byte_loop
from cntk_reader_image import geometry, loops, resample
from cntk_reader_image.geometry import CropNumbers

Pixels = NDArray[np.uint8]
Tap = NDArray[np.int32]


def _call(name: str, signature: str, *arguments: Any) -> Any:
    return byte_loop(loops.__file__, name, signature, geometry.__file__, resample.__file__)(*arguments)


def _room(taps: int, channels: int, width: int) -> tuple[NDArray[Any], ...]:
    """Return where loops find the bytes of a row, the sums of some rows, and note which rows these are."""
    return np.empty((width, taps), np.int64), np.empty((taps, channels, width), np.int32), np.empty(taps, np.int64)


def resize_part(
    pixels: Pixels,
    top: int,
    left: int,
    columns: int,
    flipped: bool,
    swapped: bool,
    places: Tap,
    weights: Tap,
    down: Tap,
    heights: Tap,
    linear: bool,
    out: Pixels,
) -> None:
    """Resize a part of an image.

    Args:
        pixels: ``(rows, columns, planes)``, without gaps.
        top, left: where the part begins.
        columns: how wide it is.
        flipped: right and left change places, before the resizing.
        swapped: the first plane of ``pixels`` is red, the first of ``out`` blue.
        places, weights: taps across.
        down, heights: taps downward.
        linear: two taps that are rounded as the image library does it.
        out: ``(rows, columns, channels)``.
    """
    _, width, channels = out.shape
    size, planes = pixels.shape[1] * pixels.shape[2], pixels.shape[2]
    _call(
        "resize_part", loops.RESIZE_PART, pixels.reshape(-1), top * size, size, planes, left, columns, flipped, swapped,
        places, weights, down, heights, linear, *_room(down.shape[1], channels, width), np.empty(width, np.int64), out,
    )  # fmt: skip


def resize_to_planes(
    pixels: Pixels,
    top: int,
    left: int,
    columns: int,
    flipped: bool,
    swapped: bool,
    places: Tap,
    weights: Tap,
    down: Tap,
    heights: Tap,
    mean: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """As ``resize_part`` with two taps, into ``(channels, rows, columns)``; less ``mean`` unless that is empty."""
    channels, _, width = out.shape
    size, planes = pixels.shape[1] * pixels.shape[2], pixels.shape[2]
    _call(
        "resize_to_planes", loops.RESIZE_TO_PLANES.format(numbers=out.dtype), pixels.reshape(-1), top * size, size,
        planes, left, columns, flipped, swapped, places, weights, down, heights, mean, *_room(2, channels, width), out,
    )  # fmt: skip


def to_planes(pixels: Pixels, out: NDArray[Any]) -> None:
    """Put ``(rows, columns, channels)`` into ``(channels, rows, columns)``."""
    _call("to_planes", loops.TO_PLANES.format(numbers=out.dtype), pixels, out)


def to_planes_without(pixels: Pixels, mean: NDArray[Any], out: NDArray[Any]) -> None:
    """Subtract a mean ``(channels, rows, columns)``, and put the difference into planes of the same shape."""
    _call("to_planes_without", loops.TO_PLANES_WITHOUT.format(numbers=out.dtype), pixels, mean, out)


def linear_taps(source: int, places: Tap, weights: Tap) -> None:
    """Put the two taps of each target pixel into arrays ``(target, 2)``, as :func:`cntk_reader_image.resample.taps`."""
    _call("linear_taps", loops.LINEAR_TAPS, source, places, weights)


def make_samples(
    data: Pixels,
    shapes: NDArray[np.int64],
    channels: int,
    crop: CropNumbers,
    hflip: bool,
    draws: NDArray[np.float64],
    views: NDArray[np.int64],
    mean: NDArray[Any],
    rows: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    """Crop, mirror and resize decoded images into planes.

    Args:
        data: the pixels of all, one image after the other.
        shapes: rows, columns and planes of each image; its first plane is red.
        channels: 1 or 3.
        crop, hflip: which part is taken, and whether it is mirrored by chance.
        draws: the random numbers of each image.
        views: which view of its image each sample is.
        mean: planes to subtract, or nothing.
        rows: the place of each sample.
        out: all samples, ``(samples, channels, rows, columns)``.
    """
    height, width = out.shape[2:]
    taps = (np.empty((size, 2), np.int32) for size in (width, width, height, height))
    _call(
        "make_samples", loops.MAKE_SAMPLES.format(numbers=out.dtype), data, shapes, np.array(crop, np.float64), hflip,
        draws, views, mean, rows, *taps, *_room(2, channels, width), out,
    )  # fmt: skip


def unfilter(data: Pixels, step: int, out: Pixels) -> bool:
    """Undo the filters of the rows of a PNG image. Returns False for a filter that there is not.

    Source: Portable Network Graphics Specification (W3C, 2003), chapter 9.

    Args:
        data: ``(rows, 1 + bytes of a row)``; the first byte of each row is its filter.
        step: bytes of a pixel.
        out: ``(rows, bytes of a row)``.
    """
    return bool(_call("unfilter", loops.UNFILTER, data, step, np.zeros(out.shape[1], np.uint8), out))
