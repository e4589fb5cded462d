"""MNIST: the four IDX files of Yann LeCun's page, compressed or not, as CNTK text files."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cntk_core.api import DataError, Dataset, DatasetProgress, Location
from cntk_tool_data.files import Pixels, Progress, check_labels, check_md5, write_text

CHECKSUMS = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""MD5 of the uncompressed files, by their published names."""

PARTS = {"Train": "train", "Test": "t10k"}
"""What a part is called in the new file and in the published ones."""

CLASSES = 10
_WHERE_FROM = "https://ossci-datasets.s3.amazonaws.com/mnist/ or http://yann.lecun.com/exdb/mnist/"


class Mnist(Dataset):
    """MNIST: handwritten digits, as text."""

    requires_api = "1.0"
    parts = ("text", "images")

    def convert(self, source: Path, target: Path, *, checksum: bool, only: str, progress: DatasetProgress) -> None:
        """Write the files: see :func:`convert_mnist`."""
        convert_mnist(source, target, checksum=checksum, only=only, progress=progress)


def convert_mnist(
    source: Path,
    target: Path,
    *,
    checksum: bool = True,
    only: str = "",
    progress: DatasetProgress | None = None,
    checksums: Mapping[str, str] = CHECKSUMS,
) -> None:
    """Write ``Train-28x28_cntk_text.txt`` and ``Test-28x28_cntk_text.txt``.

    Args:
        source: the folder with the downloaded files; they may lie in a folder below.
        target: the folder of the new files.
        checksum: compare with the published checksums.
        only: ``text``, or nothing; there are no pictures of this data set.
        progress: who is told.
        checksums: the published ones.

    Raises:
        DataError: files are missing, damaged, or not the published ones.
    """
    if only == "images":
        raise DataError("MNIST is written as text only", hint="Leave out --only images.")
    files = _find(source, list(CHECKSUMS))
    known = checksums if checksum else {}
    for part, stem in PARTS.items():
        images = _read(files[f"{stem}-images-idx3-ubyte"], f"{stem}-images-idx3-ubyte", 3, known)
        name = f"{stem}-labels-idx1-ubyte"
        labels = _read(files[name], name, 1, known)
        if len(images) != len(labels):
            raise DataError(
                f"there are {len(labels)} labels, but {len(images)} images in '{files[f'{stem}-images-idx3-ubyte']}'",
                where=Location(str(files[name])),
            )
        check_labels(str(files[name]), labels, CLASSES)
        height, width = images.shape[1:]
        path = target / f"{part}-{width}x{height}_cntk_text.txt"
        write_text(path, [(labels, images)], CLASSES, progress or Progress())


def _find(source: Path, names: list[str]) -> dict[str, Path]:
    """Find each file: plain or compressed, also with a dot before ``idx`` as some mirrors have it.

    Raises:
        DataError: some are missing.
    """
    present = {path.name: path for path in sorted(source.rglob("*ubyte*"), reverse=True) if path.is_file()}
    found = {}
    for name in names:
        spellings = (name, f"{name}.gz", name.replace("-idx", ".idx"), name.replace("-idx", ".idx") + ".gz")
        matches = [present[spelling] for spelling in spellings if spelling in present]
        if matches:
            found[name] = matches[0]
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(
            f"of the files of MNIST {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not in '{source}'",
            hint=f"Download {', '.join(f'{name}.gz' for name in missing)} from\n{_WHERE_FROM}",
        )
    return found


def _read(path: Path, name: str, axes: int, checksums: Mapping[str, str]) -> Pixels:
    """Read an IDX file of unsigned bytes: ``00 00 08``, the number of axes, their sizes, the values.

    Raises:
        DataError: it is damaged, another file, or not the published one.
    """
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"the compressed file is damaged: {error}", where=Location(str(path)), hint="Download it again."
            ) from None
    check_md5(str(path), data, checksums, key=name)
    begin = 4 + 4 * axes
    if data[:4] != bytes((0, 0, 8, axes)) or len(data) < begin:
        raise DataError(
            f"this is no IDX file of unsigned bytes with {axes} {'axis' if axes == 1 else 'axes'}: it begins with "
            f"{data[:4].hex(' ') or 'nothing'}",
            where=Location(str(path)),
        )
    sizes = tuple(int(size) for size in np.frombuffer(data[4:begin], ">u4"))
    if len(data) - begin != math.prod(sizes):
        shown = " x ".join(map(str, sizes))
        raise DataError(
            f"the header says {shown} = {math.prod(sizes)} values, but there are {len(data) - begin}",
            where=Location(str(path)),
            hint="Download it again.",
        )
    return np.frombuffer(data, np.uint8, offset=begin).reshape(sizes)
