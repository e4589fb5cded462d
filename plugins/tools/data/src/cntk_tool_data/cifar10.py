"""CIFAR-10: the binary or the python version of Alex Krizhevsky's page, packed or unpacked, as text and as pictures."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Dataset, DatasetProgress, Location
from cntk_tool_data.files import (
    Pixels,
    Progress,
    check_file_md5,
    check_labels,
    check_md5,
    new_file,
    write_text,
)
from cntk_tool_data.pickled import read_batch
from cntk_tool_data.png import encode_png

SIZE = 32
CHANNELS = 3
WIDTH = CHANNELS * SIZE * SIZE
CLASSES = 10
PAD, PAD_VALUE = 4, 128
"""Training pictures have so many grey pixels on each side, out of which crops are taken."""

BINARY_ARCHIVE = "cifar-10-binary.tar.gz"
CHECKSUMS = {
    BINARY_ARCHIVE: "c32a1d4ab5d03f1284b67883e8d87530",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""MD5 of the packed binary version, and of each file of the python version."""

PARTS = {"Train": tuple(f"data_batch_{number}" for number in range(1, 6)), "Test": ("test_batch",)}
"""The batches of each part; in the binary version their names end in ``.bin``."""

_BATCHES = [name for names in PARTS.values() for name in names]
_WHERE_FROM = "https://www.cs.toronto.edu/~kriz/cifar.html"

Batch = tuple[Pixels, Pixels]


class Cifar10(Dataset):
    """CIFAR-10: photographs of ten kinds of things, as text and as pictures."""

    requires_api = "1.0"
    parts = ("text", "images")

    def convert(self, source: Path, target: Path, *, checksum: bool, only: str, progress: DatasetProgress) -> None:
        """Write the files: see :func:`convert_cifar10`."""
        convert_cifar10(source, target, checksum=checksum, only=only, progress=progress)


def convert_cifar10(
    source: Path,
    target: Path,
    *,
    checksum: bool = True,
    only: str = "",
    progress: DatasetProgress | None = None,
    checksums: Mapping[str, str] = CHECKSUMS,
) -> None:
    """Write what CNTK's own script wrote of CIFAR-10.

    ``Train_cntk_text.txt`` and ``Test_cntk_text.txt``; the pictures in ``train`` (with a border) and ``test``, the map
    files ``train_map.txt`` and ``test_map.txt`` for the image reader, their mean in ``CIFAR-10_mean.xml``, and the mean
    colours for regression in ``train_regrLabels.txt`` and ``test_regrLabels.txt``.

    Args:
        source: the folder with the download, packed or not.
        target: the folder of the new files.
        checksum: compare with the published checksums.
        only: ``text`` or ``images``, or nothing for both.
        progress: who is told.
        checksums: the published ones.

    Raises:
        DataError: files are missing, damaged, or not the published ones.
    """
    told = progress or Progress()
    batches = _load(source, checksums if checksum else {})
    for part, names in PARTS.items():
        chosen = [batches[name] for name in names]
        if only != "images":
            write_text(target / f"{part}_cntk_text.txt", chosen, CLASSES, told)
        if only != "text":
            write_pictures(target, part.lower(), chosen, PAD if part == "Train" else 0, told)
    if only != "text":
        write_mean(target / "CIFAR-10_mean.xml", [batches[name][1] for name in PARTS["Train"]])
        told.done(str(target / "CIFAR-10_mean.xml"), "the mean picture of the training set")


