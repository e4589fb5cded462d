"""CNTKBinaryWriter: values of nodes, or streams of any reader, in CNTK's binary format."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

import attrs
import numpy as np

from cntk_core.api import (
    Config,
    ConfigError,
    DataError,
    DataWriter,
    Location,
    SequenceOutput,
    SparseRows,
    WriterContext,
    ask_to_write,
    at_least,
    option,
    options,
)
from cntk_reader_binary.binaryfile import DENSE, MAGIC, SPARSE, VALUE_TYPES, VERSION

CHUNK_BYTES = 32 * 1024 * 1024
"""A chunk ends with the sequence that reaches so many bytes."""


@options
class WriterKeys:
    """The keys of the writer's block."""

    file: Path = option(doc="The binary file to write.")
    precision: Literal["float", "double"] = option(default="float", doc="Type of the values in the file.")
    chunk_size_in_bytes: int = option(default=CHUNK_BYTES, doc="A chunk is about this large.", validator=at_least(1))


@options
class BinaryWriterOptions(WriterKeys):
    """Everything that a recipe says to the writer."""

    where: Location | None = None


class CNTKBinaryWriter(DataWriter):
    """Writes all outputs as streams of one file, which gets its name when it is whole."""

    options: ClassVar[type] = BinaryWriterOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: BinaryWriterOptions, context: WriterContext) -> None:
        super().__init__(options, context)
        self._type = 0 if options.precision == "float" else 1
        self._streams = {name: _Stream(VALUE_TYPES[self._type], name in context.sparse) for name in context.outputs}
        self._lengths: list[int] = []
        self._bytes = 0
        self._table: list[tuple[int, int, int]] = []
        self._temporary = options.file.with_name(options.file.name + ".part")
        if not context.outputs:
            raise ConfigError("CNTKBinaryWriter has nothing to write", where=options.where)
        ask_to_write(options.file, key="file", where=options.where)
        try:
            options.file.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = self._temporary.open("wb")
            self._file.write(struct.pack("<QI", MAGIC, VERSION))
        except OSError as error:
            raise self._cannot_write(error) from None

    @classmethod
    def configure(cls, block: Config, what: str) -> BinaryWriterOptions:
        """Read the writer's block. Raises all errors together."""
        keys: Any = block.bind(WriterKeys, what=what)
        return BinaryWriterOptions(**attrs.asdict(keys, recurse=False), where=block.location("file"))

    def write(self, outputs: Mapping[str, Sequence[SequenceOutput]]) -> None:
        """Write the next sequences; all outputs have equally many of them.

        Raises:
            DataError: they have not, or the file cannot be written.
        """
        counts = {name: len(outputs[name]) for name in self._streams}
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"'{name}' {count}" for name, count in counts.items())
            raise DataError(
                f"CNTKBinaryWriter: the outputs have different numbers of sequences: {shown}",
                where=self.settings.where,
                hint="A file holds streams of the same sequences; write such nodes to a file of their own.",
            )
        for number in range(next(iter(counts.values()))):
            longest = 0
            for name, stream in self._streams.items():
                values = outputs[name][number].values
                longest = max(longest, len(values))
                self._bytes += stream.add(values)
            self._lengths.append(longest)
            if self._bytes >= self.settings.chunk_size_in_bytes:
                self._write_chunk()

    def close(self) -> None:
        """Write what is left and the header, and give the file its name."""
        if self._file.closed:
            return
        if self._lengths:
            self._write_chunk()
        try:
            self._file.write(self._header(self._file.tell()))
            self._file.close()
            self._temporary.replace(self.settings.file)
        except OSError as error:
            self._file.close()
            self._temporary.unlink(missing_ok=True)
            raise self._cannot_write(error) from None

    def discard(self) -> None:
        """Remove the unfinished file."""
        if not self._file.closed:
            self._file.close()
            self._temporary.unlink(missing_ok=True)

    def _write_chunk(self) -> None:
        try:
            self._table.append((self._file.tell(), len(self._lengths), sum(self._lengths)))
            self._file.write(np.array(self._lengths, dtype="<u4").tobytes())
            for stream in self._streams.values():
                self._file.writelines(stream.pieces)
                stream.pieces.clear()
        except OSError as error:
            raise self._cannot_write(error) from None
        self._lengths.clear()
        self._bytes = 0

    def _header(self, offset: int) -> bytes:
        parts = [struct.pack("<QII", MAGIC, len(self._table), len(self._streams))]
        for name, stream in self._streams.items():
            encoded = name.encode()
            parts.append(struct.pack("<BI", SPARSE if stream.sparse else DENSE, len(encoded)) + encoded)
            parts.append(struct.pack("<BI", self._type, self.context.outputs[name]))
        parts += [struct.pack("<qII", *row) for row in self._table]
        return b"".join([*parts, struct.pack("<q", offset)])

    def _cannot_write(self, error: OSError) -> DataError:
        reason = (error.strerror or str(error)).lower()
        return DataError(f"'{self.settings.file}' cannot be written: {reason}", where=self.settings.where)


class _Stream:
    """The bytes of a stream for the chunk that is collected."""

    def __init__(self, stored: np.dtype[Any], sparse: bool) -> None:
        self.stored = stored
        self.sparse = sparse
        self.pieces: list[bytes] = []

    def add(self, values: Any) -> int:
        """Add a sequence; return how many bytes it takes."""
        if self.sparse:
            assert isinstance(values, SparseRows)
            added = [
                struct.pack("<Ii", len(values), len(values.values)),
                np.ascontiguousarray(values.values, dtype=self.stored).tobytes(),
                np.ascontiguousarray(values.indices, dtype="<i4").tobytes(),
                np.ascontiguousarray(values.counts, dtype="<i4").tobytes(),
            ]
        else:
            added = [struct.pack("<I", len(values)), np.ascontiguousarray(values, dtype=self.stored).tobytes()]
        self.pieces += added
        return sum(map(len, added))
