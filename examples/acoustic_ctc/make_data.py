"""Write utterances of an invented language: HTK feature files, their lists, label files, the list of phones.

python make_data.py [FOLDER]

A phone is a spectrum: voice (harmonics of a pitch) or noise, shaped by resonances. Speakers differ in the length of
their vocal tract, which moves all resonances, and in pitch; resonances glide from phone to phone. A frame of 10 ms is
the log energy of that spectrum in 20 mel bands.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PERIOD = 100_000
"""Time between frames in HTK's units of 100 ns: 10 ms."""
FBANK = 7
"""HTK's number for log energies of a filter bank."""
BANDS = 20
BINS = np.linspace(0.0, 4000.0, 257)[1:]
"""Frequencies in Hz at which a spectrum is known."""


class Phone(NamedTuple):
    """Resonances in Hz, how much of the source is voice, loudness in dB, usual length in frames."""

    resonances: tuple[float, float, float]
    voice: float
    loudness: float
    frames: int


SILENCE = "sil"
VOWELS = {
    "a": Phone((750, 1200, 2500), 1.0, 0, 9),
    "e": Phone((480, 1900, 2600), 1.0, -2, 8),
    "i": Phone((300, 2300, 3000), 1.0, -4, 7),
    "o": Phone((480, 850, 2450), 1.0, -2, 8),
    "u": Phone((320, 700, 2300), 1.0, -4, 7),
}
CONSONANTS = {
    "m": Phone((260, 1100, 2200), 1.0, -10, 6),
    "n": Phone((260, 1500, 2500), 1.0, -10, 6),
    "l": Phone((350, 1050, 2800), 1.0, -8, 5),
    "s": Phone((2900, 3300, 3700), 0.0, -8, 8),
    "f": Phone((1300, 2300, 3500), 0.0, -16, 7),
    "z": Phone((280, 2900, 3500), 0.4, -8, 6),
    "k": Phone((1500, 1900, 2600), 0.0, -12, 4),
    "t": Phone((2400, 3000, 3600), 0.0, -14, 3),
}
PHONES = {SILENCE: Phone((500, 1500, 2500), 0.0, -34, 12)} | VOWELS | CONSONANTS
BLANK = "blank"


def mel_filters() -> Array:
    """Return the weights ``(bins, bands)`` of triangles that are evenly spread on the mel scale."""
    top = 2595 * np.log10(1 + BINS[-1] / 700)
    corners = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    low, middle, high = corners[:-2], corners[1:-1], corners[2:]
    up = (BINS[:, None] - low) / (middle - low)
    down = (high - BINS[:, None]) / (high - middle)
    triangles: Array = np.maximum(0, np.minimum(up, down))
    return triangles


FILTERS = mel_filters()


def sentence(source: np.random.Generator) -> list[str]:
    """Return the phones of two or three words of two or three syllables, with silence around them."""
    phones = [SILENCE]
    for _ in range(source.integers(2, 4)):
        for _ in range(source.integers(2, 4)):
            phones += [str(source.choice(list(CONSONANTS))), str(source.choice(list(VOWELS)))]
    return [*phones, SILENCE]


def tracks(phones: list[str], lengths: list[int], tract: float) -> Array:
    """Return ``(frames, 5)``: three resonances, voice and loudness, gliding over about 50 ms between phones."""
    targets = np.array([[*PHONES[name].resonances, PHONES[name].voice, PHONES[name].loudness] for name in phones])
    targets[:, :3] *= tract
    steps = np.repeat(targets, lengths, axis=0)
    window = np.hanning(7)[1:-1]
    padded = np.pad(steps, ((2, 2), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, window / window.sum(), mode="valid") for column in padded.T], axis=1)


def energies(track: Array, pitch: float, source: np.random.Generator) -> Array:
    """Return log energies ``(frames, bands)`` of a track."""
    resonances, voice, loudness = track[:, :3, None], track[:, 3:4], track[:, 4:5]
    widths = 80 + 0.06 * resonances
    shape = (1 / (1 + ((BINS - resonances) / widths) ** 2)).sum(axis=1)
    harmonics = 0.05 + np.cos(np.pi * BINS / pitch) ** 8
    noise = source.exponential(size=shape.shape)
    spectrum = shape * (voice * harmonics + (1 - voice) * 0.5 * noise) * 10 ** (loudness / 10)
    background = 10**-2.6 * source.exponential(size=shape.shape)
    logs: Array = np.log((spectrum + background) @ FILTERS)
    return logs


def utterance(source: np.random.Generator) -> tuple[Array, list[str], list[int]]:
    """Return the features of a sentence by a speaker of its own, its phones and how many frames each has."""
    phones = sentence(source)
    rate = source.uniform(0.8, 1.25)
    lengths = [max(2, round(PHONES[name].frames * rate * source.uniform(0.7, 1.4))) for name in phones]
    track = tracks(phones, lengths, tract=source.uniform(0.88, 1.12))
    return energies(track, pitch=source.uniform(90, 230), source=source), phones, lengths


def write_htk(path: Path, features: Array) -> None:
    """Write an HTK feature file: a header of 12 bytes and 32-bit floats, all big-endian."""
    frames, dimension = features.shape
    path.write_bytes(struct.pack(">iihh", frames, PERIOD, 4 * dimension, FBANK) + features.astype(">f4").tobytes())


def label_lines(name: str, phones: list[str], lengths: list[int]) -> list[str]:
    """Return the block of an utterance in a master label file, with times in units of 100 ns."""
    ends = np.cumsum(lengths) * PERIOD
    ranges = zip(ends - np.array(lengths) * PERIOD, ends, phones, strict=True)
    return [f'"*/{name}.lab"', *(f"{begin} {end} {phone}" for begin, end, phone in ranges), "."]


def write_set(folder: Path, name: str, utterances: int, seed: int) -> None:
    """Write ``NAME.scp``, ``NAME.mlf`` and a folder with a feature file for each utterance."""
    source = np.random.default_rng(seed)
    (folder / name).mkdir(parents=True, exist_ok=True)
    listed, labels = [], ["#!MLF!#"]
    for number in range(utterances):
        key = f"{name}{number:04d}"
        features, phones, lengths = utterance(source)
        write_htk(folder / name / f"{key}.fbank", features)
        listed.append(f"{key}.fbank=.../{name}/{key}.fbank")
        labels += label_lines(key, phones, lengths)
    (folder / f"{name}.scp").write_text("\n".join(listed) + "\n", encoding="utf-8")
    (folder / f"{name}.mlf").write_text("\n".join(labels) + "\n", encoding="utf-8")


def main(folder: Path, train: int = 240, test: int = 60) -> None:
    """Write utterances to train with, others to test with, and ``phones.list``, in which the blank is the last."""
    write_set(folder, "train", train, seed=1)
    write_set(folder, "test", test, seed=2)
    (folder / "phones.list").write_text("\n".join([*PHONES, BLANK]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
