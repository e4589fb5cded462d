"""The three products of a convolution with NumPy, in double precision: ``(frames, channels, *sizes)`` and so on.

Where weights have fewer channels than images, there are groups of channels, and of maps that see one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Window:
    """Padding, strides and dilation of a convolution."""

    def __init__(self, before: Sequence[int], after: Sequence[int], strides: Sequence[int], dilation: Sequence[int]):
        self.before, self.after, self.strides, self.dilation = before, after, strides, dilation

    def counts(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Windows along each axis."""
        axes = zip(sizes, kernel, self.before, self.after, self.strides, self.dilation, strict=True)
        return [(size + low + up - (width - 1) * apart - 1) // step + 1 for size, width, low, up, step, apart in axes]

    def _places(self, kernel: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple]]:
        """Each element of the kernel, and which elements of the padded image it meets."""
        for at in product(*map(range, kernel)):
            axes = zip(at, self.dilation, self.strides, counts, strict=True)
            met = tuple(slice(k * apart, k * apart + (n - 1) * step + 1, step) for k, apart, step, n in axes)
            yield at, (slice(None), slice(None), *met)

    def _padded(self, image: Array) -> Array:
        return np.pad(image, [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)])

    def to_maps(self, image: Array, weights: Array) -> Array:
        """Maps of an image."""
        groups = image.shape[1] // weights.shape[1]
        if groups > 1:
            parts = zip(np.split(image, groups, 1), np.split(weights, groups), strict=True)
            return np.concatenate([self.to_maps(*part) for part in parts], 1)
        counts = self.counts(image.shape[2:], weights.shape[2:])
        padded = self._padded(image)
        out = np.zeros((len(image), len(weights), *counts))
        for at, met in self._places(weights.shape[2:], counts):
            out += np.einsum("nc...,kc->nk...", padded[met], weights[(..., *at)])
        return out

    def to_image(self, maps: Array, weights: Array, channels: int, sizes: Sequence[int]) -> Array:
        """The gradient of an image."""
        groups = channels // weights.shape[1]
        if groups > 1:
            parts = zip(np.split(maps, groups, 1), np.split(weights, groups), strict=True)
            return np.concatenate([self.to_image(*part, weights.shape[1], sizes) for part in parts], 1)
        padded = self._padded(np.zeros((len(maps), weights.shape[1], *sizes)))
        for at, met in self._places(weights.shape[2:], maps.shape[2:]):
            padded[met] += np.einsum("nk...,kc->nc...", maps, weights[(..., *at)])
        inner = tuple(slice(low, low + size) for low, size in zip(self.before, sizes, strict=True))
        return padded[(slice(None), slice(None), *inner)]

    def to_weights(self, image: Array, maps: Array, channels: int, kernel: Sequence[int]) -> Array:
        """The gradient of weights that have so many channels."""
        groups = image.shape[1] // channels
        if groups > 1:
            parts = zip(np.split(image, groups, 1), np.split(maps, groups, 1), strict=True)
            return np.concatenate([self.to_weights(*part, channels, kernel) for part in parts])
        padded = self._padded(image)
        out = np.zeros((maps.shape[1], image.shape[1], *kernel))
        flat = maps.reshape(*maps.shape[:2], -1)
        for at, met in self._places(kernel, maps.shape[2:]):
            part = padded[met].reshape(*image.shape[:2], -1)
            out[(..., *at)] = np.einsum("nkp,ncp->kc", flat, part)
        return out
