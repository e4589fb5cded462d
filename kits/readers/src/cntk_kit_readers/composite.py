"""Several sources of the same sequences, joined by sequence key.

The first source says which sequences there are and in which order and chunks they come. The others may have them in
any order, and more of them. A sequence that another source lacks is left out; so is one whose streams have different
lengths where they have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.reader import CACHE_BYTES
from cntk_core.errors import DataError
from cntk_core.records.layout import IntArray
from cntk_kit_readers.makers import RowMaker
from cntk_kit_readers.source import Chunk, ChunkCache, ChunkInfo, ChunkSource, Column

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Key = int | str

_MOST_DIGITS = 1000
"""Digits of a key that is a number: Python refuses to convert many more."""
_SHOWN = 5
"""Sequences that are named when some are left out."""


@attrs.frozen(eq=False)
class Part:
    """One source of a composite.

    Attributes:
        source: the data; it must have keys.
        streams: the names of its streams.
        expand: its sequences have one frame, which is repeated as long as those of the first source are.
        counts: its samples are counted, and not those of the longest stream.
    """

    source: ChunkSource
    streams: tuple[str, ...]
    expand: bool = False
    counts: bool = False

    @property
    def title(self) -> str:
        """``stream 'features'``, for messages."""
        names = " and ".join(f"'{name}'" for name in self.streams)
        return f"stream{'s' if len(self.streams) > 1 else ''} {names}"


@attrs.frozen(eq=False)
class _Places:
    """Where the sequences of a part are: by key, a number; by number, chunk, place in it, and length."""

    numbers: Mapping[Key, int]
    chunks: IntArray
    sequences: IntArray
    lengths: IntArray


class CompositeSource(ChunkSource):
    """Joins sources.

    Args:
        parts: the sources; the first one gives the order.
        numeric_keys: keys are numbers; else they are compared as text.
        equal_lengths: all streams of a sequence must have equally many frames.
        drop: leave out a sequence that does not fit together; else it is an error. A missing one is always left out.
        warn: function for warnings, one line each.
        cache_bytes: parsed data that is kept of each source whose sequences cannot be read alone.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        numeric_keys: bool = False,
        equal_lengths: bool = False,
        drop: bool = True,
        warn: Callable[[str], None] | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._parts = tuple(parts)
        self._numeric = numeric_keys
        self._equal = equal_lengths
        self._drop = drop
        self._warn = warn or _say_nothing
        self._caches = [ChunkCache(part.source, cache_bytes) for part in parts]
        self._index: list[ChunkInfo] = []
        self._kept: list[IntArray | None] = []
        self._own_chunks: list[int] = []
        self._places: list[_Places] = []

    def __str__(self) -> str:
        return str(self._parts[0].source)

    @property
    def single_sequences(self) -> bool:
        """As the first source."""
        return self._parts[0].source.single_sequences

    @property
    def reads_picks(self) -> bool:
        """As the first source."""
        return self._parts[0].source.reads_picks

    @property
    def makers(self) -> Mapping[str, RowMaker]:
        """Those of all sources."""
        return {name: maker for part in self._parts for name, maker in part.source.makers.items()}

    # -- index --------------------------------------------------------------------------------------------

    def read_in_order(self, chunk_bytes: int) -> None:
        """Have all sources cut their files into smaller chunks; the order is that of the first one's sequences."""
        for part in self._parts:
            part.source.read_in_order(chunk_bytes)

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold.

        Raises:
            DataError: the sources have no sequence in common; a key is no number; lengths differ and ``drop`` is off.
        """
        if not self._index:
            self._places = [self._find_places(part) for part in self._parts[1:]]
            misfits = _Misfits(self._parts)
            if self.single_sequences:
                self._add_single_sequences(misfits)
            else:
                for number, info in enumerate(self._parts[0].source.index()):
                    self._add_chunk(number, info, misfits)
            self._report(misfits)
        return self._index

    def _find_places(self, part: Part) -> _Places:
        numbers: dict[Key, int] = {}
        chunks, sequences, lengths = [], [], []
        for chunk, info in enumerate(part.source.index()):
            for key in self._keys_of(part, chunk, info):
                if key in numbers:
                    raise DataError(f"{part.title}: the key '{key}' occurs twice in {part.source}")
                numbers[key] = len(numbers)
            chunks.append(np.full(info.sequences, chunk))
            sequences.append(np.arange(info.sequences))
            lengths.append(info.sample_counts())
        nothing = [np.zeros(0, dtype=np.int64)]
        return _Places(
            numbers,
            np.concatenate(chunks or nothing),
            np.concatenate(sequences or nothing),
            np.concatenate(lengths or nothing),
        )

    def _keys_of(self, part: Part, chunk: int, info: ChunkInfo) -> list[Key]:
        keys = part.source.keys(chunk)
        if len(keys) != info.sequences:
            raise DataError(
                f"{part.title}: {part.source} has no sequence keys, so it cannot be joined with others",
                hint="Give each sequence an id in the file.",
            )
        plain = keys.tolist() if isinstance(keys, np.ndarray) else keys
        if not self._numeric:
            return [str(key) for key in plain]
        return [_number(key, part) for key in plain]

    def _add_chunk(self, number: int, info: ChunkInfo, misfits: _Misfits) -> None:
        keys = self._keys_of(self._parts[0], number, info)
        keep, samples = self._match(keys, info.sample_counts(), misfits)
        if not keep.any():
            return
        samples = samples[keep]
        total = int(samples.sum())
        self._own_chunks.append(number)
        self._kept.append(None if keep.all() else np.flatnonzero(keep))
        self._index.append(ChunkInfo(len(samples), total, None if (samples == 1).all() else samples))

    def _add_single_sequences(self, misfits: _Misfits) -> None:
        """Add all chunks where each is one sequence."""
        infos = self._parts[0].source.index()
        keys = [key for number, info in enumerate(infos) for key in self._keys_of(self._parts[0], number, info)]
        keep, samples = self._match(keys, np.array([info.samples for info in infos], dtype=np.int64), misfits)
        self._own_chunks = np.flatnonzero(keep).tolist()
        self._kept = [None] * len(self._own_chunks)
        single = ChunkInfo(1, 1)
        counts = samples[keep].tolist()
        self._index = [single if n == 1 else ChunkInfo(1, n, np.array([n], dtype=np.int64)) for n in counts]

    def _match(self, keys: list[Key], own: IntArray, misfits: _Misfits) -> tuple[NDArray[np.bool_], IntArray]:
        """Return which sequences of the first source all others have, too, and the samples of each."""
        keep = np.ones(len(keys), dtype=bool)
        samples = own.copy()
        counted = any(part.counts for part in self._parts)
        for part, places in zip(self._parts[1:], self._places, strict=True):
            found = np.array([places.numbers.get(key, -1) for key in keys], dtype=np.int64)
            lengths = np.where(found >= 0, places.lengths[found] if len(places.lengths) else 0, 0)
            wanted = np.ones_like(own) if part.expand else own
            wrong = (found >= 0) & (lengths != wanted) & (self._equal or part.expand)
            for i in np.flatnonzero(keep & ((found < 0) | wrong)).tolist():
                misfits.add(keys[i], part, int(wanted[i]), int(lengths[i]) if found[i] >= 0 else None)
            keep &= (found >= 0) & ~wrong
            if part.counts:
                samples = lengths
            elif not (part.expand or counted):
                samples = np.maximum(samples, lengths)
        return keep, samples

    def _report(self, misfits: _Misfits) -> None:
        if misfits.wrong and not self._drop:
            raise DataError(misfits.lines[misfits.first_wrong], hint="checkData=true leaves such sequences out.")
        if not self._index:
            if not misfits.lines:
                raise DataError(f"{self} has no sequences")
            raise DataError(
                f"no sequence is in all streams: {misfits.lines[0]}",
                hint="The keys have to be the same in all files; without folders and extensions where those differ.",
            )
        for line in misfits.lines[:_SHOWN]:
            self._warn(f"WARNING: left out: {line}")
        if misfits.count > _SHOWN:
            self._warn(f"WARNING: {misfits.count} sequences of {self} are left out in all")

    # -- data ---------------------------------------------------------------------------------------------

    def keys(self, chunk: int) -> Sequence[Key]:
        """Return the keys of a chunk's sequences."""
        self.index()
        own = self._own_chunks[chunk]
        keys = self._keys_of(self._parts[0], own, self._parts[0].source.index()[own])
        kept = self._kept[chunk]
        return keys if kept is None else [keys[i] for i in kept.tolist()]

    def load(self, chunk: int) -> Chunk:
        """Read a chunk of the first source and the same sequences of the others."""
        keys = self.keys(chunk)
        kept = self._kept[chunk]
        columns = dict(self._parts[0].source.load(self._own_chunks[chunk]).columns)
        if kept is not None:
            columns = {name: column.select(kept) for name, column in columns.items()}
        return self._with_others(columns, keys)

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk | None:
        """Read some sequences alone, if that is how the first source reads."""
        if not self.reads_picks:
            return None
        places = list(zip(chunks.tolist(), sequences.tolist(), strict=True))
        keys = [self.keys(chunk)[sequence] for chunk, sequence in places]
        own = np.array([self._own_chunks[chunk] for chunk, _ in places], dtype=np.int64)
        within = [(self._kept[chunk], sequence) for chunk, sequence in places]
        inside = [sequence if kept is None else int(kept[sequence]) for kept, sequence in within]
        picked = self._parts[0].source.pick(own, np.array(inside, dtype=np.int64))
        assert picked is not None, "a source that reads picks has them"
        return self._with_others(dict(picked.columns), keys)

    def _with_others(self, columns: dict[str, Column], keys: Sequence[Key]) -> Chunk:
        """Read the sequences that some of the first source have in the others."""
        lengths = next(iter(columns.values())).lengths(np.arange(len(keys)))
        for part, places, cache in zip(self._parts[1:], self._places, self._caches[1:], strict=True):
            numbers = np.array([places.numbers[key] for key in keys], dtype=np.int64)
            chunks, sequences = places.chunks[numbers], places.sequences[numbers]
            picked = part.source.pick(chunks, sequences)
            found = _pick(cache, chunks, sequences) if picked is None else picked.columns
            columns |= {name: _expand(column, lengths) for name, column in found.items()} if part.expand else found
        return Chunk(columns, keys)

    def close(self) -> None:
        """Close the sources."""
        for cache, part in zip(self._caches, self._parts, strict=True):
            cache.clear()
            part.source.close()


