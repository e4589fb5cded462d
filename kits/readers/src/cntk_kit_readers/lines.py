"""Lines of files that anybody may have written: none is collected that is longer than the recipe allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from cntk_core.errors import DataError, Location

LINE_BYTES = 64 * 1024 * 1024
"""Bytes of the longest line, where a recipe does not say ``maxLineBytes``."""
_END = 2
"""Bytes of the end of a line at most."""


def bounded_lines(file: BinaryIO, limit: int, name: str, before: int = 0) -> Iterator[bytes]:
    r"""Yield the lines of an open file from where it stands, with their ends.

    Args:
        file: opened in binary mode.
        limit: bytes that a line may have, without its end (``\n`` or ``\r\n``).
        name: of the file, for messages.
        before: lines of the file before.

    Raises:
        DataError: a line is longer. No more of it was read than that.
        OSError: the file cannot be read.
    """
    number = before
    while line := file.readline(limit + _END):
        number += 1
        if len(line) > limit and len(line.removesuffix(b"\n").removesuffix(b"\r")) > limit:
            raise line_too_long(name, number, limit)
        yield line


def line_too_long(name: str, number: int, limit: int) -> DataError:
    """Return the error of a line, from 1, that has more bytes than ``maxLineBytes`` allows."""
    return DataError(
        f"the line has more than {limit} bytes, maxLineBytes={limit}",
        where=Location(name, number),
        hint="Is it the right file? If it is, give the reader a larger maxLineBytes.",
    )
