"""Small data of each format, of which something can be learned."""

from __future__ import annotations

import csv
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROWS = 120


def _points() -> tuple[np.ndarray, np.ndarray]:
    """Points of four numbers in three clusters, and the number of their cluster."""
    random = np.random.default_rng(1)
    labels = np.arange(ROWS) % 3
    return random.normal(size=(ROWS, 4)) + 3 * labels[:, None], labels


def _row(values: np.ndarray) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def ctf(folder: Path) -> list[Path]:
    """Dense features and classes, one-hot and sparse."""
    x, y = _points()
    text = "".join(f"|class {label}:1 |x {_row(row)}\n" for row, label in zip(x, y, strict=True))
    return [_text(folder / "rows.ctf", text)]


def ctf_numbers(folder: Path) -> list[Path]:
    """Dense features and a number that they tell."""
    x, _ = _points()
    text = "".join(f"|value {100 + 20 * row.sum():.4f} |x {_row(row)}\n" for row in x)
    return [_text(folder / "numbers.ctf", text)]


def ctf_tags(folder: Path) -> list[Path]:
    """Sequences of words with a tag for each."""
    random = np.random.default_rng(2)
    lines = []
    for sequence in range(60):
        for word in random.integers(0, 12, size=random.integers(2, 7)):
            lines.append(f"{sequence} |word {word}:1 |tag {word % 3}:1\n")
    return [_text(folder / "tags.ctf", "".join(lines))]


def ctf_sequences(folder: Path) -> list[Path]:
    """Sequences of vectors with one label each."""
    random = np.random.default_rng(3)
    lines = []
    for sequence in range(60):
        for step in range(random.integers(2, 6)):
            label = f" |label {sequence % 2}:1" if not step else ""
            lines.append(f"{sequence} |x {_row(random.normal(size=3) + sequence % 2)}{label}\n")
    return [_text(folder / "sequences.ctf", "".join(lines))]


def ctf_words(folder: Path) -> list[Path]:
    """Words and the ones that follow."""
    lines = [
        f"{sequence} |word {(sequence + step) % 7}:1 |next {(sequence + step + 1) % 7}:1\n"
        for sequence in range(50)
        for step in range(8)
    ]
    return [_text(folder / "words.ctf", "".join(lines))]