class FrameSource(ChunkSource):
    """Every frame of a source of sequences as a sequence of its own; all streams must have equally many frames."""

    def __init__(self, source: ChunkSource) -> None:
        self._source = source
        self._single_frames: bool | None = None

    def __str__(self) -> str:
        return str(self._source)

    def read_in_order(self, chunk_bytes: int) -> None:
        """Have the source cut its files into smaller chunks."""
        self._source.read_in_order(chunk_bytes)

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold."""
        return [ChunkInfo(info.samples, info.samples) for info in self._source.index()]

    @property
    def reads_picks(self) -> bool:
        """Whether the source reads so and every sequence has one frame."""
        if self._single_frames is None:
            self._single_frames = all(info.lengths is None for info in self._source.index())
        return self._source.reads_picks and self._single_frames

    @property
    def makers(self) -> Mapping[str, RowMaker]:
        """Those of the source."""
        return self._source.makers

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk | None:
        """Read some frames alone, if the source can."""
        picked = self._source.pick(chunks, sequences) if self.reads_picks else None
        return None if picked is None else Chunk(picked.columns)

    def load(self, chunk: int) -> Chunk:
        """Read a chunk."""
        columns = self._source.load(chunk).columns
        return Chunk({name: Column(column.data, None, column.frame_rows()) for name, column in columns.items()})

    def close(self) -> None:
        """Close the source."""
        self._source.close()


class _Misfits:
    """What is left out, and why."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._first = parts[0]
        self.count = self.wrong = self.first_wrong = 0
        self.lines: list[str] = []

    def add(self, key: Key, part: Part, wanted: int, found: int | None) -> None:
        """Note a sequence; ``found`` is its length in ``part``, None if it is not there."""
        self.count += 1
        if found is not None and not self.wrong:
            self.first_wrong = len(self.lines)
            self.lines.append(self._line(key, part, wanted, found))
        elif len(self.lines) <= _SHOWN:
            self.lines.append(self._line(key, part, wanted, found))
        self.wrong += found is not None

    def _line(self, key: Key, part: Part, wanted: int, found: int | None) -> str:
        if found is None:
            return f"sequence '{key}' of {self._first.title} is not in {part.title} ({part.source})"
        if part.expand:
            return f"sequence '{key}' of {part.title}, which is expanded, has {found} frames, not 1 ({part.source})"
        return f"sequence '{key}' has {wanted} frames in {self._first.title}, but {found} in {part.title}"


