"""DSSMReader: queries and documents, each in a file of its own, and the label that their likeness is learned from.

A file begins with the number of its rows (8 bytes), the values of a row (4), and the values that are stored in all
rows (8). Where each row begins follows (8 each), from after the last of these numbers on. A row is that of
:mod:`.rows`. The first row of one file belongs to the first of the other; the label of each is 1, 0, 0, ...
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    ReaderContext,
    StreamInfo,
    at_least,
    collect,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import Chunk, ChunkedReader, ChunkInfo, ChunkSource, Column, Window
from cntk_reader_sparse.blocks import Feature, Label, SparseKeys, input_of, read_blocks
from cntk_reader_sparse.files import DataFile
from cntk_reader_sparse.rows import SparseRows, stored_type

CHUNK_ROWS = 16384
_HEADER = struct.Struct("<qiq")
_OFFSET = 8
_WHAT = "DSSMReader"


@options
class DSSMKeys(SparseKeys):
    """The keys of the reader's block."""

    chunk_size_in_rows: int = option(default=CHUNK_ROWS, doc="Rows that are read at once.", validator=at_least(1))


@options
class DSSMOptions(DSSMKeys):
    """Everything that a recipe says to the reader."""

    features: tuple[Feature, ...] = attrs.field()
    label: Label = attrs.field()


class RowFile:
    """A file of rows that says where each begins.

    Args:
        feature: the stream.
        stored: type of its values.

    Attributes:
        rows: how many it has.
        feature: as given.

    Raises:
        DataError: it cannot be opened, or its header is wrong.
    """

    def __init__(self, feature: Feature, stored: np.dtype[Any]) -> None:
        assert feature.file is not None
        self.feature = feature
        self._stored = stored
        self._file = DataFile(feature.file, _WHAT, feature.where)
        try:
            self.rows, self._first = self._read_header()
        except BaseException:
            self.close()
            raise

    def _read_header(self) -> tuple[int, int]:
        file = self._file
        if not file.has(0, size=_HEADER.size):
            raise file.wrong(file.size, "the file ends before its header")
        rows, dim, _ = _HEADER.unpack(file.read(0, _HEADER.size))
        if rows < 0 or not file.has(_HEADER.size, size=rows * _OFFSET):
            text = f"the header promises {rows} rows, and the file has no room for them"
            raise file.wrong(0, text, "Is it a file for DSSMReader?")
        if dim > self.feature.dim:
            text = f"stream '{self.feature.name}' has dim={self.feature.dim}, but {dim} in '{file.name}'"
            raise ConfigError(text, where=self.feature.where, hint=f"Set dim={dim}, and change the input.")
        return rows, _HEADER.size + rows * _OFFSET

    def load(self, begin: int, end: int, dtype: np.dtype[Any]) -> Column:
        """Return some of the rows. Raises DataError if they are damaged."""
        rows = SparseRows(self._file, self.feature.name, self.feature.dim, self._stored)
        table = self._file.read(_HEADER.size + begin * _OFFSET, (end - begin) * _OFFSET)
        taken = 0
        for number, offset in enumerate(np.frombuffer(table, dtype="<i8").tolist(), start=begin):
            first = self._first + offset
            at = _HEADER.size + number * _OFFSET
            if not self._first <= first < self._file.size:
                raise self._file.wrong(at, f"row {number} cannot begin at byte {first}")
            taken += rows.add(first) - first
            if taken > self._file.size:  # otherwise a small file could ask for any memory
                raise self._file.wrong(at, "rows of the file overlap")
        return Column(rows.matrix(dtype))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __str__(self) -> str:
        return self._file.name


class PairSource(ChunkSource):
    """The chunks of files whose rows belong together.

    Args:
        files: all with the same number of rows.
        streams: those of the files, and that of the label.
        rows: of a chunk.
        dtype: precision of the values.
    """

    def __init__(
        self, files: Sequence[RowFile], streams: Sequence[StreamInfo], rows: int, dtype: np.dtype[Any]
    ) -> None:
        self._files = files
        self._streams = streams
        self._rows = rows
        self._dtype = dtype

    def __str__(self) -> str:
        return str(self._files[0])

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold; the header has said it."""
        count = self._files[0].rows
        sizes = [min(self._rows, count - begin) for begin in range(0, count, self._rows)]
        return [ChunkInfo(size, size) for size in sizes]

    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError if it is damaged."""
        begin = chunk * self._rows
        end = min(begin + self._rows, self._files[0].rows)
        *features, label = self._streams
        pairs = zip(self._files, features, strict=True)
        columns = {info.name: file.load(begin, end, self._dtype) for file, info in pairs}
        first = np.zeros((end - begin, math.prod(label.shape)), dtype=self._dtype)
        first[:, 0] = 1
        columns[label.name] = Column(first.reshape(-1, *label.shape))
        return Chunk(columns)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


class DSSMReader(ChunkedReader):
    """Reads queries and documents that belong together."""

    options: ClassVar[type] = DSSMOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: DSSMOptions, context: ReaderContext) -> None:
        errors: list[CntkError] = []
        streams: list[StreamInfo] = []
        for one in options.features:
            found = collect(lambda one=one: input_of(context, one.name, one.dim, one.where, "dim"), errors)
            if found is not None:
                name, shape = found
                streams.append(StreamInfo(name, shape, sparse=True))
        label = collect(lambda: _label(options.label, context), errors)
        raise_problems(errors)
        assert label is not None
        files: list[RowFile] = []
        try:
            for one in options.features:
                files.append(RowFile(one, stored_type(options.precision, context.dtype)))
            _check_rows(files)
        except BaseException:
            for file in files:
                file.close()
            raise
        streams.append(label)
        source = PairSource(files, streams, options.chunk_size_in_rows, context.dtype)
        super().__init__(options, context, source=source, streams=tuple(streams), window=Window())

    @classmethod
    def configure(cls, block: Config, what: str) -> DSSMOptions:
        """Read the reader's block and the blocks of its streams. Raises all errors together."""
        errors: list[CntkError] = []
        names = block.block_names()
        keys = collect(lambda: block.bind(DSSMKeys, ignore=(*names, "file"), what=what), errors)
        features, labels = read_blocks(block, what, names, errors)
        for feature in features:
            if feature.file is None:
                text = f"stream '{feature.name}' of {what} has no file"
                errors.append(ConfigError(text, where=feature.where, hint=f"{feature.name}=[ file=... ; dim=... ]"))
        if not errors and (len(features) < 2 or len(labels) != 1):
            text = f"{what} needs two blocks of features, query and document, and one of labels"
            hint = "query=[ file=... ; dim=... ] ; document=[ file=... ; dim=... ] ; labels=[ labelDim=... ]"
            errors.append(ConfigError(text, where=block.where, hint=hint))
        raise_problems(errors)
        assert keys is not None
        return DSSMOptions(**attrs.asdict(keys, recurse=False), features=tuple(features), label=labels[0])


def _label(label: Label, context: ReaderContext) -> StreamInfo:
    """Return the stream of the label: as large as the network's input, or as the recipe says."""
    name, shape = ChunkedReader.find_input(context, label.name)
    return StreamInfo(name, shape or (label.dim or 1,))


def _check_rows(files: Sequence[RowFile]) -> None:
    """Raise if the files cannot belong together."""
    first = files[0]
    for other in files[1:]:
        if other.rows != first.rows:
            raise ConfigError(
                f"'{other}' has {other.rows} rows, '{first}' {first.rows}",
                where=other.feature.where,
                hint="Each row of one file belongs to the row of the other that has its number.",
            )