def table(folder: Path) -> list[Path]:
    """A CSV table with a name as class, a column of names, one that counts, a gap."""
    x, y = _points()
    with (folder / "flowers.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "length", "width", "depth", "site", "species"])
        for at, (row, label) in enumerate(zip(x, y, strict=True)):
            site = "a, b" if at % 2 else "shore"
            width = "" if at == 7 else f"{row[1]:.3f}"
            writer.writerow([at, f"{row[0]:.3f}", width, f"{row[2]:.3f}", site, ("red", "green", "blue")[label]])
    return [folder / "flowers.csv"]


def prices(folder: Path) -> list[Path]:
    """A table with semicolons whose last column is a number."""
    x, _ = _points()
    lines = ["rooms;size;price\n", *(f"{row[0]:.3f};{row[1]:.3f};{1e5 + 1e4 * row[:2].sum():.2f}\n" for row in x)]
    return [_text(folder / "prices.csv", "".join(lines))]


def parquet(folder: Path) -> list[Path]:
    """A Parquet table."""
    import pyarrow
    from pyarrow.parquet import write_table

    x, y = _points()
    columns = {"a": x[:, 0], "b": x[:, 1], "site": ["in" if one % 2 else "out" for one in y], "label": y}
    write_table(pyarrow.table(columns), folder / "points.parquet")
    return [folder / "points.parquet"]


def arrays(folder: Path) -> list[Path]:
    """Arrays with a part for tests."""
    x, y = _points()
    np.savez(folder / "points.npz", x_train=x[:90], y_train=y[:90], x_test=x[90:], y_test=y[90:])
    return [folder / "points.npz"]


def columns(folder: Path) -> list[Path]:
    """White space between columns, the label first."""
    x, y = _points()
    text = "".join(f"{'abc'[label]} {_row(row)}\n" for row, label in zip(x, y, strict=True))
    return [_text(folder / "columns.txt", text)]


def pictures(folder: Path) -> list[Path]:
    """A folder of pictures for each class, one of another size, one broken."""
    from PIL import Image

    random = np.random.default_rng(4)
    for name, shade in (("dark", 40), ("light", 200)):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(30):
            size = (20, 24) if number == 3 else (16, 16)
            pixels = np.clip(random.normal(shade, 20, size=(*size, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    (folder / "photos/dark/broken.png").write_bytes(b"no picture")
    return [folder / "photos"]


def map_file(folder: Path) -> list[Path]:
    """A map file with the pictures."""
    pictures(folder)
    lines = [
        f"photos/{name}/{number}.png\t{label}\n" for label, name in enumerate(("dark", "light")) for number in range(30)
    ]
    return [_text(folder / "map.txt", "".join(lines))]


def _utterances() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {f"u{n}": random.normal(size=(20 + n % 3, 5)) + np.arange(20 + n % 3)[:, None] % 2 for n in range(20)}


def htk(folder: Path) -> list[Path]:
    """A list of feature files and a label file."""
    labels = ["#!MLF!#"]
    for name, frames in _utterances().items():
        head = struct.pack(">iihh", len(frames), 100_000, 20, 9)
        (folder / f"{name}.mfc").write_bytes(head + frames.astype(">f4").tobytes())
        labels.append(f'"*/{name}.lab"')
        labels += [f"{t * 100_000} {(t + 1) * 100_000} s{t % 2}" for t in range(len(frames))]
        labels.append(".")
    listing = _text(folder / "all.scp", "".join(f"{name}.mfc\n" for name in _utterances()))
    return [listing, _text(folder / "all.mlf", "\n".join(labels) + "\n")]


def kaldi(folder: Path) -> list[Path]:
    """A list of matrices in an archive, and alignments."""
    archive, listing, alignment = b"", "", ""
    for name, frames in _utterances().items():
        archive += f"{name} ".encode()
        listing += f"{name} {folder.as_posix()}/feats.ark:{len(archive)}\n"
        archive += b"\0BFM \4" + struct.pack("<i", len(frames)) + b"\4" + struct.pack("<i", 5)
        archive += frames.astype("<f4").tobytes()
        alignment += f"{name} {' '.join(str(frame % 2) for frame in range(len(frames)))}\n"
    (folder / "feats.ark").write_bytes(archive)
    return [_text(folder / "feats.scp", listing), _text(folder / "ali.txt", alignment)]


def sentences(folder: Path) -> list[Path]:
    """A text."""
    random = np.random.default_rng(6)
    words = ("the", "cat", "dog", "sees", "hears", "a", "bird", "today", "and", "runs")
    lines = [" ".join(random.choice(words, size=random.integers(3, 8))) + "\n" for _ in range(80)]
    return [_text(folder / "corpus.txt", "".join(lines))]


def tagged(folder: Path) -> list[Path]:
    """Words with tags."""
    random = np.random.default_rng(7)
    lines = []
    for _ in range(40):
        for word in random.choice(["fly", "to", "rome", "paris", "from"], size=random.integers(2, 6)):
            lines.append(f"{word} {'city' if word in ('rome', 'paris') else 'O'}\n")
        lines.append("\n")
    return [_text(folder / "tagged.txt", "".join(lines))]


def _text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


SAMPLES: dict[str, tuple[Callable[[Path], list[Path]], str, str]] = {
    "ctf": (ctf, "CNTK text", "classify"),
    "ctf_numbers": (ctf_numbers, "CNTK text", "regress"),
    "ctf_tags": (ctf_tags, "CNTK text", "tag"),
    "ctf_sequences": (ctf_sequences, "CNTK text", "classify"),
    "ctf_words": (ctf_words, "CNTK text", "language-model"),
    "table": (table, "a CSV table", "classify"),
    "prices": (prices, "a CSV table", "regress"),
    "parquet": (parquet, "a Parquet table", "classify"),
    "arrays": (arrays, "NumPy arrays (npz)", "classify"),
    "columns": (columns, "a table of columns", "classify"),
    "pictures": (pictures, "folders of pictures", "classify"),
    "map_file": (map_file, "a map file of pictures", "classify"),
    "htk": (htk, "HTK features and labels", "classify"),
    "kaldi": (kaldi, "Kaldi features and alignments", "classify"),
    "sentences": (sentences, "text, a sentence in each line", "language-model"),
    "tagged": (tagged, "words with tags", "tag"),
}
"""What makes data, what they are called, and the task that they look like."""
