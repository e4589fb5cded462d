"""Noise that is added to waves: white, or pieces of other sound files. It depends on seed and key alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_reader_audio.waves import Entry, find_piece, ratio_of, read_samples, resample


@attrs.frozen(eq=False)
class Noise:
    """How noise is added.

    Attributes:
        snr: the least and the largest ratio of the energies of wave and noise, in dB.
        chance: of an utterance to get noise.
        seed: another one gives other noise.
        rate: samples in a second.
        entries: sound files with noise; white noise without them.
    """

    snr: tuple[float, float]
    chance: float
    seed: int
    rate: int
    entries: Sequence[Entry] = ()

    def add(self, wave: NDArray[Any], key: str) -> NDArray[Any]:
        """Return a wave with noise. The same key always gets the same.

        Args:
            wave: Shape ``(samples,)``.
            key: of the utterance.

        Raises:
            DataError: a file with noise cannot be read.
        """
        digest = hashlib.blake2b(f"{self.seed} {key}".encode(), digest_size=16).digest()
        random = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
        if random.random() >= self.chance:
            return wave
        decibels = random.uniform(*self.snr)
        noise = self._piece(random, len(wave), wave.dtype) if self.entries else random.standard_normal(len(wave))
        energy, own = float(np.sum(noise**2)), float(np.sum(wave**2))
        if not energy or not own:
            return wave
        loudness = np.sqrt(own / energy) * 10 ** (-decibels / 20)
        found: NDArray[Any] = (wave + loudness * noise).astype(wave.dtype)
        return found

    def _piece(self, random: np.random.Generator, samples: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a piece of a file, from a random place on; a short file goes around."""
        entry = self.entries[int(random.integers(len(self.entries)))]
        piece = find_piece(entry, 0)
        if not piece.count:
            return np.zeros(samples)
        ratio = ratio_of(1, piece.rate, self.rate)
        start = int(random.integers(piece.count))
        needed = min(-(-samples * ratio.denominator // ratio.numerator) + 1, piece.count)
        first = min(start, piece.count - needed)
        read = read_samples(entry, attrs.evolve(piece, first=piece.first + first, count=needed), 0, dtype)
        found = resample(read, ratio)
        return np.resize(found, samples)
