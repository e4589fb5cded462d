"""Sources in Python: whole minibatches, or chunks that are shuffled and put together here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cntk._members.data import LibrarySource
from cntk.io._data import MinibatchData
from cntk.io._streams import INFINITELY_REPEAT, StreamInformation
from cntk.variables import Record, Variable
from cntk_core.api import ReaderContext, StreamInfo
from cntk_core.api.readers import Chunk, ChunkedReader, ChunkInfo, ChunkSource, Column, ReaderKeys, Window


class UserMinibatchSource(LibrarySource):
    """A source in Python: a class of one's own overrides :meth:`stream_infos` and :meth:`next_minibatch`.

    Its ``__init__`` calls this one when :meth:`stream_infos` can answer.
    """

    def __init__(self) -> None:
        self.streams = Record(**{info.m_name: info for info in self.stream_infos()})

    def stream_infos(self) -> list[StreamInformation]:
        """Return its streams. Raises NotImplementedError: the class does not override it."""
        raise NotImplementedError(f"{type(self).__name__} does not say which streams it has: it has no stream_infos")

    def stream_info(self, name: str) -> StreamInformation:
        """Return a stream.

        Raises:
            RuntimeError: there is none of this name.
        """
        if name not in self.streams:
            raise RuntimeError(f"there is no stream '{name}'; there are {', '.join(self.streams)}")
        found: StreamInformation = self.streams[name]
        return found

    def __getitem__(self, name: str) -> StreamInformation:
        return self.stream_info(name)

    def next_minibatch(
        self, num_samples: int, number_of_workers: int = 1, worker_rank: int = 0, device: Any = None
    ) -> dict[StreamInformation, MinibatchData]:
        """Return the next minibatch by stream; nothing at the end.

        Args:
            num_samples: as many as it should have.
            number_of_workers, worker_rank: so many read side by side; which of them this is.
            device: is taken for compatibility.

        Raises:
            NotImplementedError: the class does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} gives no minibatches: it has no next_minibatch")

    def get_checkpoint_state(self) -> dict[str, Any]:
        """Return where it is, for :meth:`restore_from_checkpoint`; nothing by default."""
        return {}

    def restore_from_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Go to where a checkpoint was made.

        Raises:
            NotImplementedError: there is something to go to, and the class does not override it.
        """
        if state:
            raise NotImplementedError(f"{type(self).__name__} has a state, but no restore_from_checkpoint")

    def is_infinite(self) -> bool:
        """Return whether it never ends."""
        return False


class MinibatchSourceFromData(UserMinibatchSource):
    """A source of arrays.

    Args:
        data_streams: for each stream an array ``(samples, *shape)``, a CSR matrix, or a list with one of them for each
            sequence; or a pair of that and its type, such as ``Sequence[Tensor[3]]``.
        max_samples: the source ends after so many; by default never.

    Raises:
        ValueError: there is no stream, or no data.
        TypeError: other data; streams of different lengths.
    """

    def __init__(self, data_streams: Mapping[str, Any], max_samples: int = INFINITELY_REPEAT) -> None:
        if not data_streams:
            raise ValueError("a source of arrays has at least one stream: name=data or name=(data, type)")
        self._parts = {name: _Part(name, given) for name, given in data_streams.items()}
        counts = {part.count for part in self._parts.values()}
        if 0 in counts:
            raise ValueError("the data are empty")
        if len(counts) > 1:
            raise TypeError("all streams must have equally many samples, or sequences")
        (self._count,) = counts
        self._max_samples = max_samples
        self._cursor = self._seen = 0
        super().__init__()

    def stream_infos(self) -> list[StreamInformation]:
        """Return its streams."""
        return [part.information(number) for number, part in enumerate(self._parts.values())]

    def next_minibatch(
        self, num_samples: int, number_of_workers: int = 1, worker_rank: int = 0, device: Any = None
    ) -> dict[StreamInformation, MinibatchData]:
        """Return the next samples or sequences as far as they fit, up to the end of the data; then they begin again."""
        if self._seen >= self._max_samples:
            return {}
        begin, limit = self._cursor, min(num_samples, self._max_samples - self._seen)
        end, taken = begin, 0
        while end < self._count:
            more = max(part.length(end) for part in self._parts.values())
            if end > begin and taken + more > limit:
                break
            taken, end = taken + more, end + 1
        self._seen += taken
        at_end = end == self._count
        self._cursor = 0 if at_end else end
        sweep_end = at_end or self._seen >= self._max_samples
        mine = range(begin + worker_rank, end, number_of_workers)
        return {info: self._parts[info.name].data(mine, sweep_end) for info in self.streams.values()}

    def get_checkpoint_state(self) -> dict[str, int]:
        """Return where it is."""
        return {"cursor": self._cursor, "total_num_samples": self._seen}

    def restore_from_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Go to where :meth:`get_checkpoint_state` was called."""
        self._cursor, self._seen = int(checkpoint["cursor"]), int(checkpoint["total_num_samples"])

    def is_infinite(self) -> bool:
        """Return whether it never ends."""
        return self._max_samples == INFINITELY_REPEAT