def _say_nothing(line: str) -> None:
    """Drop a warning."""


def _number(key: Any, part: Part) -> int:
    text = str(key)
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise DataError(
            f"{part.title}: the key '{text[:_MOST_DIGITS]}' in {part.source} is no number",
            hint="useNumericSequenceKeys=true (also where a text format file is read) needs numbers as keys.",
        )
    return int(text)


def _expand(column: Column, lengths: IntArray) -> Column:
    """Repeat the only frame of each sequence."""
    rows = np.repeat(column.first_rows(np.arange(len(lengths))), lengths)
    return Column(column.data[rows], np.concatenate([[0], np.cumsum(lengths)]))


def _pick(cache: ChunkCache, chunks: IntArray, sequences: IntArray) -> dict[str, Column]:
    """Gather sequences out of whole chunks."""
    numbers = sorted(set(chunks.tolist()))
    parts: list[Chunk] = []
    back = np.empty(len(chunks), dtype=np.int64)
    done = 0
    for number in numbers:
        here = np.flatnonzero(chunks == number)
        back[here] = np.arange(done, done + len(here))
        done += len(here)
        columns = cache.get(number).columns
        parts.append(Chunk({name: _copy(column.select(sequences[here])) for name, column in columns.items()}))
    return {name: _join([part.columns[name] for part in parts]).select(back) for name in parts[0].columns}


def _copy(column: Column) -> Column:
    """Copy the frames, so that they lie end to end."""
    rows = column.frame_rows()
    return column if rows is None else Column(column.data[rows], column.offsets)


def _join(columns: Sequence[Column]) -> Column:
    """Put columns without gaps one after the other."""
    if len(columns) == 1:
        return columns[0]
    counts = np.concatenate(list(_counts(columns)))
    return Column(_stack([column.data for column in columns]), np.concatenate([[0], np.cumsum(counts)]))


def _counts(columns: Sequence[Column]) -> Iterator[IntArray]:
    for column in columns:
        if column.offsets is None:
            yield np.ones(column.data.shape[0], dtype=np.int64)
        else:
            yield np.diff(column.offsets)


def _stack(data: Sequence[Any]) -> Any | csr_array:
    if all(isinstance(part, np.ndarray) for part in data):
        return np.concatenate(data)
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack(data, format="csr"))
