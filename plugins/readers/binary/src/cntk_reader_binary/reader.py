"""The reader: options to a source of chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from cntk_core.api import CntkError, Config, ConfigError, ReaderContext, StreamInfo, did_you_mean, raise_problems, show
from cntk_core.api.readers import ChunkedReader
from cntk_reader_binary.binaryfile import BinaryFile, StoredStream
from cntk_reader_binary.options import BinaryReaderOptions, StreamOptions, read_options
from cntk_reader_binary.source import BinarySource


class CNTKBinaryReader(ChunkedReader):
    """Reads CNTK's binary format."""

    options: ClassVar[type] = BinaryReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: BinaryReaderOptions, context: ReaderContext) -> None:
        if options.truncated and context.trace is not None:
            # The original goes on without a word; a reader made of deserializers cuts sequences.
            context.trace("CNTKBinaryReader reads whole sequences, truncated=true does not change that.")
        file = BinaryFile(options.file, options.file_where)
        try:
            wanted = _choose(file, options, context)
        except BaseException:
            file.close()
            raise
        self._binary = BinarySource(file, wanted, context.dtype)
        super().__init__(
            options,
            context,
            source=self._binary,
            streams=tuple(wanted.values()),
            window=options.window,
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> BinaryReaderOptions:
        """Read the reader's block and its ``input`` sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the file."""
        return self._binary.check()


def _choose(file: BinaryFile, options: BinaryReaderOptions, context: ReaderContext) -> dict[int, StreamInfo]:
    """Return the streams to read, by their numbers in the file: those of ``input``, else all that the network needs.

    Raises:
        ConfigError: a stream is not in the file, or does not fit.
    """
    numbers = {stream.name.lower(): number for number, stream in enumerate(file.streams)}
    errors: list[CntkError] = []
    chosen: dict[int, StreamInfo] = {}
    if not options.streams:
        needed = {name.lower() for name in context.inputs}
        every = {number: stream for number, stream in enumerate(file.streams) if stream.name.lower() in needed}
        for number, stored in (every or dict(enumerate(file.streams))).items():
            _add(chosen, number, StreamOptions(name=stored.name, where=options.file_where), stored, context, errors)
        raise_problems(errors)
        return chosen
    for stream in options.streams:
        alias = stream.alias or stream.name
        found = numbers.get(alias.lower())
        if found is None:
            names = [stored.name for stored in file.streams]
            text = f"'{file.name}' has no stream '{alias}'{did_you_mean(alias, names)}"
            hint = f"It has: {', '.join(names)}. Write {stream.name}=[ alias=... ], the name in the file."
            errors.append(ConfigError(text, where=stream.where, hint=hint))
        elif found in chosen:
            text = f"stream '{file.streams[found].name}' of the file feeds '{chosen[found].name}' already"
            errors.append(ConfigError(text, where=stream.where))
        else:
            _add(chosen, found, stream, file.streams[found], context, errors)
    raise_problems(errors)
    return chosen


def _add(
    chosen: dict[int, StreamInfo],
    number: int,
    stream: StreamOptions,
    stored: StoredStream,
    context: ReaderContext,
    errors: list[CntkError],
) -> None:
    """Add a stream, or note why it does not fit."""
    name, shape = ChunkedReader.find_input(context, stream.name)
    if stream.dim is not None and stream.dim != stored.dim:
        text = f"stream '{stream.name}' has dim={stream.dim}, but {stored.dim} in the file"
        errors.append(ConfigError(text, where=stream.where, hint="Leave dim out: the file knows it."))
        return
    stored_format = "sparse" if stored.sparse else "dense"
    if stream.format is not None and stream.format != stored_format:
        text = f"stream '{stream.name}' has format={stream.format}, but is {stored_format} in the file"
        errors.append(ConfigError(text, where=stream.where, hint="Leave format out: the file knows it."))
        return
    if shape is not None and math.prod(shape) != stored.dim:
        text = f"stream '{stream.name}' has samples of {stored.dim} values, but the network's input '{name}' is "
        hint = "Change the input of the network, or write the file again."
        errors.append(ConfigError(text + show(shape), where=stream.where, hint=hint))
        return
    chosen[number] = StreamInfo(name, shape or (stored.dim,), stored.sparse, sequence=True)
