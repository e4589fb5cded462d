"""The reader: options to a source of chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    DataError,
    EpochSpec,
    Minibatch,
    ReaderContext,
    StreamInfo,
    collect,
    raise_problems,
    show,
)
from cntk_core.api.readers import ChunkedReader
from cntk_reader_uci.labels import make_classes, read_classes
from cntk_reader_uci.options import ColumnOptions, LabelOptions, UCIReaderOptions, read_options
from cntk_reader_uci.source import Stream, TableSource
from cntk_reader_uci.table import Columns, Marks


class UCIFastReader(ChunkedReader):
    """Reads a table of columns, one sample per line."""

    options: ClassVar[type] = UCIReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: UCIReaderOptions, context: ReaderContext) -> None:
        if options.has_cache and context.trace is not None:
            context.trace(
                "UCIFastReader: no binary cache is written or read (writerType), the table is parsed directly"
            )
        marks = Marks(options.custom_delimiter.encode(), options.custom_decimal_point.encode())
        streams: list[Stream] = []
        errors: list[CntkError] = []
        for given in options.streams:
            if isinstance(given, LabelOptions) and given.label_type == "none":
                continue
            stream = collect(partial(_stream, given, options, marks, context), errors)
            if stream is not None:
                streams.append(stream)
        raise_problems(errors)
        first = options.streams[0]
        self._table = TableSource(
            first.file,
            first.where,
            streams,
            marks,
            options.chunk_size_in_bytes,
            context.dtype,
            options.max_line_bytes,
        )
        super().__init__(
            options,
            context,
            source=self._table,
            streams=tuple(StreamInfo(stream.name, stream.shape) for stream in streams),
            window=options.window,
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> UCIReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch; with ``minibatchMode=full`` all of them are whole.

        Raises:
            DataError: a sweep has not enough samples for one.
        """
        whole = self.settings.minibatch_mode == "full"
        return super().minibatches(self._rounded(epoch) if whole else epoch)

    def _rounded(self, epoch: EpochSpec) -> EpochSpec:
        """Return an epoch of whole minibatches: of a sweep those that it has, otherwise one more than fit."""
        size, samples = epoch.minibatch_size, self.order().samples
        if epoch.epoch_size:
            return attrs.evolve(epoch, epoch_size=-(-epoch.epoch_size // size) * size)
        most = samples // size * size
        if not most:
            text = f"minibatchMode=full, but {self._table} has {samples} samples and a minibatch {size}"
            raise DataError(text, hint="Set minibatchMode=partial, or a smaller minibatchSize.")
        return attrs.evolve(epoch, max_samples=min(epoch.max_samples or most, most))

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the table, in the order of its lines."""
        return self._table.check()


def _stream(
    given: ColumnOptions | LabelOptions, options: UCIReaderOptions, marks: Marks, context: ReaderContext
) -> Stream:
    """Return what is read for a block: with the name and shape of the network's input, if it has one."""
    name, shape = ChunkedReader.find_input(context, given.name)
    if isinstance(given, LabelOptions) and given.label_type == "category":
        classes = _classes(given, options, marks, context)
        dim = given.label_dim or len(classes)
        key = "labelDim"
        columns = Columns(name, given.start, 1, classes)
    else:
        classes = {}
        dim = given.dim
        key = "dim"
        columns = Columns(name, given.start, given.dim)
    if shape is not None and math.prod(shape) != dim:
        text = f"stream '{given.name}' has {key}={dim}, but the network's input '{name}' is {show(shape)}"
        raise ConfigError(text, where=given.where, hint=f"Set {key}={math.prod(shape)}, or change the input.")
    return Stream(columns, shape or (dim,), dim if classes else 0)


def _classes(given: LabelOptions, options: UCIReaderOptions, marks: Marks, context: ReaderContext) -> dict[bytes, int]:
    path = given.label_mapping_file
    assert path is not None
    if options.allow_map_creation and not path.exists():
        classes = make_classes(given, path, marks, options.max_line_bytes)
        if options.trace_level >= 1 and context.trace is not None:
            context.trace(f"label mapping file '{path}' written with {len(classes)} labels")
    else:
        classes = read_classes(given, path)
    if given.label_dim and len(classes) > given.label_dim:
        text = f"stream '{given.name}' has labelDim={given.label_dim}, but '{path}' names {len(classes)} classes"
        raise ConfigError(text, where=given.where, hint=f"Set labelDim={len(classes)}, or shorten the file.")
    return classes
