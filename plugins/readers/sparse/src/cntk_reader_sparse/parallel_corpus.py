"""SparsePCReader: rows of a parallel corpus, one after the other.

A row of the file has for each stream of features a sparse row (:mod:`.rows`), then its label, a single value, then
a number of 4 bytes that the recipe knows (``verificationCode``), if it is not 0. There is no header, and the file does
not name its streams: they stand in the reverse order of their names in the alphabet, as the original takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    ReaderContext,
    StreamInfo,
    at_least,
    collect,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import Chunk, ChunkedReader, ChunkInfo, ChunkSource, Column, Window, in_precision
from cntk_reader_sparse.blocks import Feature, Label, SparseKeys, input_of, read_blocks
from cntk_reader_sparse.files import DataFile
from cntk_reader_sparse.rows import OTHER_PRECISION, SparseRows, stored_type

CHUNK_BYTES = 32 * 1024 * 1024
_WHAT = "SparsePCReader"


@options
class SparsePCKeys(SparseKeys):
    """The keys of the reader's block."""

    file: Path = option(doc="The file.")
    microbatch_size: int = option(default=1, doc="Rows that are one sequence.", validator=at_least(1))
    sparseness_factor: int = option(default=50, doc="Accepted; a row may have any values.", validator=at_least(1))
    max_read_data: int = option(
        default=0, doc="Rows that begin after so many bytes are not read; 0: all are.", validator=at_least(0)
    )
    return_dense: bool = option(default=False, doc="The features are dense.")
    gradient_check: bool = option(default=False, doc="As returnDense.")
    verification_code: int = option(default=0, doc="A number at the end of each row; 0: there is none.")
    chunk_size_in_bytes: int = option(default=CHUNK_BYTES, doc="Bytes that are read at once.", validator=at_least(1))


@options
class SparsePCOptions(SparsePCKeys):
    """Everything that a recipe says to the reader."""

    features: tuple[Feature, ...] = attrs.field()
    label: Label = attrs.field()
    where: Location | None = None


@attrs.frozen
class Piece:
    """A chunk in the file: its first byte, its rows."""

    begin: int
    rows: int