@attrs.frozen
class _Found:
    """A place with all batches: an archive or a folder, in the binary or the python version."""

    path: Path
    binary: bool

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each batch, without ``.bin``, and its bytes."""
        suffix = ".bin" if self.binary else ""
        wanted = {f"{name}{suffix}": name for name in _BATCHES}
        if self.path.is_dir():
            for file, name in wanted.items():
                yield name, (self.path / file).read_bytes()
            return
        try:
            with tarfile.open(self.path, "r:*") as archive:
                for member in archive:
                    name = wanted.get(Path(member.name).name, "")
                    data = archive.extractfile(member) if name and member.isfile() else None
                    if data is not None:
                        yield name, data.read()
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise DataError(
                f"the archive is damaged: {error}", where=Location(str(self.path)), hint="Download it again."
            ) from None


def _load(source: Path, checksums: Mapping[str, str]) -> dict[str, Batch]:
    """Read all batches from the first place that has them."""
    found = _find(source)
    if found.binary and not found.path.is_dir() and BINARY_ARCHIVE in checksums:
        check_file_md5(found.path, checksums[BINARY_ARCHIVE])
    batches: dict[str, Batch] = {}
    for name, data in found.files():
        shown = str(found.path / name)
        if found.binary:
            batches[name] = _binary(data, f"{shown}.bin")
        else:
            check_md5(shown, data, checksums, key=name)
            batches[name] = read_batch(data, shown, WIDTH)
        check_labels(shown, batches[name][0], CLASSES)
    missing = [name for name in _BATCHES if name not in batches]
    if missing:
        raise DataError(
            f"the archive has no {', '.join(missing)}", where=Location(str(found.path)), hint="Download it again."
        )
    return batches


def _find(source: Path) -> _Found:
    """Find the data: packed or not, with checksums if possible.

    Raises:
        DataError: it is not there.
    """
    archives = {"cifar-10-binary.tar": True, "cifar-10-python.tar": False}
    for name, binary in archives.items():
        for suffix in (".gz", ""):
            if (source / f"{name}{suffix}").is_file():
                return _Found(source / f"{name}{suffix}", binary)
    for name in ("", "cifar-10-batches-py", "cifar-10-batches-bin"):
        for binary, suffix in ((False, ""), (True, ".bin")):
            if all((source / name / f"{batch}{suffix}").is_file() for batch in _BATCHES):
                return _Found(source / name, binary)
    raise DataError(
        f"there is no CIFAR-10 in '{source}': neither {BINARY_ARCHIVE} nor cifar-10-python.tar.gz, nor a folder with "
        f"all of {', '.join(_BATCHES)}",
        hint=f"Download the binary version from\n{_WHERE_FROM}",
    )


def _binary(data: bytes, name: str) -> Batch:
    """Take a batch of the binary version apart: for each picture one byte with its label, then its pixels.

    Raises:
        DataError: it ends within a picture.
    """
    if not data or len(data) % (1 + WIDTH):
        raise DataError(
            f"a batch has {1 + WIDTH} bytes for each picture, but this one has {len(data)}",
            where=Location(name),
            hint="Download it again.",
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, 1 + WIDTH)
    return rows[:, 0], rows[:, 1:]


def write_pictures(target: Path, part: str, batches: list[Batch], pad: int, progress: DatasetProgress) -> None:
    """Write the pictures of a part, its map file, and the mean colours for regression.

    The map file names the pictures by ``.../``, which for the image reader is the map file's own folder.
    """
    (target / part).mkdir(exist_ok=True)
    count = 0
    with new_file(target / f"{part}_map.txt") as listed, new_file(target / f"{part}_regrLabels.txt") as colours:
        for labels, pixels in batches:
            for label, image in zip(labels.tolist(), pixels.reshape(-1, CHANNELS, SIZE, SIZE), strict=True):
                bordered = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), constant_values=PAD_VALUE)
                name = f"{part}/{count:05d}.png"
                (target / name).write_bytes(encode_png(np.ascontiguousarray(bordered.transpose(1, 2, 0))))
                listed.write(f".../{name}\t{label}\n".encode())
                red, green, blue = bordered.mean(axis=(1, 2)) / 255.0
                colours.write(f"|regrLabels\t{red:f}\t{green:f}\t{blue:f}\n".encode())
                count += 1
                progress.at(part, count)
    progress.done(str(target / f"{part}_map.txt"), f"{count} pictures in '{target / part}'")


def write_mean(path: Path, batches: list[Pixels]) -> None:
    """Write the mean of all pictures, channel by channel, as the image reader's ``meanFile`` wants it."""
    total: NDArray[np.float64] = np.sum([batch.sum(axis=0, dtype=np.float64) for batch in batches], axis=0)
    mean = total / sum(len(batch) for batch in batches)
    lines = [
        '<?xml version="1.0" ?>',
        "<opencv_storage>",
        f"  <Channel>{CHANNELS}</Channel>",
        f"  <Row>{SIZE}</Row>",
        f"  <Col>{SIZE}</Col>",
        '  <MeanImg type_id="opencv-matrix">',
        "    <rows>1</rows>",
        f"    <cols>{WIDTH}</cols>",
        "    <dt>f</dt>",
        f"    <data>{' '.join(f'{value:e}' for value in mean)}</data>",
        "  </MeanImg>",
        "</opencv_storage>",
    ]
    with new_file(path) as file:
        file.write("\n".join(lines).encode() + b"\n")