class _Part:
    """The data of a stream.

    Raises:
        TypeError: they are no arrays.
        ValueError: what stands beside them is no type.
    """

    def __init__(self, name: str, given: Any) -> None:
        self.name = name
        data, kind = given if isinstance(given, tuple) else (given, None)
        kind = Variable._Type._sanitize(kind)
        if kind is not None and not isinstance(kind, Variable._Type):
            raise ValueError(f"beside the data of '{name}' stands their type, such as Tensor[13], not {kind!r}")
        said = {} if kind is None else dict(kind)
        self.sequences = len(said.get("dynamic_axes") or ()) > 1
        data = data.asarray() if hasattr(data, "asarray") and not hasattr(data, "nnz") else data
        first = data[0] if isinstance(data, list) and data else data
        self.sparse = hasattr(first, "nnz")
        if not self.sparse and not isinstance(first, np.ndarray):
            raise TypeError(f"the data of '{name}' are arrays of NumPy or CSR matrices, or a list of those")
        self.items = data
        self.count = len(data) if isinstance(data, list) else int(data.shape[0])
        self.shape = tuple(first.shape[1:]) if self.sequences or not isinstance(data, list) else tuple(first.shape)
        self.dtype = said.get("dtype") or first.dtype.type

    def length(self, number: int) -> int:
        """Return the samples of a sequence."""
        return int(self.items[number].shape[0]) if self.sequences else 1

    def information(self, number: int) -> StreamInformation:
        """Return the stream."""
        return StreamInformation(self.name, number, "sparse" if self.sparse else "dense", self.dtype, self.shape)

    def data(self, chosen: range, sweep_end: bool) -> MinibatchData:
        """Return some of the samples or sequences."""
        if isinstance(self.items, list):
            picked = [self.items[number] for number in chosen]
            lengths = np.array([each.shape[0] if self.sequences else 1 for each in picked], np.int64)
            rows = _joined(picked) if self.sequences or self.sparse else np.stack(picked)
        else:
            rows = self.items[chosen.start : chosen.stop : chosen.step]
            lengths = np.ones(rows.shape[0], np.int64)
        single = not self.sequences
        return MinibatchData.of_rows(rows, lengths, self.shape, sweep_end=sweep_end, single=single)


def _joined(arrays: Sequence[Any]) -> Any:
    if all(isinstance(each, np.ndarray) for each in arrays):
        return np.concatenate(arrays)
    from scipy.sparse import vstack

    return vstack(arrays, format="csr")


class UserDeserializer:
    """A deserializer in Python: a class of one's own says which streams and chunks there are."""

    def stream_infos(self) -> list[StreamInformation]:
        """Return the streams. Raises NotImplementedError: the class does not override it."""
        raise NotImplementedError(f"{type(self).__name__} does not say which streams it has: it has no stream_infos")

    def num_chunks(self) -> int:
        """Return how many chunks there are. Raises NotImplementedError: the class does not override it."""
        raise NotImplementedError(f"{type(self).__name__} does not say how many chunks it has: it has no num_chunks")

    def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
        """Return a chunk: for each stream an array or CSR matrix of samples, or a list with one for each sequence.

        Raises:
            NotImplementedError: the class does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} gives no data: it has no get_chunk")


class _UserChunks(ChunkSource):
    """The chunks of a deserializer in Python."""

    def __init__(self, user: UserDeserializer) -> None:
        self._user = user
        self._index: list[ChunkInfo] = []

    def __str__(self) -> str:
        return type(self._user).__name__

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold: each is asked for once."""
        if not self._index:
            self._index = [self._counted(number) for number in range(self._user.num_chunks())]
        return self._index

    def _counted(self, number: int) -> ChunkInfo:
        columns = self.load(number).columns.values()
        count = min(_count(column) for column in columns)
        every = np.arange(count)
        lengths = np.max([column.lengths(every) for column in columns], axis=0)
        return ChunkInfo(count, int(lengths.sum()), None if (lengths == 1).all() else lengths)

    def load(self, chunk: int) -> Chunk:
        """Ask for a chunk."""
        return Chunk({name: _column(data) for name, data in self._user.get_chunk(chunk).items()})

    def close(self) -> None:
        """Nothing is open."""


def _count(column: Column) -> int:
    return int(column.data.shape[0]) if column.offsets is None else len(column.offsets) - 1


def _column(data: Any) -> Column:
    """Return the sequences of a stream: rows of an array, or a list of them."""
    if not isinstance(data, list):
        return Column(data.tocsr() if hasattr(data, "tocsr") else np.asarray(data))
    parts = [each if hasattr(each, "nnz") else np.atleast_2d(np.asarray(each)) for each in data]
    offsets = np.concatenate([[0], np.cumsum([each.shape[0] for each in parts])]).astype(np.int64)
    return Column(_joined(parts), offsets)


def open_user_reader(user: UserDeserializer, block: Mapping[str, Any]) -> ChunkedReader:
    """Return the reader of a deserializer in Python.

    Args:
        user: the deserializer.
        block: the settings of the source, as a recipe has them.

    Raises:
        ValueError: it has no streams, or no chunks.
    """
    infos = user.stream_infos()
    if not infos:
        raise ValueError(f"{type(user).__name__} has no streams")
    if user.num_chunks() < 1:
        raise ValueError(f"{type(user).__name__} has no chunks")
    streams = tuple(StreamInfo(each.m_name, each.sample_shape, each.is_sparse, True) for each in infos)
    window = (
        Window(block["randomizationWindow"], block["sampleBasedRandomizationWindow"]) if block["randomize"] else None
    )
    keys = ReaderKeys(
        randomize="true" if block["randomize"] else "false", randomization_seed=block.get("randomizationSeed", 0)
    )
    return ChunkedReader(keys, ReaderContext(), source=_UserChunks(user), streams=streams, window=window)
