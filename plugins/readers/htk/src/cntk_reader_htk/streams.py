"""From the options of a stream to its source of data."""

from __future__ import annotations

import math
from collections.abc import Callable

from cntk_core.api import ConfigError, ReaderContext, StreamInfo, show
from cntk_core.api.readers import ChunkedReader, ChunkSource, Part, lattice_rows
from cntk_reader_htk.features import FeatureRules, FeatureSource, first_header, window_of
from cntk_reader_htk.htkfile import FeatureFiles
from cntk_reader_htk.labels import LabelRules, LabelSource
from cntk_reader_htk.lattices import LatticeRules, LatticeSource
from cntk_reader_htk.options import FeatureOptions, LabelOptions, LatticeOptions, StreamOptions
from cntk_reader_htk.scp import read_script

Warn = Callable[[str], None]


def say_nothing(line: str) -> None:
    """Drop a warning."""


def open_features(
    stream: FeatureOptions, context: ReaderContext, warn: Warn, *, max_errors: int, longest: int | None = None
) -> tuple[FeatureSource, StreamInfo]:
    """Open a stream of features: its list is read, and the header of its first file.

    Raises:
        DataError, ConfigError: a file is wrong, or the dimensions do not fit.
    """
    script = read_script(stream.script, stream.prefix, stream.where, stream.max_line_bytes)
    files = FeatureFiles()
    try:
        header = first_header(script, files, stream.script, max_errors)
        left, right = window_of(stream.dim, stream.window, header, stream.name, stream.where)
        name, shape = _shape(stream, (1 + left + right) * header.dim, context)
    except BaseException:
        files.close()
        raise
    rules = FeatureRules(
        name=name,
        script=stream.script,
        left=left,
        right=right,
        shape=shape,
        dtype=context.dtype,
        max_errors=max_errors,
        longest=longest,
    )
    return FeatureSource(script, files, header, rules, warn), StreamInfo(name, shape)


def open_labels(
    stream: LabelOptions, context: ReaderContext, warn: Warn, *, max_errors: int
) -> tuple[LabelSource, StreamInfo]:
    """Open a stream of labels; nothing is read yet.

    Raises:
        ConfigError: the dimensions do not fit.
    """
    name, shape = _shape(stream, stream.dim if stream.targets is None else stream.target_dim, context)
    rules = LabelRules(
        name=name,
        files=stream.files,
        states=stream.states,
        dim=stream.dim,
        dtype=context.dtype,
        phone_boundaries=stream.phone_boundaries,
        targets=stream.targets,
        target_dim=stream.target_dim,
        max_errors=max_errors,
        where=stream.where,
        places=stream.places,
        max_line_bytes=stream.max_line_bytes,
    )
    return LabelSource(rules, warn), StreamInfo(name, shape, sparse=True)


def open_lattices(stream: LatticeOptions, context: ReaderContext, warn: Warn) -> tuple[LatticeSource, StreamInfo]:
    """Open a stream of lattices; nothing is read yet.

    Raises:
        ConfigError: the network's input of the same name is none for lattices.
    """
    assert stream.hmms is not None, "the reader's options name the phones"
    assert stream.labels is not None, "the reader's options name the labels"
    assert stream.labels.states is not None, "the reader's options name the states"
    name = lattice_rows.lattice_input(context.inputs, stream.name) or stream.name
    shape = context.inputs.get(name, (lattice_rows.LATTICE_COLUMNS,))
    if shape != (lattice_rows.LATTICE_COLUMNS,):
        raise ConfigError(
            f"stream '{stream.name}' has lattices, but the network's input '{name}' is {show(shape)}",
            where=stream.where,
            hint=f"An input of lattices is [{lattice_rows.LATTICE_COLUMNS}], with a dynamic axis of its own.",
        )
    rules = LatticeRules(
        name=name,
        tables=stream.tables,
        numerators=stream.numerators,
        prefix=stream.prefix,
        phones=stream.hmms.phones,
        transitions=stream.hmms.transitions,
        states=stream.labels.states,
        labels=stream.labels.files,
        unigram=stream.unigram,
        dtype=context.dtype,
        where=stream.where,
        max_line_bytes=stream.max_line_bytes,
    )
    return LatticeSource(rules, warn), StreamInfo(name, shape, sequence=True)


def open_part(
    stream: StreamOptions, context: ReaderContext, warn: Warn, *, max_errors: int, longest: int | None
) -> tuple[Part, StreamInfo]:
    """Open any stream as a part of a reader."""
    source: ChunkSource
    if isinstance(stream, LatticeOptions):
        source, info = open_lattices(stream, context, warn)
        return Part(source, (info.name,)), info
    if isinstance(stream, FeatureOptions):
        limit = None if stream.expand else longest
        source, info = open_features(stream, context, warn, max_errors=max_errors, longest=limit)
        return Part(source, (info.name,), stream.expand), info
    source, info = open_labels(stream, context, warn, max_errors=max_errors)
    return Part(source, (info.name,)), info


def _shape(stream: FeatureOptions | LabelOptions, dim: int, context: ReaderContext) -> tuple[str, tuple[int, ...]]:
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
