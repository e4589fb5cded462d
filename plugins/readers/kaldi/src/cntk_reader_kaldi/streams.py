"""From the options of a stream to its source of data."""

from __future__ import annotations

import math
from collections.abc import Callable

from cntk_core.api import ConfigError, DataError, Location, ReaderContext, StreamInfo, show
from cntk_core.api.readers import ChunkedReader, Part
from cntk_reader_kaldi.archive import ArchiveFiles
from cntk_reader_kaldi.commands import Spool
from cntk_reader_kaldi.lattice_options import LatticeOptions
from cntk_reader_kaldi.lattices import open_lattices
from cntk_reader_kaldi.nnet1_transform import transform_of
from cntk_reader_kaldi.options import AlignmentOptions, FeatureOptions, StreamOptions
from cntk_reader_kaldi.sources import ClassTable, FeatureTable, LabelRules, Rules, TableSource, first_dim
from cntk_reader_kaldi.tables import end_of_classes, end_of_matrix, read_lines, read_table
from cntk_reader_kaldi.transition_model import read_transition_model

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
    files = ArchiveFiles(stream.max_line_bytes, Spool(stream.allow_commands, warn))
    try:
        if isinstance(stream, FeatureOptions):
            limit = None if stream.expand else longest
            source, info = _open_features(stream, files, context, warn, max_errors, limit)
            return Part(source, (info.name,), stream.expand), info
        if isinstance(stream, LatticeOptions):
            return open_lattices(stream, files, context, warn, max_errors)
        return _open_labels(stream, files, context, warn, max_errors)
    except BaseException:
        files.close()
        raise


def _open_labels(
    stream: AlignmentOptions, files: ArchiveFiles, context: ReaderContext, warn: Warn, max_errors: int
) -> tuple[Part, StreamInfo]:
    model = None if stream.model is None else read_transition_model(stream.model, stream.model_where)
    labels = LabelRules(soft=stream.soft, delay=stream.delay, numbers=_read_mapping(stream), model=model)
    table = read_table(stream.table, stream.where or _NOWHERE, files, end_of_classes)
    name, shape = _shape(stream, stream.dim, context)
    rules = Rules(name=name, shape=shape, dtype=context.dtype, dim=stream.dim, max_errors=max_errors, labels=labels)
    return Part(ClassTable(table, files, rules, warn), (name,)), StreamInfo(name, shape, sparse=True, sequence=True)


def _open_features(
    stream: FeatureOptions,
    files: ArchiveFiles,
    context: ReaderContext,
    warn: Warn,
    max_errors: int,
    longest: int | None,
) -> tuple[TableSource, StreamInfo]:
    transform = transform_of(stream.transform, stream.transform_where or _NOWHERE)
    table = read_table(stream.table, stream.where or _NOWHERE, files, end_of_matrix)
    dim = first_dim(table, files)
    if transform is not None:
        if dim != transform.input_dim:
            text = f"a frame of the table has {dim} values, and '{stream.transform}' takes {transform.input_dim}"
            raise DataError(text, where=stream.transform_where, hint="Is it the transform of these features?")
        dim = transform.output_dim
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
        transform=transform,
    )
    return FeatureTable(table, files, rules, warn), StreamInfo(name, shape, sequence=True)


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


def _read_mapping(stream: AlignmentOptions) -> dict[int, int] | None:
    """Return the number of each class of the table: that of its line. None if they are their own numbers."""
    if stream.mapping is None:
        return None
    where = stream.mapping_where or _NOWHERE
    lines = read_lines(stream.mapping, where, "label mapping", stream.max_line_bytes)
    found: dict[int, int] = {}
    for place, words in lines:
        if not (words[0].isascii() and words[0].isdigit() and len(words[0]) < 10):
            hint = "A line has one class of the alignments; leave labelMappingFile out if they are 0, 1, 2, ..."
            raise DataError(f"'{words[0][:60]}' is no class of an alignment", where=place, hint=hint)
        if int(words[0]) in found:
            raise DataError(f"the class {int(words[0])} is there twice", where=place, hint="Each has one line.")
        found[int(words[0])] = len(found)
    return None if all(key == number for key, number in found.items()) else found


def _shape(stream: FeatureOptions | AlignmentOptions, dim: int, context: ReaderContext) -> tuple[str, tuple[int, ...]]:
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
