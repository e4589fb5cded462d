"""MinibatchSource: minibatches of any size, out of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import finalize

import numpy as np

from cntk._graph.errors import told
from cntk._members.data import LibrarySource
from cntk.io._config import MinibatchSourceConfig
from cntk.io._cut import CutData, CutTimeline
from cntk.io._data import MinibatchData
from cntk.io._streams import (
    DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
    FULL_DATA_SWEEP,
    INFINITELY_REPEAT,
    StreamInformation,
)
from cntk.io._user import UserDeserializer, open_user_reader
from cntk.logging import TraceLevel
from cntk.variables import Record
from cntk_core.api.readers import ChunkedReader, Endless

POSITION = "minibatchSourcePosition"
_HIDDEN = "_ignore_labels_"


class MinibatchSource(LibrarySource):
    """Reads minibatches.

    Args:
        deserializers: what is read: one deserializer, or several whose sequences are joined by their ids.
        max_samples: the source ends after so many; :data:`FULL_DATA_SWEEP`: after one sweep.
        max_sweeps: the source ends after so many.
        randomization_window_in_chunks, randomization_window_in_samples: how far the random order moves a sequence; one
            of the two. 0 and 0: the order of the files.
        randomization_seed: another seed gives another order.
        trace_level: how much is told.
        multithreaded_deserializer: accepted.
        frame_mode: each frame is a sequence of its own.
        truncation_length: sequences are cut into pieces of so many frames, which go on from minibatch to minibatch;
            so many lie side by side as have room in the first minibatch. 0: they are whole.
        randomize: False: the order of the files.
        max_errors: malformed sequences that are left out.

    Raises:
        ValueError: settings exclude each other, or files are missing or wrong.
    """

    def __init__(
        self,
        deserializers: Any,
        max_samples: int = INFINITELY_REPEAT,
        max_sweeps: int = INFINITELY_REPEAT,
        randomization_window_in_chunks: int = DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
        randomization_window_in_samples: int = 0,
        randomization_seed: int = 0,
        trace_level: TraceLevel | int = TraceLevel.Warning,
        multithreaded_deserializer: bool | None = None,
        frame_mode: bool = False,
        truncation_length: int = 0,
        randomize: bool = True,
        max_errors: int = 0,
    ) -> None:
        given = list(deserializers) if isinstance(deserializers, list | tuple) else [deserializers]
        config = MinibatchSourceConfig([each for each in given if not isinstance(each, UserDeserializer)])
        config.max_samples = INFINITELY_REPEAT if max_samples == FULL_DATA_SWEEP else max_samples
        config.max_sweeps = max_sweeps
        config.randomization_window_in_chunks = randomization_window_in_chunks if randomize else 0
        config.randomization_window_in_samples = randomization_window_in_samples if randomize else 0
        config.randomization_seed = randomization_seed
        config.trace_level = trace_level.value if isinstance(trace_level, TraceLevel) else trace_level
        config.is_frame_mode_enabled = frame_mode
        config.truncation_length = truncation_length
        config.max_errors = max_errors
        block = config.to_dictionary()
        self._reader = _opened(given, block)
        finalize(self, self._reader.close)
        self._streams = {info.name: info for info in _informations(self._reader) if not info.name.startswith(_HIDDEN)}
        sweeps, samples = _limit(1 if max_samples == FULL_DATA_SWEEP else max_sweeps), _limit(config.max_samples)
        self._endless: Endless | CutTimeline = (
            CutTimeline(self._reader, sweeps=sweeps, samples=samples)
            if truncation_length
            else Endless(self._reader, sweeps=sweeps, samples=samples)
        )

    def stream_infos(self) -> list[StreamInformation]:
        """Return its streams."""
        return list(self._streams.values())

    @property
    def streams(self) -> Record:
        """Its streams, by name."""
        return Record(**self._streams)

    def stream_info(self, name: str) -> StreamInformation:
        """Return a stream.

        Raises:
            RuntimeError: there is none of this name.
        """
        if name not in self._streams:
            raise RuntimeError(f"there is no stream '{name}'; there are {', '.join(self._streams)}")
        return self._streams[name]

    def __getitem__(self, name: str) -> StreamInformation:
        return self.stream_info(name)

    @property
    def is_distributed(self) -> bool:
        """Whether it reads a share alone: never by itself."""
        return False

    def is_infinite(self) -> bool:
        """Return whether it never ends."""
        return self._endless.is_endless

    def next_minibatch(
        self,
        minibatch_size_in_samples: int,
        input_map: Mapping[Any, StreamInformation] | None = None,
        device: Any = None,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> dict[Any, MinibatchData]:
        """Return the next sequences as far as they fit into a size, at least one. They may go over the end of a sweep.

        Args:
            minibatch_size_in_samples: samples of the longest stream, of all partitions.
            input_map: for each variable its stream; the data are returned by variable. By default they are by stream.
            device: is taken for compatibility.
            num_data_partitions, partition_index: so many read side by side; which of them this is.

        Returns:
            The data; nothing at the end.

        Raises:
            ValueError: the size is 0; the data cannot be read.
        """
        if minibatch_size_in_samples < 1:
            raise ValueError("a minibatch has at least one sample")
        with told():
            taken = self._endless.take(minibatch_size_in_samples, partition_index or 0, num_data_partitions or 1)
        if taken is None:
            return {}
        wanted = {info: info for info in self._streams.values()} if input_map is None else dict(input_map)
        return {key: self._data(info, taken) for key, info in wanted.items()}

    def _data(self, info: StreamInformation, taken: Any) -> MinibatchData:
        if isinstance(self._endless, CutTimeline):
            return CutData(taken.streams[info.name], info.sample_shape, sweep_end=self._endless.ends_sweep)
        nothing = np.zeros((0, *info.sample_shape), np.float32), np.zeros(0, np.int64)
        rows, lengths = taken.streams.get(info.name, nothing)
        return MinibatchData.of_rows(rows, lengths, info.sample_shape, sweep_end=taken.ends_sweep)

    def get_checkpoint_state(self) -> dict[str, int]:
        """Return where it is."""
        return {POSITION: self._endless.position}

    def restore_from_checkpoint(self, checkpoint: Mapping[str, int]) -> None:
        """Go to where :meth:`get_checkpoint_state` was called."""
        self._endless.position = int(checkpoint[POSITION])

    @property
    def current_position(self) -> dict[str, int]:
        """Where it is; may be set."""
        return self.get_checkpoint_state()

    @current_position.setter
    def current_position(self, position: Mapping[str, int]) -> None:
        self.restore_from_checkpoint(position)


def _limit(given: int) -> int | None:
    return None if given == INFINITELY_REPEAT else given


def _opened(given: Sequence[Any], block: dict[str, Any]) -> ChunkedReader:
    """Open the reader of deserializers.

    Raises:
        ValueError: one that is written in Python stands beside others; a file is missing or wrong.
    """
    from cntk.io._reading import open_reader

    users = [each for each in given if isinstance(each, UserDeserializer)]
    if not users:
        return open_reader(block)
    if len(given) > 1:
        raise ValueError("a deserializer that is written in Python cannot be joined with others")
    return open_user_reader(users[0], block)


def _informations(reader: ChunkedReader) -> list[StreamInformation]:
    return [
        StreamInformation(stream.name, number, "sparse" if stream.sparse else "dense", np.float32, stream.shape)
        for number, stream in enumerate(reader.streams)
    ]
