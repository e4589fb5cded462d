"""Matrices in the XML files of CNTK's image library: mean images, and the axes along which intensities vary."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location

_HINT = "It is an XML file as OpenCV writes it: <opencv_storage> with <{names}>."


class MatrixFile:
    """An XML file with matrices and numbers.

    Args:
        path: the file.
        where: what named it.
        needed: the names that it must have, for messages.

    Raises:
        DataError: it cannot be read.
    """

    def __init__(self, path: Path, where: Location | None, needed: tuple[str, ...]) -> None:
        self.name = str(path)
        self._hint = _HINT.format(names=">, <".join(needed))
        try:
            text = path.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
            raise DataError(f"cannot open file '{path}': {reason}", where=where, hint=hint) from None
        try:
            self._root = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            line, column = error.position
            message = f"the file is no XML: {error.msg}" if hasattr(error, "msg") else f"the file is no XML: {error}"
            raise DataError(message, where=Location(self.name, line, column + 1), hint=self._hint) from None

    def wrong(self, message: str) -> DataError:
        """Return an error of this file."""
        return DataError(message, where=Location(self.name), hint=self._hint)

    def number(self, name: str) -> int:
        """Return a whole number."""
        text = (self._find(name).text or "").strip()
        if not (text.isascii() and text.isdigit()):
            raise self.wrong(f"<{name}> must be a whole number, not '{text[:40]}'")
        return int(text)

    def matrix(self, name: str) -> NDArray[np.float64]:
        """Return a matrix ``(rows, columns, channels)``."""
        element = self._find(name)
        rows, columns = (self._part(element, name, part) for part in ("rows", "cols"))
        try:
            values = np.array((element.findtext("data") or "").split(), dtype=np.float64)
        except ValueError:
            raise self.wrong(f"<data> of <{name}> has something that is no number") from None
        if not rows * columns or not len(values) or len(values) % (rows * columns):
            raise self.wrong(f"<{name}> has {len(values)} values, which do not fill {rows} x {columns}")
        return values.reshape(rows, columns, -1)

    def _find(self, name: str) -> ElementTree.Element:
        found = self._root.find(name)
        if found is None:
            raise self.wrong(f"the file has no <{name}>")
        return found

    def _part(self, element: ElementTree.Element, name: str, part: str) -> int:
        text = (element.findtext(part) or "").strip()
        if not (text.isascii() and text.isdigit()):
            raise self.wrong(f"<{part}> of <{name}> must be a whole number, not '{text[:40]}'")
        return int(text)


def read_mean(path: Path, where: Location | None) -> NDArray[np.float64]:
    """Return a mean image ``(rows, columns, channels)``, blue first. Raises DataError."""
    file = MatrixFile(path, where, ("MeanImg", "Channel", "Row", "Col"))
    values = file.matrix("MeanImg")
    channels, rows, columns = (file.number(name) for name in ("Channel", "Row", "Col"))
    if channels * rows * columns != values.size:
        raise file.wrong(
            f"<MeanImg> has {values.size} values, but Col, Row and Channel are {columns} x {rows} x {channels}"
        )
    return values.reshape(rows, columns, channels)


def read_intensity(path: Path, where: Location | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return three eigenvalues of colours and, as columns of a matrix, their vectors, red first. Raises DataError."""
    file = MatrixFile(path, where, ("EigVal", "EigVec"))
    values, vectors = file.matrix("EigVal"), file.matrix("EigVec")
    if values.shape != (1, 3, 1):
        raise file.wrong(f"<EigVal> must be 1 x 3 numbers, not {values.shape[0]} x {values.shape[1]}")
    if vectors.shape != (3, 3, 1):
        raise file.wrong(f"<EigVec> must be 3 x 3 numbers, not {vectors.shape[0]} x {vectors.shape[1]}")
    return values[0, :, 0], vectors[:, :, 0]