class CorpusSource(ChunkSource):
    """The chunks of a file; all its rows are gone through once, to know where they are.

    Args:
        file: opened.
        options: of the reader.
        features: the streams that the features feed, in the order of the file.
        label: name of the stream that the label feeds.
        dtype: precision of the values.
    """

    def __init__(
        self,
        file: DataFile,
        options: SparsePCOptions,
        features: Sequence[StreamInfo],
        label: str,
        dtype: np.dtype[Any],
    ) -> None:
        self._file = file
        self._options = options
        self._features = features
        self._label = label
        self._dtype = dtype
        self._stored = stored_type(options.precision, dtype)
        self._pieces: list[Piece] = []

    def __str__(self) -> str:
        return self._file.name

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Raises DataError if the file is damaged."""
        if not self._pieces:
            self._pieces = self._cut()
        size = self._options.microbatch_size
        lengths = [None if size == 1 else np.full(piece.rows // size, size) for piece in self._pieces]
        return [
            ChunkInfo(piece.rows // size, piece.rows, own) for piece, own in zip(self._pieces, lengths, strict=True)
        ]

    def _cut(self) -> list[Piece]:
        own, pieces = self._options, []
        end = own.max_read_data or self._file.size
        at = begin = rows = 0
        streams = self._streams()
        while at < min(end, self._file.size) or rows % own.microbatch_size:
            if at >= self._file.size:
                text = f"the last sequence has {rows % own.microbatch_size} rows, microbatchSize={own.microbatch_size}"
                raise self._file.wrong(at, text, "microbatchSize has to divide the number of rows.")
            for stream in streams:
                at = stream.end_of(at)
            at = self._after_label(at)
            rows += 1
            if at - begin >= own.chunk_size_in_bytes and rows % own.microbatch_size == 0:
                pieces.append(Piece(begin, rows))
                begin, rows = at, 0
        return [*pieces, Piece(begin, rows)] if rows else pieces

    def _streams(self) -> list[SparseRows]:
        given = zip(self._features, self._dims, strict=True)
        return [SparseRows(self._file, stream.name, dim, self._stored) for stream, dim in given]

    @property
    def _dims(self) -> list[int]:
        return [feature.dim for feature in self._options.features]

    def _after_label(self, at: int) -> int:
        """Return where the next row begins: after a label and the number that shows that all is well."""
        code = self._options.verification_code
        end = at + self._stored.itemsize
        if not self._file.has(at, size=self._stored.itemsize + (4 if code else 0)):
            raise self._file.wrong(min(at, self._file.size), "the file ends before the label of a row", OTHER_PRECISION)
        if not code:
            return end
        found = self._file.integer(end)
        if found != code:
            text = f"the row should end with verificationCode={code}, not {found}"
            raise self._file.wrong(end, text, OTHER_PRECISION)
        return end + 4

    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError if it is damaged."""
        self.index()
        piece, streams, labels = self._pieces[chunk], self._streams(), bytearray()
        at = piece.begin
        for _ in range(piece.rows):
            for stream in streams:
                at = stream.add(at)
            end = self._after_label(at)
            labels += self._file.read(at, self._stored.itemsize)
            at = end
        size = self._options.microbatch_size
        offsets = None if size == 1 else np.arange(0, piece.rows + 1, size)
        columns = {
            info.name: Column(self._rows(info, stream), offsets)
            for info, stream in zip(self._features, streams, strict=True)
        }
        try:
            values = in_precision(np.frombuffer(bytes(labels), dtype=self._stored), self._dtype)
        except OverflowError as error:
            raise self._file.wrong(piece.begin, f"stream '{self._label}': {error}", OTHER_PRECISION) from None
        columns[self._label] = Column(values.astype(self._dtype, copy=False).reshape(-1, 1), offsets)
        return Chunk(columns)

    def _rows(self, info: StreamInfo, stream: SparseRows) -> Any:
        found = stream.matrix(self._dtype)
        return found if info.sparse else found.toarray().reshape(-1, *info.shape)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class SparsePCReader(ChunkedReader):
    """Reads rows of a parallel corpus: sparse features of several streams, and a value."""

    options: ClassVar[type] = SparsePCOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: SparsePCOptions, context: ReaderContext) -> None:
        errors: list[CntkError] = []
        dense = options.return_dense or options.gradient_check
        features: list[StreamInfo] = []
        for one in options.features:
            found = collect(lambda one=one: input_of(context, one.name, one.dim, one.where, "dim"), errors)
            if found is not None:
                name, shape = found
                features.append(StreamInfo(name, shape, sparse=not dense, sequence=options.microbatch_size > 1))
        label = collect(lambda: input_of(context, options.label.name, 1, options.label.where, "labelDim"), errors)
        raise_problems(errors)
        assert label is not None
        labels = StreamInfo(label[0], (1,), sequence=options.microbatch_size > 1)
        file = DataFile(options.file, _WHAT, options.where)
        source = CorpusSource(file, options, features, labels.name, context.dtype)
        super().__init__(options, context, source=source, streams=(*features, labels), window=Window())

    @classmethod
    def configure(cls, block: Config, what: str) -> SparsePCOptions:
        """Read the reader's block and the blocks of its streams. Raises all errors together."""
        errors: list[CntkError] = []
        names = block.block_names()
        keys = collect(lambda: block.bind(SparsePCKeys, ignore=names, what=what), errors)
        features, labels = read_blocks(block, what, names, errors)
        if not errors and (not features or len(labels) != 1):
            text = f"{what} needs at least one block of features and one of labels"
            hint = "features=[ dim=... ] ; labels=[ labelDim=1 ]"
            errors.append(ConfigError(text, where=block.where, hint=hint))
        raise_problems(errors)
        assert keys is not None
        return SparsePCOptions(
            **attrs.asdict(keys, recurse=False),
            features=tuple(sorted(features, key=lambda feature: feature.name.lower(), reverse=True)),
            label=labels[0],
            where=block.location("file"),
        )
