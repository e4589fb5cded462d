"""Several sources whose sequences belong together by their place: the first of each, the second of each, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from cntk_core.contract.reader import CACHE_BYTES
from cntk_core.errors import DataError
from cntk_core.records.layout import IntArray
from cntk_kit_readers.composite import CompositeSource, Part
from cntk_kit_readers.makers import RowMaker
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource


class NumberedSource(ChunkSource):
    """A source whose keys are the numbers of its sequences, from 0."""

    numeric_keys: ClassVar[bool] = True

    def __init__(self, source: ChunkSource) -> None:
        self._source = source
        self._firsts: IntArray | None = None

    def __str__(self) -> str:
        return str(self._source)

    @property
    def single_sequences(self) -> bool:
        """As the source."""
        return self._source.single_sequences

    @property
    def reads_picks(self) -> bool:
        """As the source."""
        return self._source.reads_picks

    @property
    def makers(self) -> Mapping[str, RowMaker]:
        """Those of the source."""
        return self._source.makers

    def read_in_order(self, chunk_bytes: int) -> None:
        """Have the source cut its files into smaller chunks."""
        self._source.read_in_order(chunk_bytes)

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold."""
        return self._source.index()

    def load(self, chunk: int) -> Chunk:
        """Read a chunk."""
        return Chunk(self._source.load(chunk).columns, self.keys(chunk))

    def keys(self, chunk: int) -> IntArray:
        """Return the numbers of a chunk's sequences."""
        if self._firsts is None:
            self._firsts = np.cumsum([0, *(info.sequences for info in self.index())])
        return np.arange(self._firsts[chunk], self._firsts[chunk + 1])

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk | None:
        """Read some sequences alone, if the source can."""
        return self._source.pick(chunks, sequences)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


class ParallelSource(CompositeSource):
    """Joins sources by the place of their sequences; all must have equally many.

    Args:
        parts: the sources; the first one gives chunks and order.
        titles: what each is called in messages.
        cache_bytes: parsed data that is kept of each source whose sequences cannot be read alone.
    """

    def __init__(self, parts: Sequence[Part], titles: Sequence[str], cache_bytes: int = CACHE_BYTES) -> None:
        numbered = [Part(NumberedSource(part.source), part.streams, part.expand) for part in parts]
        super().__init__(numbered, numeric_keys=True, drop=False, cache_bytes=cache_bytes)
        self._titles = tuple(titles)
        self._sources = [part.source for part in numbered]
        self._checked = False

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Raises DataError if a source has more sequences than another."""
        if not self._checked:
            counts = [sum(info.sequences for info in source.index()) for source in self._sources]
            for title, source, count in zip(self._titles[1:], self._sources[1:], counts[1:], strict=True):
                if count != counts[0]:
                    raise DataError(
                        f"{self._titles[0]} has {counts[0]} sequences ({self._sources[0]}), but {title} has {count} "
                        f"({source})",
                        hint="Readers side by side need the same sequences in the same order; "
                        "deserializers=( ... ) joins data by key.",
                    )
            self._checked = True
        return super().index()
