"""From a wave to frames: the logarithms of energies in bands of the mel scale, or their cepstra, as Kaldi has them.

Samples count as in 16-bit files, whatever the file has, so that the numbers are those of Kaldi's compute-fbank-feats
and compute-mfcc-feats without dither. The mel scale is 1127 ln(1 + f / 700), the bands are triangles on it that overlap
by half; cepstra are their cosine transform (S. Davis, P. Mermelstein, IEEE Trans. ASSP 28, 1980).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

Wave = NDArray[Any]

FULL_SCALE = 32768.0
"""What the largest sample of a file counts as."""
_LEAST = float(np.finfo(np.float32).eps)
"""Energies below this are this."""
_BLACKMAN = 0.42
_POVEY = 0.85
_BLOCK = 4096
"""Frames that are computed together: their windows take memory."""


@attrs.frozen
class Spectrum:
    """How frames are made of a wave.

    Attributes:
        kind: ``fbank`` are the bands, ``mfcc`` their cepstra.
        dim: values of a frame.
        rate: samples in a second.
        length, shift: of a frame, in milliseconds.
        bands: of the mel scale; for ``fbank`` they follow from ``dim``.
        low, high: the lowest and the highest frequency, in Hz; what is not above 0 counts from half of the rate.
        window: its form.
        preemphasis: how much of the sample before is taken from each.
        energy: the first value is the logarithm of the energy of the frame; cepstra lose their first one for it.
        snip_edges: frames lie within the wave; else it is mirrored at its ends.
        lifter: of the cepstra; 0 is none.
    """

    kind: Literal["fbank", "mfcc"] = "fbank"
    dim: int = 40
    rate: int = 16000
    length: float = 25.0
    shift: float = 10.0
    bands: int = 23
    low: float = 20.0
    high: float = 0.0
    window: Literal["povey", "hamming", "hanning", "blackman", "rectangular"] = "povey"
    preemphasis: float = 0.97
    energy: bool = False
    snip_edges: bool = True
    lifter: float = 22.0

    @property
    def frame_samples(self) -> int:
        """Samples of a frame."""
        return int(self.rate * 0.001 * self.length)

    @property
    def shift_samples(self) -> int:
        """Samples from the beginning of a frame to that of the next."""
        return int(self.rate * 0.001 * self.shift)

    @property
    def highest(self) -> float:
        """The highest frequency, in Hz."""
        return self.high if self.high > 0 else self.rate / 2 + self.high

    @property
    def band_count(self) -> int:
        """Bands of the mel scale."""
        return self.bands if self.kind == "mfcc" else self.dim - self.energy

    def problem(self) -> str:
        """Say what is wrong between these numbers; empty if nothing is."""
        if self.shift_samples < 1 or self.frame_samples < 2:
            return "a frame needs two samples, and a shift one"
        if not 0 <= self.low < self.highest <= self.rate / 2:
            return (
                f"the bands must lie between 0 and {self.rate / 2:g} Hz, not from {self.low:g} to {self.highest:g} Hz"
            )
        if self.band_count < 1 or (self.kind == "mfcc" and self.dim > self.bands):
            return f"{self.band_count} bands do not give {self.dim} values"
        if not self._bank.any(axis=0).all():
            return f"{self.band_count} bands are too many for frames of {self.frame_samples} samples: some are empty"
        return ""

    def frames(self, samples: int) -> int:
        """Return how many frames a wave of so many samples has."""
        if not self.snip_edges:
            return (samples + self.shift_samples // 2) // self.shift_samples
        return max(1 + (samples - self.frame_samples) // self.shift_samples, 0)

    def compute(self, wave: Wave) -> Wave:
        """Return the frames of a wave.

        Args:
            wave: samples from -1 to 1. Shape ``(samples,)``; its precision is that of the result.

        Returns:
            Shape ``(frames, dim)``.
        """
        count = self.frames(len(wave))
        if not count:
            return np.zeros((0, self.dim), dtype=wave.dtype)
        windows = np.lib.stride_tricks.sliding_window_view(self._at_edges(wave), self.frame_samples)
        windows = windows[:: self.shift_samples][:count]
        found = [self._of_windows(windows[first : first + _BLOCK]) for first in range(0, count, _BLOCK)]
        return np.concatenate(found)

    def _at_edges(self, wave: Wave) -> Wave:
        """Return the wave with what frames need beyond its ends."""
        if self.snip_edges:
            return wave
        before = (self.frame_samples - self.shift_samples) // 2
        return np.pad(wave, (max(before, 0), self.frame_samples), mode="symmetric")[max(-before, 0) :]

    def _of_windows(self, windows: Wave) -> Wave:
        from scipy.fft import dct, rfft

        frames = windows * np.asarray(FULL_SCALE, dtype=windows.dtype)
        frames -= frames.mean(axis=1, keepdims=True)
        energy = np.log(np.maximum(np.einsum("ij,ij->i", frames, frames), _LEAST))
        frames[:, 1:] -= self.preemphasis * frames[:, :-1]
        frames[:, 0] *= 1 - self.preemphasis
        frames *= self._window.astype(frames.dtype)
        spectrum = rfft(frames, self._points, axis=1)[:, : self._points // 2]
        power = spectrum.real**2 + spectrum.imag**2
        bands = np.log(np.maximum(power @ self._bank.astype(frames.dtype), _LEAST))
        if self.kind == "fbank":
            return np.column_stack([energy, bands]) if self.energy else bands
        cepstra = dct(bands, type=2, norm="ortho", axis=1)[:, : self.dim]
        if self.lifter:
            cepstra *= (1 + 0.5 * self.lifter * np.sin(np.pi * np.arange(self.dim) / self.lifter)).astype(frames.dtype)
        if self.energy:
            cepstra[:, 0] = energy
        return np.asarray(cepstra)

    @property
    def _points(self) -> int:
        """Points of the Fourier transform: the next power of two."""
        return 1 << (self.frame_samples - 1).bit_length()

    @cached_property
    def _window(self) -> NDArray[np.float64]:
        angles = 2 * np.pi * np.arange(self.frame_samples) / (self.frame_samples - 1)
        hanning = 0.5 - 0.5 * np.cos(angles)
        forms = {
            "povey": hanning**_POVEY,
            "hanning": hanning,
            "hamming": 0.54 - 0.46 * np.cos(angles),
            "blackman": _BLACKMAN - 0.5 * np.cos(angles) + (0.5 - _BLACKMAN) * np.cos(2 * angles),
            "rectangular": np.ones(self.frame_samples),
        }
        return forms[self.window]

    @cached_property
    def _bank(self) -> NDArray[np.float64]:
        """How much each point of the spectrum counts in each band. Shape ``(points / 2, bands)``."""
        points = _mel(np.arange(self._points // 2) * self.rate / self._points)[:, None]
        edges = np.linspace(_mel(np.float64(self.low)), _mel(np.float64(self.highest)), self.band_count + 2)
        left, center, right = edges[:-2], edges[1:-1], edges[2:]
        rising, falling = (points - left) / (center - left), (right - points) / (right - center)
        found: NDArray[np.float64] = np.maximum(np.minimum(rising, falling), 0)
        return found


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


def with_deltas(frames: Wave, order: int, width: int = 2) -> Wave:
    """Return frames with their changes in time behind them, and the changes of these, up to an order.

    A change is the slope of the line through ``width`` frames on each side; at the ends frames repeat.

    Args:
        frames: ``(frames, dim)``.
        order: 0 changes nothing.
        width: frames on each side.

    Returns:
        Shape ``(frames, (1 + order) * dim)``.
    """
    if not order:
        return frames
    scales, found = [np.ones(1)], [frames]
    slope = np.arange(width, -width - 1, -1) / sum(2 * n * n for n in range(1, width + 1))
    for _ in range(order):
        scales.append(np.convolve(scales[-1], slope))
    for scale in scales[1:]:
        reach = len(scale) // 2
        padded = np.pad(frames, ((reach, reach), (0, 0)), mode="edge")
        weights = scale[::-1].astype(frames.dtype)
        found.append(sum(weight * padded[i : i + len(frames)] for i, weight in enumerate(weights)))
    return np.concatenate(found, axis=1)


def normalized(frames: Wave, how: Literal["none", "mean", "meanVariance"]) -> Wave:
    """Return the frames of one utterance with mean 0 in each column, and with variance 1, if that is asked for."""
    if how == "none":
        return frames
    centered: Wave = frames - frames.mean(axis=0)
    if how == "mean":
        return centered
    spread = centered.std(axis=0)
    found: Wave = centered / np.where(spread > 0, spread, 1).astype(frames.dtype)
    return found
