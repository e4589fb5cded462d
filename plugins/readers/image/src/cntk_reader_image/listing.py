"""The images of a map file or a base64 file: what is known of them without decoding any."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location, raise_problems
from cntk_core.api.readers import LINE_BYTES, bounded_lines
from cntk_reader_image.containers import Container, Folder, read_file, split_container
from cntk_reader_image.limits import Limits

MOST_PROBLEMS = 20
"""So many wrong lines of a file are shown."""


@attrs.frozen(eq=False)
class Images(ABC):
    """The images of a file.

    Attributes:
        file: the file as the recipe names it.
        lines: the line of each image, from 1.
        classes: the class of each image.
        names: the key of each image; None where these are the numbers of the lines, from 0.
        chunks: the number of the first image of each chunk, and of the end; None: each image is one.
        limits: what an image may take.
    """

    file: str
    lines: NDArray[np.int64]
    classes: NDArray[np.int64]
    names: Sequence[str] | None = None
    chunks: NDArray[np.int64] | None = None
    limits: Limits = attrs.field(factory=Limits, kw_only=True)

    def __len__(self) -> int:
        return len(self.classes)

    def where(self, image: int) -> Location:
        """Return the line of an image."""
        return Location(self.file, int(self.lines[image]))

    def key(self, image: int) -> int | str:
        """Return the key of an image."""
        return int(self.lines[image]) - 1 if self.names is None else self.names[image]

    def random_keys(self) -> NDArray[np.uint64]:
        """Return a number for each image that depends on its key alone, for its random numbers."""
        if self.names is None:
            return (self.lines - 1).astype(np.uint64)
        return np.fromiter((random_key(name) for name in self.names), np.uint64, len(self.names))

    @abstractmethod
    def title(self, image: int) -> str:
        """Return what a message calls an image."""

    @abstractmethod
    def read(self, image: int) -> bytes:
        """Return the encoded bytes of an image, from any thread. Raises BrokenImageError."""

    @abstractmethod
    def close(self) -> None:
        """Close files. May be called more than once."""


def random_key(name: str) -> int:
    """Return a number of 64 bits for a key: the key itself where it is a number."""
    if name.isascii() and name.isdigit() and len(name) < 19:
        return int(name)
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


@attrs.frozen(eq=False)
class MappedImages(Images):
    """The images of a map file.

    Attributes:
        paths: as the map file has them.
        folder: finds plain files.
        containers: the containers that the map file names, by their path in it.
    """

    paths: Sequence[str] = attrs.field(kw_only=True)
    folder: Folder = attrs.field(kw_only=True)
    containers: dict[str, Container] = attrs.field(kw_only=True)

    def title(self, image: int) -> str:
        """Return what a message calls an image."""
        return f"'{self.paths[image]}'"

    def read(self, image: int) -> bytes:
        """Return the encoded bytes of an image. Raises BrokenImageError."""
        path = self.paths[image]
        if "@" in path:
            parts = split_container(path)
            if parts is not None:
                return self.containers[parts[0]].read(parts[1], self.limits)
        return read_file(self.folder.resolve(path), self.limits)

    def close(self) -> None:
        """Close the containers."""
        for container in self.containers.values():
            container.close()


def read_map(
    path: Path, labels: int, where: Location | None, limits: Limits | None = None, max_line_bytes: int = LINE_BYTES
) -> MappedImages:
    """Read a map file: ``path TAB class`` or ``key TAB path TAB class`` in each line.

    Args:
        path: the file.
        labels: number of classes.
        where: what named the file.
        limits: what an image may take.
        max_line_bytes: a longer line is refused.

    Raises:
        DataError, Problems: the file or its containers cannot be read; lines are wrong; containers lack images.
    """
    paths: list[str] = []
    keys: list[str] = []
    has_keys = False
    lines: list[int] = []
    classes: list[int] = []
    problems = LineProblems()
    for number, line in numbered_lines(path, where, "map file", max_line_bytes):
        columns = line.split("\t")
        key = ""
        if len(columns) > 2 and columns[2]:
            key, *columns = columns
            has_keys = True
        if len(columns) < 2 or not columns[0] or not columns[1] or "\0" in line:
            zero = "the line has a zero byte, which no path can have"
            text = zero if "\0" in line else _WRONG_LINE
            problems.add(DataError(text, where=Location(str(path), number)))
            continue
        found = class_of(columns[1], labels, columns[0], Location(str(path), number))
        if isinstance(found, CntkError):
            problems.add(found)
            continue
        paths.append(columns[0])
        keys.append(key or str(number - 1))
        lines.append(number)
        classes.append(found)
    problems.finish(bool(lines), path)
    folder = Folder(path)
    containers = _open_containers(paths, lines, folder, str(path))
    return MappedImages(
        str(path),
        np.array(lines, dtype=np.int64),
        np.array(classes, dtype=np.int64),
        keys if has_keys else None,
        paths=paths,
        folder=folder,
        containers=containers,
        limits=limits or Limits(),
    )


_WRONG_LINE = "the line must have an image and its class, with a tab between them, and a key before them if you like"


def _open_containers(paths: Sequence[str], lines: Sequence[int], folder: Folder, file: str) -> dict[str, Container]:
    """Open the containers that images are in, and check that they are there."""
    containers: dict[str, Container] = {}
    broken: set[str] = set()
    problems = LineProblems()
    for path, line in zip(paths, lines, strict=True):
        parts = split_container(path) if "@" in path else None
        if parts is None or parts[0] in broken:
            continue
        name, item = parts
        where = Location(file, line)
        if name not in containers:
            try:
                containers[name] = Container(folder.resolve(name), where)
            except DataError as error:
                problems.add(error)
                broken.add(name)
                continue
        if item not in containers[name]:
            problems.add(DataError(f"the container '{name}' has no file '{item}'", where=where))
    try:
        problems.finish(True, Path(file))
    except CntkError:
        for container in containers.values():
            container.close()
        raise
    return containers


class LineProblems:
    """What is wrong with the lines of a file; the first ones are kept."""

    def __init__(self) -> None:
        self._errors: list[CntkError] = []
        self._count = 0

    def add(self, error: CntkError) -> None:
        """Note an error."""
        self._count += 1
        if self._count <= MOST_PROBLEMS:
            self._errors.append(error)

    def finish(self, any_image: bool, file: Path) -> None:
        """Raise what is wrong; also if there is no image at all."""
        if self._count > MOST_PROBLEMS:
            more = self._count - MOST_PROBLEMS
            self._errors.append(DataError(f"{more} more lines are wrong", where=Location(str(file))))
        raise_problems(self._errors)
        if not any_image:
            raise DataError("the file has no images", where=Location(str(file)))


def class_of(text: str, labels: int, image: str, where: Location) -> int | DataError:
    """Return a class, or what is wrong with it."""
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) < 19):
        return DataError(f"the class of image '{image}' must be a whole number, not '{word[:40]}'", where=where)
    if int(word) >= labels:
        return DataError(
            f"the class {int(word)} of image '{image}' is not below labelDim={labels}",
            where=where,
            hint=f"Classes are numbered from 0 to {labels - 1}.",
        )
    return int(word)


def numbered_lines(path: Path, where: Location | None, what: str, max_line_bytes: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not empty, with their numbers from 1. Raises DataError."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file, max_line_bytes, str(path)), start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text.strip():
                    yield number, text
    except OSError as error:
        raise cannot_open(path, error, where, what) from None
    except UnicodeDecodeError:
        raise DataError(f"the {what} is no text in UTF-8", where=Location(str(path))) from None


def cannot_open(path: Path, error: OSError, where: Location | None, what: str) -> DataError:
    """Return the error of a file that cannot be opened."""
    hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
    reason = (error.strerror or str(error)).lower()
    return DataError(f"cannot open {what} '{path}': {reason}", where=where, hint=hint)
