"""What a reader gives to the common machinery: chunks of sequences, and a cache of them.

A :class:`ChunkSource` cuts a data set into chunks. It knows the number of samples of every sequence without holding
the data, and loads one chunk at a time. Everything else (order, epochs, minibatches, ranks, prefetching) is common.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.reader import CACHE_BYTES
from cntk_core.records.layout import IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from cntk_kit_readers.makers import RowMaker

_SPARE = 2
"""A chunk that left the window may have sequences in the minibatch that is being made."""


@attrs.frozen(eq=False)
class Column:
    """The frames of one stream of one chunk.

    Attributes:
        data: ``(frames, *shape)``, or a sparse matrix ``(frames, dim)``. It may be a view whose rows overlap.
        offsets: sequence ``i`` has the rows ``offsets[i]`` to ``offsets[i + 1]``. None: one row for each sequence.
        rows: the first row of each sequence, where they do not lie end to end; ``offsets`` tells their lengths then.
    """

    data: NDArray[Any] | csr_array
    offsets: IntArray | None = None
    rows: IntArray | None = None

    @property
    def is_plain(self) -> bool:
        """True if sequence ``i`` is row ``i``."""
        return self.offsets is None and self.rows is None

    def first_rows(self, sequences: IntArray) -> IntArray:
        """Return the first row of each of some sequences."""
        if self.rows is not None:
            return self.rows[sequences]
        return sequences if self.offsets is None else self.offsets[sequences]

    def lengths(self, sequences: IntArray) -> IntArray:
        """Return the number of rows of each of some sequences."""
        if self.offsets is None:
            return np.ones(len(sequences), dtype=np.int64)
        return self.offsets[sequences + 1] - self.offsets[sequences]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        data = self.data
        if isinstance(data, np.ndarray):
            low, high = np.lib.array_utils.byte_bounds(data)
            size = high - low
        else:
            size = data.data.nbytes + data.indices.nbytes
        return size + sum(0 if array is None else array.nbytes for array in (self.offsets, self.rows))

    def select(self, sequences: IntArray) -> Column:
        """Return some of the sequences, in this order. The frames are not copied."""
        lengths = self.lengths(sequences)
        offsets = None if (lengths == 1).all() else np.concatenate([[0], np.cumsum(lengths)])
        return Column(self.data, offsets, self.first_rows(sequences))

    def frame_rows(self) -> IntArray | None:
        """Return the row of every frame of every sequence; None if that is every row in its order."""
        if self.rows is None:
            return None
        if self.offsets is None:
            return self.rows
        counts = np.diff(self.offsets)
        rows: IntArray = np.repeat(self.rows - self.offsets[:-1], counts) + np.arange(int(self.offsets[-1]))
        return rows


@attrs.frozen(eq=False)
class Chunk:
    """Some sequences of a data set, in memory.

    Attributes:
        columns: stream name to frames; every column has the same sequences.
        keys: the key of each sequence, or nothing.
    """

    columns: Mapping[str, Column]
    keys: Sequence[int | str] | IntArray = ()

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(column.nbytes for column in self.columns.values())


@attrs.frozen(eq=False)
class ChunkInfo:
    """What is known of a chunk without loading it.

    Attributes:
        sequences: how many.
        samples: how many samples they have together.
        lengths: samples of each sequence; None if every one has one sample.
    """

    sequences: int
    samples: int
    lengths: IntArray | None = None

    def sample_counts(self) -> IntArray:
        """Return the number of samples of each sequence."""
        return np.ones(self.sequences, dtype=np.int64) if self.lengths is None else self.lengths


class ChunkSource(ABC):
    """A data set in chunks. ``load`` may be called from any thread, one call at a time.

    Attributes:
        numeric_keys: its keys are numbers by their nature.
    """

    numeric_keys: ClassVar[bool] = False

    def __str__(self) -> str:
        """What messages call the data: usually the name of the file."""
        return "the data"

    @property
    def single_sequences(self) -> bool:
        """Whether each chunk is one sequence, so that the random order of the chunks is all that is needed."""
        return False

    @property
    def reads_picks(self) -> bool:
        """Whether sequences of many chunks are best read together, with :meth:`pick`."""
        return False

    @property
    def makers(self) -> Mapping[str, RowMaker]:
        """The streams whose chunks hold numbers, and what makes rows of these: see :mod:`cntk_kit_readers.makers`."""
        return {}

    @abstractmethod
    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold, in the order of the data. May read the data; called more than once."""

    def read_in_order(self, chunk_bytes: int) -> None:  # noqa: B027  # not every source can
        """Expect to be read in the order of the data; called before :meth:`index`, if at all.

        That order does not depend on the chunks, so that they may be as small as this: the first one is there sooner.
        """

    @abstractmethod
    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError."""

    @abstractmethod
    def close(self) -> None:
        """Close files. May be called more than once."""

    def keys(self, chunk: int) -> Sequence[int | str] | IntArray:
        """Return the key of each sequence of a chunk without loading it, nothing if the data has no keys.

        With keys a source can be joined with others: see :mod:`cntk_kit_readers.composite`.
        """
        return ()

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk | None:
        """Read some sequences alone, in this order. None: this source can load whole chunks only."""
        return None


class ChunkCache:
    """Loads chunks and keeps those that were used last.

    Args:
        source: where they come from.
        limit: bytes of the chunks that are kept; None is no limit.
        needed: returns the chunks that are kept although they have more bytes: those of the current window, since a
            random order comes back to each of them. The last two others are kept, too.

    Attributes:
        limit: as given.
    """

    def __init__(
        self,
        source: ChunkSource,
        limit: int | None = CACHE_BYTES,
        needed: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        self._source = source
        self.limit = limit
        self._needed = needed
        self._chunks: OrderedDict[int, Chunk] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, number: int) -> Chunk:
        """Return a chunk, from memory if it is there."""
        with self._lock:
            known = self._chunks.get(number)
            if known is not None:
                self._chunks.move_to_end(number)
                return known
            chunk = self._source.load(number)
            self._chunks[number] = chunk
            self._bytes += chunk.nbytes
            self._make_room()
            return chunk

    def _make_room(self) -> None:
        """Forget chunks that are not needed while there are too many bytes."""
        if self.limit is None or self._bytes <= self.limit:
            return
        needed = self._needed()
        others = [number for number in self._chunks if number not in needed]
        for number in others[:-_SPARE]:
            self._bytes -= self._chunks.pop(number).nbytes
            if self._bytes <= self.limit:
                return

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._chunks.clear()
            self._bytes = 0
