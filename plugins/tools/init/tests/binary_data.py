"""Binary data that transcripts begin with, in the current folder."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np


def small_arrays() -> None:
    """Points with a number, and some that are held out."""
    points = np.arange(24.0).reshape(6, 4)
    np.savez("points.npz", x_train=points[:4], y_train=np.array([1, 0, 1, 0]), x_test=points[4:], y_test=[0, 1])


def one_hot_arrays() -> None:
    """Pictures of 2 x 2 with one-hot labels, and arrays that do not fit."""
    images = np.arange(40).reshape(10, 2, 2)
    np.savez("images.npz", images=images, labels=np.eye(2)[np.arange(10) % 2], names=np.array(["a"] * 10), size=2)


def number_arrays() -> None:
    """Points and a number for each."""
    np.savez("numbers.npz", x=np.arange(20.0).reshape(10, 2), weights=np.ones(10), y=np.arange(10) / 4)


def unnamed_arrays() -> None:
    """Points, and two rows of numbers whose names say nothing."""
    np.savez("unnamed.npz", a=np.arange(8.0).reshape(4, 2), b=np.array([2, 1, 1, 2]), c=np.arange(4.0))


def arrays_of_objects() -> None:
    """An array that runs a program where it is read."""
    np.savez("objects.npz", x=np.arange(4.0), y=np.array([None, {}, (), ""], dtype=object))


def unlike_arrays() -> None:
    """Arrays that do not belong together."""
    np.savez("unlike.npz", x=np.zeros((3, 2)), y=np.zeros(4), empty=0)


def wide_labels() -> None:
    """Labels of several values."""
    np.savez("wide.npz", x=np.zeros((3, 2)), y=np.full((3, 2), 0.5))


def table() -> None:
    """A Parquet table with gaps."""
    import pyarrow
    from pyarrow.parquet import write_table

    columns = {
        "a": [0.5, None, 1.5, 2.5, 0.0, 1.0],
        "n": [4, 5, 4, None, 5, 4],
        "flag": [True, False, True, False, None, True],
        "site": ["in", None, "out", "in", "in", "out"],
        "species": ["red", "blue", None, "red", "blue", "red"],
    }
    write_table(pyarrow.table(columns), "points.parquet")


def _picture(path: str, size: tuple[int, int], mode: str = "RGB") -> None:
    from PIL import Image

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path)


def colour_pictures() -> None:
    """A folder for each of three classes, pictures of two sizes, broken ones, a folder without any."""
    for number in range(6):
        _picture(f"photos/cats/{number}.png", (160, 80))
    for number in range(5):
        _picture(f"photos/dogs/{number}.PNG", (20, 24) if number else (160, 80), "L")
    for number in range(4):
        _picture(f"photos/owls/{number}.png", (20, 24))
    for number in range(6):
        Path(f"photos/cats/x{number}.gif").write_bytes(b"no picture")
    Path("photos/notes").mkdir()
    Path("photos/notes/a.txt").write_text("nothing\n", encoding="utf-8")


def gray_pictures() -> None:
    """Small gray pictures, for a map file."""
    for number in range(6):
        _picture(f"{number}.png", (6, 16), "L")


def features(frames: int, width: int = 2) -> bytes:
    """Return a feature file of HTK."""
    head = struct.pack(">iihh", frames, 100_000, 4 * width, 9)
    return head + np.zeros((frames, width), ">f4").tobytes()


def htk_features() -> None:
    """Feature files of HTK, one of them compressed, one in the other order of bytes, one of another width."""
    for number in range(4):
        Path(f"u{number}.mfc").write_bytes(features(number + 2))
    Path("u1.mfc").write_bytes(struct.pack(">iihH", 3, 100_000, 4, 9 | 0o2000) + bytes(3 * 4 + 8))
    Path("u2.mfc").write_bytes(struct.pack("<iihH", 4, 100_000, 8, 9) + bytes(4 * 8))
    Path("long.mfc").write_bytes(features(2600))
    Path("wide.mfc").write_bytes(features(2, 3))
    Path("short.mfc").write_bytes(features(2)[:-1])


def kaldi_features() -> None:
    """Matrices of Kaldi: of floats, of doubles, compressed, and as text."""
    archive, listing = b"", ""
    shape = b"\4" + struct.pack("<i", 3) + b"\4" + struct.pack("<i", 2)
    matrices = {
        "floats": b"\0BFM " + shape + bytes(24),
        "doubles": b"\0BDM " + shape + bytes(48),
        "text": b" [ 1 2\n 3 4 ]\n",
        "bytes": b"\0BCM " + struct.pack("<ffii", 0, 1, 3, 2) + bytes(2 * 8 + 6),
    }
    for name, data in matrices.items():
        archive += f"{name} ".encode()
        listing += f"{name} feats.ark:{len(archive)}\n"
        archive += data
    Path("feats.ark").write_bytes(archive)
    Path("feats.scp").write_text(listing, encoding="utf-8")
