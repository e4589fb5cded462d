"""Data of the shapes that recipes train on: made up, learnable, the same in each run."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

PIXELS, DIGITS, SAMPLES = 784, 10, 20_000
WORDS, TAGS, SENTENCES = 943, 129, 4_978
DIM, STATES, UTTERANCES, FRAMES = 33, 132, 60, 500
VOCABULARY, LINES = 10_000, 2_000
IMAGES, CLASSES, SIDE = 1_280, 10, 40


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


def words(folder: Path) -> None:
    """``train.ctf``: 2,000 sentences of 10 to 34 of 10,000 words, few of them common, and those that follow."""
    random = np.random.default_rng(4)
    shares = 1 / np.arange(2.0, VOCABULARY + 2)
    nexts = random.choice(VOCABULARY, (VOCABULARY, 4), p=shares / shares.sum())
    with (folder / "train.ctf").open("w") as file:
        for number in range(LINES):
            word = 0
            for draw in random.integers(0, 5, random.integers(10, 35)).tolist():
                # One in five words is any word, the others follow the one before them.
                after = int(nexts[word, draw]) if draw < 4 else int(nexts[random.integers(VOCABULARY), 0])
                file.write(f"{number} |w {word}:1 |n {after}:1\n")
                word = after


def images(folder: Path) -> None:
    """``map.txt`` and 1,280 PNG files of 40 x 40 pixels: the colours of a class, with noise and a border of zeros."""
    from PIL import Image

    random = np.random.default_rng(5)
    coarse = random.integers(0, 256, (CLASSES, 4, 4, 3), dtype=np.uint8)
    smooth = [np.asarray(Image.fromarray(one).resize((32, 32), Image.Resampling.BICUBIC), float) for one in coarse]
    lines = []
    for number, label in enumerate(random.integers(0, CLASSES, IMAGES).tolist()):
        pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
        pixels[4:36, 4:36] = np.clip(smooth[label] + random.normal(0, 20, (32, 32, 3)), 0, 255)
        path = folder / f"{number}.png"
        Image.fromarray(pixels).save(path)
        lines.append(f"{path}\t{label}\n")
    (folder / "map.txt").write_text("".join(lines))


def speech(folder: Path) -> None:
    """Features, labels and states in HTK's formats: 60 utterances of 500 frames of 33 features, states of 5 frames."""
    write_speech(folder, [FRAMES] * UTTERANCES)


def utterances(folder: Path) -> None:
    """The same of 60 utterances of 100 to 600 frames."""
    write_speech(folder, (5 * np.random.default_rng(6).integers(20, 121, UTTERANCES)).tolist())


def write_speech(folder: Path, lengths: Sequence[int]) -> None:
    """Write an utterance of each of so many frames."""
    random = np.random.default_rng(3)
    means = random.normal(size=(STATES, DIM))
    names = [f"s{state}" for state in range(STATES)]
    (folder / "states.list").write_text("".join(f"{name}\n" for name in names))
    with (folder / "train.scp").open("w") as script, (folder / "labels.mlf").open("w") as labels:
        labels.write("#!MLF!#\n")
        for number, length in enumerate(lengths):
            states = np.repeat(random.integers(0, STATES, length // 5), 5)
            frames = (means[states] + random.normal(size=(length, DIM))).astype(">f4")
            path = folder / f"u{number}.fea"
            path.write_bytes(struct.pack(">iihh", length, 100_000, 4 * DIM, 9) + frames.tobytes())
            script.write(f"u{number}.fea={path}[0,{length - 1}]\n")
            labels.write(f'"u{number}.lab"\n')
            for begin in range(0, length, 5):
                labels.write(f"{begin * 100_000} {(begin + 5) * 100_000} {names[states[begin]]}\n")
            labels.write(".\n")
