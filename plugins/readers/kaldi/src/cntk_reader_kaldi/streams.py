"""From the options of a stream to its source of data."""

from __future__ import annotations

import math
from collections.abc import Callable

from cntk_core.api import ConfigError, DataError, Location, ReaderContext, StreamInfo, show
from cntk_core.api.readers import ChunkedReader, Part
from cntk_reader_kaldi.archive import ArchiveFile, ArchiveFiles
from cntk_reader_kaldi.options import FeatureOptions, StreamOptions
from cntk_reader_kaldi.sources import ClassTable, FeatureTable, Rules, TableSource, first_dim
from cntk_reader_kaldi.tables import read_lines, read_table

Warn = Callable[[str], None]
_NOWHERE = Location("<options>")


def say_nothing(line: str) -> None:
    """Drop a warning."""


def open_part(
    stream: StreamOptions, context: ReaderContext, warn: Warn, *, max_errors: int, longest: int | None = None
) -> tuple[Part, StreamInfo]:
    """Open a stream as a part of a reader.

    Raises:
        DataError, ConfigError: a file is wrong, or the dimensions do not fit.
    """
    files = ArchiveFiles(stream.max_line_bytes)
    try:
        if isinstance(stream, FeatureOptions):
            limit = None if stream.expand else longest
            source, info = _open_features(stream, files, context, warn, max_errors, limit)
            return Part(source, (info.name,), stream.expand), info
        table = read_table(stream.table, stream.where or _NOWHERE, files, _end_of_classes)
        name, shape = _shape(stream, stream.dim, context)
        rules = Rules(name=name, shape=shape, dtype=context.dtype, dim=stream.dim, max_errors=max_errors)
        classes = ClassTable(table, files, rules, warn)
        return Part(classes, (name,)), StreamInfo(name, shape, sparse=True, sequence=True)
    except BaseException:
        files.close()
        raise


def _open_features(
    stream: FeatureOptions,
    files: ArchiveFiles,
    context: ReaderContext,
    warn: Warn,
    max_errors: int,
    longest: int | None,
) -> tuple[TableSource, StreamInfo]:
    table = read_table(stream.table, stream.where or _NOWHERE, files, _end_of_matrix)
    dim = first_dim(table, files)
    left, right = _window(stream, dim)
    name, shape = _shape(stream, (1 + left + right) * dim, context)
    rules = Rules(
        name=name,
        shape=shape,
        dtype=context.dtype,
        dim=dim,
        window=(left, right),
        max_errors=max_errors,
        longest=longest,
        counts=_read_lengths(stream),
    )
    return FeatureTable(table, files, rules, warn), StreamInfo(name, shape, sequence=True)


def _end_of_matrix(file: ArchiveFile, at: int) -> int:
    return file.header(at).end


def _end_of_classes(file: ArchiveFile, at: int) -> int:
    return file.classes(at)[1]


def _window(stream: FeatureOptions, dim: int) -> tuple[int, int]:
    """Return the frames around each frame; without contextWindow they follow from ``dim``."""
    if stream.window != (0, 0):
        if stream.dim == dim:
            return stream.window
        text = f"stream '{stream.name}' has dim={stream.dim}, but a frame of its table has {dim} values"
        raise DataError(text, where=stream.where, hint=f"With contextWindow, dim is the dimension of the table: {dim}.")
    frames, rest = divmod(stream.dim, dim)
    if rest or frames % 2 == 0:
        raise DataError(
            f"stream '{stream.name}' has dim={stream.dim}, and a frame of its table has {dim} values: "
            f"this is no window of {dim} x (1, 3, 5, ...)",
            where=stream.where,
            hint=f"Write dim={dim} ; contextWindow=..., frames of the window or left:right.",
        )
    return frames // 2, frames // 2


def _read_lengths(stream: FeatureOptions) -> dict[str, int] | None:
    """Return the frames of each utterance; None if the stream has no list of them."""
    if stream.lengths is None:
        return None
    found: dict[str, int] = {}
    for place, words in read_lines(stream.lengths, stream.where or _NOWHERE, "list of lengths", stream.max_line_bytes):
        if len(words) != 2 or not (words[1].isascii() and words[1].isdigit() and len(words[1]) < 19):
            hint = "A line is the key of an utterance and how many frames it has; feat-to-len writes such a list."
            raise DataError(f"'{' '.join(words)[:60]}' is no key and length", where=place, hint=hint)
        found[words[0]] = int(words[1])
    return found


def _shape(stream: StreamOptions, dim: int, context: ReaderContext) -> tuple[str, tuple[int, ...]]:
    """Return the name and the shape of the network's input that a stream feeds."""
    name, shape = ChunkedReader.find_input(context, stream.name)
    if shape is None:
        return name, (dim,)
    if math.prod(shape) != dim:
        what = "samples" if isinstance(stream, FeatureOptions) else "labels"
        raise ConfigError(
            f"stream '{stream.name}' has {what} of dimension {dim}, but the network's input '{name}' is {show(shape)}",
            where=stream.where,
            hint="Change dim and contextWindow of the stream, or the input of the network.",
        )
    return name, shape
