"""Data of the shapes that recipes train on: made up, learnable, the same in each run."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

PIXELS, DIGITS, SAMPLES = 784, 10, 20_000
WORDS, TAGS, SENTENCES = 943, 129, 4_978
DIM, STATES, UTTERANCES, FRAMES = 33, 132, 60, 500


def digits(folder: Path) -> None:
    """``train.ctf``: 20,000 samples of 784 pixels from 0 to 255, about a fifth of them not zero, 35 MB."""
    random = np.random.default_rng(1)
    patterns = (random.random((DIGITS, PIXELS)) < 0.2) * random.integers(40, 256, (DIGITS, PIXELS))
    labels = random.integers(0, DIGITS, SAMPLES)
    pixels = np.where(random.random((SAMPLES, PIXELS)) < 0.9, patterns[labels], 0)
    pixels = np.where(random.random(pixels.shape) < 0.02, random.integers(0, 256, pixels.shape), pixels)
    with (folder / "train.ctf").open("w") as file:
        for label, row in zip(np.eye(DIGITS, dtype=int)[labels].tolist(), pixels.tolist(), strict=True):
            file.write(f"|labels {' '.join(map(str, label))} |features {' '.join(map(str, row))}\n")


def sentences(folder: Path) -> None:
    """``train.ctf``: 4,978 sentences of 5 to 20 words; the tag of a word is told by the word and the one before it."""
    random = np.random.default_rng(2)
    tag_of = random.integers(0, TAGS, (WORDS, 8))
    with (folder / "train.ctf").open("w") as file:
        for number in range(SENTENCES):
            words = (WORDS * random.random(random.integers(5, 21)) ** 2).astype(int).tolist()
            before = [0, *words[:-1]]
            for word, last in zip(words, before, strict=True):
                file.write(f"{number} |w {word}:1 |t {tag_of[word, last % 8]}:1\n")


def speech(folder: Path) -> None:
    """Features, labels and states in HTK's formats: 60 utterances of 500 frames of 33 features, states of 5 frames."""
    random = np.random.default_rng(3)
    means = random.normal(size=(STATES, DIM))
    names = [f"s{state}" for state in range(STATES)]
    (folder / "states.list").write_text("".join(f"{name}\n" for name in names))
    with (folder / "train.scp").open("w") as script, (folder / "labels.mlf").open("w") as labels:
        labels.write("#!MLF!#\n")
        for number in range(UTTERANCES):
            states = np.repeat(random.integers(0, STATES, FRAMES // 5), 5)
            frames = (means[states] + random.normal(size=(FRAMES, DIM))).astype(">f4")
            path = folder / f"u{number}.fea"
            path.write_bytes(struct.pack(">iihh", FRAMES, 100_000, 4 * DIM, 9) + frames.tobytes())
            script.write(f"u{number}.fea={path}[0,{FRAMES - 1}]\n")
            labels.write(f'"u{number}.lab"\n')
            for begin in range(0, FRAMES, 5):
                labels.write(f"{begin * 100_000} {(begin + 5) * 100_000} {names[states[begin]]}\n")
            labels.write(".\n")
