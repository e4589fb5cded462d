"""A small corpus of sounds, made of sines and noise that is the same everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

RATE = 8000
LENGTHS = {"utt-a": 1000, "utt-b": 520, "utt-c": 1480, "utt-d": 200, "utt-e": 904}
CLASSES = {name: number % 3 for number, name in enumerate(LENGTHS)}
FRAMES = {name: 1 + (length - 200) // 80 for name, length in LENGTHS.items()}


def noise(samples: int, seed: int) -> np.ndarray:
    """Return numbers from -1 to 1."""
    found = np.empty(samples)
    for i in range(samples):
        seed = (1103515245 * seed + 12345) % 2**31
        found[i] = seed / 2**30 - 1
    return found


def wave(samples: int = 4000, seed: int = 7) -> np.ndarray:
    """Return two sines with noise, which are not centred."""
    time = np.arange(samples) / 16000
    sines = 0.3 * np.sin(2 * np.pi * 440 * time) + 0.2 * np.sin(2 * np.pi * 1733 * time + 1)
    return sines + 0.1 * noise(samples, seed) + 0.01


def write_corpus(folder: Path) -> None:
    """Write ``wav.scp`` and its files, ``words.txt`` with a class for each, and ``classes.txt``."""
    for number, (name, length) in enumerate(LENGTHS.items()):
        soundfile.write(folder / f"{name}.{'flac' if number % 2 else 'wav'}", wave(length, number), RATE)
    paths = {name: f"{name}.{'flac' if number % 2 else 'wav'}" for number, name in enumerate(LENGTHS)}
    (folder / "wav.scp").write_text("".join(f"{name} {path}\n" for name, path in paths.items()))
    names = ("low", "high", "none")
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in names))
    (folder / "words.txt").write_text("".join(f"{name} {names[one]}\n" for name, one in CLASSES.items()))


F = "features=[ scpFile=wav.scp ; dim=5 ; sampleRate=8000 ]\n"
L = "labels=[ labelFile=words.txt ; labelDim=3 ; labelMappingFile=classes.txt ]\n"
