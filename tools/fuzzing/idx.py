"""IDX files of images and labels, plain or packed, against sizes that are multiplied by hand."""

from __future__ import annotations

import gzip
import io
import math
import random
import struct
import zlib

import numpy as np
from cntk_reader_mnist.options import ImageOptions, LabelOptions, MNISTReaderOptions
from cntk_reader_mnist.reader import MNISTReader

from cntk_core.api import CntkError, EpochSpec, ReaderContext
from fuzzing.engine import Finding, mutated, same
from fuzzing.files import folder, write

_CLASSES = 4


def make(pick: random.Random) -> bytes:
    """Return images, and behind them labels; the first two bytes are the length of the former."""
    count, rows, columns = pick.choice((1, 2, 5)), pick.choice((1, 2)), pick.choice((1, 3))
    sizes = [count, rows, columns]
    if pick.random() < 0.1:
        sizes[pick.randrange(3)] = pick.choice((0, 2**31, 2**32 - 1, 65536))
    images = struct.pack(">4B3I", 0, 0, 8, 3, *sizes) + pick.randbytes(count * rows * columns)
    labels = struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(pick.randrange(_CLASSES) for _ in range(count))
    parts = []
    for part in (images, labels):
        changed = mutated(part, pick) if pick.random() < 0.3 else part
        packed = gzip.compress(changed, mtime=0) if pick.random() < 0.3 else changed
        parts.append(mutated(packed, pick) if packed is not changed and pick.random() < 0.2 else packed)
    return struct.pack(">H", len(parts[0])) + parts[0] + parts[1]


def check(data: bytes) -> None:
    size = int.from_bytes(data[:2], "big")
    images, labels = data[2 : 2 + size], data[2 + size :]
    try:
        expected = _judge(images, labels)
    except (ValueError, struct.error):
        expected = None
    try:
        found = _read(images, labels)
    except CntkError as error:
        if expected is not None:
            raise Finding(f"refused what is right: {error}") from None
        raise
    if expected is None:
        raise Finding(f"accepted what is wrong: {found!r}")
    same("samples", found, expected)


Samples = list[tuple[list[float], list[float]]]


def _read(images: bytes, labels: bytes) -> Samples:
    write("i", images)
    write("l", labels)
    streams = (
        ImageOptions(name="x", file=folder() / "i"),
        LabelOptions(name="l", file=folder() / "l", label_dim=_CLASSES),
    )
    options = MNISTReaderOptions(streams=streams, randomize="none", prefetch=False)
    reader = MNISTReader(options, ReaderContext(dtype=np.dtype(np.float32)))
    found: Samples = []
    try:
        problems = list(reader.check())
        for minibatch in reader.minibatches(EpochSpec(minibatch_size=7)):
            values, classes = (np.asarray(minibatch.streams[name].data) for name in "xl")
            found += zip(values.reshape(len(values), -1).tolist(), classes.tolist(), strict=True)
    finally:
        reader.close()
    if problems:
        raise Finding(f"check finds what reading does not: {problems[0]}")
    return found


def _judge(images: bytes, labels: bytes) -> Samples:
    (count, rows, columns), pixels = _unpacked(images, 3)
    (others,), classes = _unpacked(labels, 1)
    if others != count or not count or not rows * columns or any(label >= _CLASSES for label in classes):
        raise ValueError("labels")
    size = rows * columns
    return [
        (
            [float(value) for value in pixels[place * size : (place + 1) * size]],
            [float(number == classes[place]) for number in range(_CLASSES)],
        )
        for place in range(count)
    ]


def _unpacked(data: bytes, axes: int) -> tuple[tuple[int, ...], bytes]:
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read()
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(str(error)) from None
    if data[:4] != bytes((0, 0, 8, axes)):
        raise ValueError("magic")
    sizes = struct.unpack_from(f">{axes}I", data, 4)
    values = data[4 + 4 * axes :]
    if len(values) != math.prod(sizes):
        raise ValueError("size")
    return sizes, values
