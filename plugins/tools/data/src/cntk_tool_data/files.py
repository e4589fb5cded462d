"""What the data sets share: checksums, text files in CNTK's format, and telling how far things are."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, DatasetProgress, Location

Pixels = NDArray[np.uint8]

_NUMBERS = [str(number).encode() for number in range(256)]
_STEP = 1000


class Progress:
    """Tells on a terminal how far a file is, and everywhere when it is written."""

    def __init__(self) -> None:
        self._moving = sys.stderr.isatty()
        self._shown = 0

    def at(self, name: str, count: int) -> None:
        """So many images of a file are done."""
        if self._moving and count % _STEP == 0:
            text = f"{name}: {count} images"
            print(f"\r{text:<{self._shown}}", end="", file=sys.stderr, flush=True)
            self._shown = len(text)

    def done(self, name: str, what: str) -> None:
        """A file is written."""
        if self._shown:
            print(f"\r{'':<{self._shown}}\r", end="", file=sys.stderr, flush=True)
            self._shown = 0
        print(f"{name}: {what}", flush=True)


def check_md5(name: str, data: bytes | memoryview, checksums: Mapping[str, str], *, key: str) -> None:
    """Compare data with the published checksum under ``key``, if there is one.

    Raises:
        DataError: it is another one.
    """
    wanted = checksums.get(key)
    if wanted is not None:
        compare_md5(name, hashlib.md5(data, usedforsecurity=False).hexdigest(), wanted)


def check_file_md5(path: Path, wanted: str) -> None:
    """Compare a file with a published checksum.

    Raises:
        DataError: it is another one.
    """
    with path.open("rb") as file:
        compare_md5(
            str(path), hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest(), wanted
        )


def compare_md5(name: str, found: str, wanted: str) -> None:
    """Raise a DataError if two checksums differ."""
    if found != wanted:
        raise DataError(
            f"the MD5 checksum is {found}, but the published one is {wanted}",
            where=Location(name),
            hint="Download the file again. If it is meant to be another one, add --no-checksum.",
        )


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name when it is whole."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(path: Path, batches: Iterable[tuple[Pixels, Pixels]], classes: int, progress: DatasetProgress) -> None:
    """Write images as CNTK text: ``|labels`` one-hot with all its zeros, ``|features`` one number for each pixel.

    Args:
        path: the new file.
        batches: pairs of labels ``(images,)`` and pixels ``(images, ...)``, in the order of the file.
        classes: how many labels there are.
        progress: who is told.
    """
    hot = [b"|labels " + b" ".join(_NUMBERS[int(k == label)] for k in range(classes)) for label in range(classes)]
    count = 0
    with new_file(path) as file:
        for labels, pixels in batches:
            for label, image in zip(labels.tolist(), pixels.reshape(len(pixels), -1), strict=True):
                values = b" ".join(map(_NUMBERS.__getitem__, image.tobytes()))
                file.write(hot[label] + b" |features " + values + b"\n")
                count += 1
                progress.at(path.name, count)
    progress.done(str(path), f"{count} images")


def check_labels(name: str, labels: Pixels, classes: int) -> None:
    """Raise a DataError if a label is none of the classes."""
    wrong = np.flatnonzero(labels >= classes)
    if len(wrong):
        raise DataError(
            f"the label of image {wrong[0]} is {labels[wrong[0]]}; labels are 0 to {classes - 1}", where=Location(name)
        )
