"""All transforms of a stream, and the way of the pixels into a minibatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_reader_image.draws import uniform
from cntk_reader_image.geometry import WHOLE
from cntk_reader_image.limits import BrokenImageError
from cntk_reader_image.steps import Crop, Mean, Picture, Pixels, Scale, Step, kernels, resize_into

_OCCURRENCE = 16
"""Purposes of random numbers: the kind of the step, and how many of its kind come before, times this."""

Draws = Sequence[NDArray[np.float64]]
"""The random numbers of some images: for each step an array ``(images, draws)``."""


class Pipeline:
    """The transforms of a stream.

    Args:
        steps: in their order.
        channels: 1 or 3.
        planes: a sample is ``(channels, rows, columns)``; else ``(rows, columns, channels)``.
        dtype: precision of the sample.

    Attributes:
        steps, channels, planes, dtype: as given.
    """

    def __init__(self, steps: Sequence[Step], *, channels: int, planes: bool, dtype: np.dtype[Any]) -> None:
        self.steps = tuple(steps)
        self.channels = channels
        self.planes = planes
        self.dtype = dtype
        self._purposes = _purposes(steps)
        last = steps[-1] if steps else None
        self._last_mean = last if isinstance(last, Mean) else None
        self._before = self.steps[:-1] if self._last_mean is not None else self.steps
        scale = self._before[-1] if self._before else None
        self._last_scale = scale if planes and isinstance(scale, Scale) and scale.is_plain else None
        first = self._before[:-1]
        self._one_crop = len(first) <= 1 and all(isinstance(step, Crop) for step in first)
        self._crop = first[0] if first and isinstance(first[0], Crop) else None

    @property
    def size(self) -> tuple[int, int] | None:
        """Columns and rows of the samples; None if these depend on the images."""
        size: tuple[int, int] | None = None
        for step in self.steps:
            size = step.size(size)
        return size

    def shape(self, columns: int, rows: int) -> tuple[int, ...]:
        """Return the shape of samples of a size, in memory order."""
        return (self.channels, rows, columns) if self.planes else (rows, columns, self.channels)

    def draw(self, keys: NDArray[np.uint64], views: NDArray[np.int64], sweep: int) -> Draws:
        """Return the random numbers of some images: for each step an array ``(images, draws)``.

        Args:
            keys: numbers of the images.
            views: which view of its image each one is.
            sweep: over the data.
        """
        return [
            uniform(keys, views, count=step.draws, sweep=sweep, seed=step.seed, purpose=purpose)
            if step.draws and len(keys)
            else np.empty((len(keys), 0))
            for step, purpose in zip(self.steps, self._purposes, strict=True)
        ]

    def shape_of(self, pixels: NDArray[np.uint8]) -> tuple[int, ...]:
        """Return the shape of the sample of an image whose size the transforms do not change by chance."""
        part = self._apply(self._before, pixels, [[0.0] * step.draws for step in self.steps], 0).part
        return self.shape(part.columns, part.rows)

    def lowest(self, rows: int, columns: int, draws: list[float], view: int) -> int:
        """Return how many of the upper rows of an image are wanted; ``draws`` are those of the first step."""
        crop = self.steps[0] if self.steps else None
        if not isinstance(crop, Crop):
            return rows
        part = crop.rule.place(rows, columns, draws, view)
        return part.top + part.rows

    def makes_together(self, size: int) -> bool:
        """Return whether :meth:`make_together` can make samples of so many values."""
        return self._one_crop and self._ends_at_once(size) and kernels() is not None

    def make_together(
        self,
        pixels: Sequence[NDArray[np.uint8]],
        draws: Draws,
        views: NDArray[np.int64],
        rows: NDArray[np.int64],
        out: Pixels,
    ) -> None:
        """Make the samples of some images at once.

        Args:
            pixels: as decoded.
            draws: random numbers of the images of all samples.
            views: which views of their images all samples are.
            rows: which of the samples these images are for.
            out: all samples, without gaps.
        """
        scale, crop = self._last_scale, self._crop
        assert scale is not None
        shape = (len(out), self.channels, scale.height, scale.width)
        kernels().make_samples(
            np.concatenate([image.reshape(-1) for image in pixels]) if len(pixels) > 1 else pixels[0].reshape(-1),
            np.array([image.shape for image in pixels]),
            self.channels,
            WHOLE if crop is None else crop.rule.numbers,
            crop is not None and crop.hflip,
            draws[0][rows],
            views[rows],
            self._less(scale),
            rows,
            out.reshape(shape),
        )

    def _ends_at_once(self, size: int) -> bool:
        """Return whether resizing, the subtraction and the way into planes are one loop, for samples of a size."""
        scale = self._last_scale
        return scale is not None and size == self.channels * scale.height * scale.width

    def _less(self, scale: Scale) -> Pixels:
        """Return what is subtracted after resizing: planes, or nothing."""
        mean = self._last_mean
        if mean is None or not mean.fits((scale.width, scale.height), self.channels):
            return np.empty((0, 0, 0), self.dtype)
        return mean.planes(self.dtype)

    def _make_at_once(self, pixels: NDArray[np.uint8], draws: Sequence[list[float]], view: int, out: Pixels) -> bool:
        """Resize, subtract and put into planes in one go where these are the last steps; False if they are not."""
        scale = self._last_scale
        if scale is None or not self._ends_at_once(out.size):
            return False
        picture = self._apply(self._before[:-1], pixels, draws, view)
        return resize_into(picture, self._less(scale), out.reshape(self.channels, scale.height, scale.width))

    def _apply(
        self, steps: Sequence[Step], pixels: NDArray[np.uint8], draws: Sequence[list[float]], view: int
    ) -> Picture:
        """Apply some of the first steps."""
        picture = Picture.decoded(pixels, self.channels)
        for step, own in zip(steps, draws, strict=False):
            picture = step.apply(picture, own, view, self.dtype)
        return picture

    def make(self, pixels: NDArray[np.uint8], draws: Sequence[list[float]], view: int, out: Pixels) -> None:
        """Make a sample.

        Args:
            pixels: as decoded.
            draws: random numbers of each step.
            view: which view of the image it is.
            out: the sample, of any shape that has room for it and no more.

        Raises:
            BrokenImageError: the image has another size than the samples.
        """
        if self._make_at_once(pixels, draws, view, out):
            return
        picture = self._apply(self._before, pixels, draws, view)
        part = picture.part
        shape = self.shape(part.columns, part.rows)
        if part.columns * part.rows * picture.channels != out.size:
            raise BrokenImageError(
                f"it has {part.columns} x {part.rows} x {picture.channels} values after the transforms, "
                f"and a sample has {out.size}"
            )
        self._write(picture, out.reshape(shape))

    def _write(self, picture: Picture, out: Pixels) -> None:
        mean = self._last_mean
        if mean is not None and not mean.fits((picture.part.columns, picture.part.rows), picture.channels):
            mean = None
        values = picture.array
        compiled = kernels()
        if compiled is not None and self.planes and values.dtype == np.uint8 and values.flags.c_contiguous:
            if mean is None:
                compiled.to_planes(values, out)
            else:
                compiled.to_planes_without(values, mean.planes(self.dtype), out)
            return
        target = out.transpose(1, 2, 0) if self.planes else out
        if mean is None:
            target[...] = values
        else:
            np.subtract(values, mean.planes(self.dtype).transpose(1, 2, 0), out=target)


def _purposes(steps: Sequence[Step]) -> list[int]:
    """Number the steps within their kinds, so that two crops of an image differ and two streams agree."""
    seen: dict[int, int] = {}
    found = []
    for step in steps:
        seen[step.purpose] = seen.get(step.purpose, -1) + 1
        found.append(step.purpose + _OCCURRENCE * seen[step.purpose])
    return found
