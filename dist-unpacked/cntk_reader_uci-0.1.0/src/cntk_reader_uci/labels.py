"""The file that names the classes, and how it is made from the data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cntk_core.api import DataError, Location, ask_to_write, raise_problems
from cntk_core.api.readers import LINE_BYTES, bounded_lines
from cntk_reader_uci.options import LabelOptions
from cntk_reader_uci.source import open_table
from cntk_reader_uci.table import Marks

_BOM = b"\xef\xbb\xbf"


def read_classes(stream: LabelOptions, path: Path) -> dict[bytes, int]:
    """Read the names of the classes, one per line; the first is class 0.

    Raises:
        DataError, Problems: the file cannot be read, is empty, or names a class twice.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(
            f"the label mapping file '{path}' of stream '{stream.name}' cannot be read: {reason}",
            where=stream.where,
            hint="The action createLabelMap makes it; so does allowMapCreation=true in the reader's block.",
        ) from None
    classes: dict[bytes, int] = {}
    errors = []
    for number, line in enumerate(text.removeprefix(_BOM).split(b"\n"), start=1):
        name = line.strip()
        if name in classes:
            label = name.decode("utf-8", "replace")
            errors.append(DataError(f"label '{label}' is there twice", where=Location(str(path), number)))
        elif name:
            classes[name] = len(classes)
    raise_problems(errors)
    if not classes:
        raise DataError("the label mapping file is empty", where=Location(str(path)))
    return classes


def make_classes(stream: LabelOptions, path: Path, marks: Marks, max_line_bytes: int = LINE_BYTES) -> dict[bytes, int]:
    """Write the label mapping file: the names of the column in the order in which they appear first."""
    ask_to_write(path, where=stream.where)
    classes: dict[bytes, int] = {}
    for name in _names(stream, marks, max_line_bytes):
        classes.setdefault(name, len(classes))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(name + b"\n" for name in classes))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"the label mapping file '{path}' cannot be written: {reason}", where=stream.where) from None
    return classes


def _names(stream: LabelOptions, marks: Marks, max_line_bytes: int) -> Iterator[bytes]:
    with open_table(stream.file, stream.where) as file:
        for number, line in enumerate(bounded_lines(file, max_line_bytes, str(stream.file)), start=1):
            cells = marks.split(line.removeprefix(_BOM) if number == 1 else line, stream.start + 1)
            if len(cells) > stream.start:
                yield cells[stream.start]
            elif cells:
                text = f"the line has {len(cells)} columns; the labels of stream '{stream.name}' stand in column "
                raise DataError(f"{text}{stream.start} (from 0)", where=Location(str(stream.file), number))
