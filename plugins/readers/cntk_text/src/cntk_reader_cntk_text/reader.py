"""The reader: options to a source of chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from cntk_core.api import CntkError, Config, ConfigError, ReaderContext, StreamInfo, show
from cntk_core.api.readers import ChunkedReader
from cntk_reader_cntk_text.options import StreamOptions, TextReaderOptions, read_options
from cntk_reader_cntk_text.records import StreamSpec
from cntk_reader_cntk_text.source import TextRules, TextSource
from cntk_reader_cntk_text.textfile import TextFile


class CNTKTextFormatReader(ChunkedReader):
    """Reads CNTK's text format."""

    options: ClassVar[type] = TextReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: TextReaderOptions, context: ReaderContext) -> None:
        if options.truncated and context.trace is not None:
            # The original goes on without a word; a reader made of deserializers cuts sequences.
            context.trace("CNTKTextFormatReader reads whole sequences, truncated=true does not change that.")
        rules = _rules(options, context)
        trace = context.trace if options.trace_level >= 1 and context.trace is not None else _say_nothing
        self._text = TextSource(TextFile(options.file, options.file_where, options.max_line_bytes), rules, trace)
        self._counts = rules.main is not None
        super().__init__(
            options,
            context,
            source=self._text,
            streams=tuple(
                StreamInfo(stream.name, stream.shape, stream.sparse, not self._text.by_line) for stream in rules.streams
            ),
            window=options.window,
        )

    @property
    def counts(self) -> bool:
        """Whether one of its streams defines the size of minibatches."""
        return self._counts

    @classmethod
    def configure(cls, block: Config, what: str) -> TextReaderOptions:
        """Read the reader's block and its ``input`` sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the file, in the order of its lines."""
        return self._text.check()


def _say_nothing(line: str) -> None:
    """Drop a warning."""


def _spec(stream: StreamOptions, context: ReaderContext) -> StreamSpec:
    """Return what is read for a stream: with the name and shape of the network's input, if it has one."""
    name, shape = ChunkedReader.find_input(context, stream.name)
    if shape is None:
        shape = (stream.dim,)
    if math.prod(shape) != stream.dim:
        raise ConfigError(
            f"stream '{stream.name}' has dim={stream.dim}, but the network's input '{name}' is {show(shape)}",
            where=stream.where,
            hint=f"Set dim={math.prod(shape)}, or change the input.",
        )
    return StreamSpec(name, (stream.alias or stream.name).encode(), stream.dim, stream.format == "sparse", shape)


def _rules(options: TextReaderOptions, context: ReaderContext) -> TextRules:
    main = [number for number, stream in enumerate(options.streams) if stream.defines_mb_size]
    return TextRules(
        streams=tuple(_spec(stream, context) for stream in options.streams),
        main=main[0] if main else None,
        by_line=options.skip_sequence_ids or options.frame_mode,
        max_errors=options.max_errors,
        chunk_bytes=options.chunk_size_in_bytes,
        dtype=context.dtype,
    )
