"""A reader of chunks: the part that all readers of files have in common."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from cntk_core.config import Config
from cntk_core.contract.reader import DataReader, EpochSpec, ReaderContext, StreamInfo
from cntk_core.errors import CntkError, DataError, UnsupportedError
from cntk_core.records.minibatch import Minibatch
from cntk_kit_readers.checking import check_chunks
from cntk_kit_readers.makers import made_minibatches
from cntk_kit_readers.packing import make_minibatch
from cntk_kit_readers.prefetch import Prefetcher
from cntk_kit_readers.randomize import FileOrder, RandomOrder, SweepOrder, Window
from cntk_kit_readers.reader_keys import READER_KEYS, ReaderKeys, read_reader_keys
from cntk_kit_readers.slots import SlotPlan, slot_minibatches
from cntk_kit_readers.source import ChunkCache, ChunkInfo, ChunkSource
from cntk_kit_readers.timeline import Picks, plan_epoch, without_learned

WINDOW_BYTES = 4 * 1024 * 1024 * 1024
"""Dense data that the random order moves within where a recipe does not say how far."""
PREFETCHED_SAMPLES = 8192
"""About how many samples are prepared ahead of time."""
PREFETCHED_BYTES = 256 * 1024 * 1024
"""About how many bytes of samples that are made for a minibatch (images) are prepared ahead of time."""

FIRST_BYTES = 2 * 1024 * 1024
"""Bytes of a chunk of data that are read in their order: the first minibatch waits for one of them."""

PlanSlots = Callable[[SweepOrder, EpochSpec], Iterator[SlotPlan]]
"""Plans the minibatches of an epoch piece by piece, over all ranks."""
MakeOrder = Callable[[Sequence[ChunkInfo], int, Window], SweepOrder]
"""Makes a random order of the sequences of chunks; its arguments are those of :class:`RandomOrder`."""


class ChunkedReader(DataReader):
    """Reads minibatches out of a :class:`ChunkSource`. A subclass makes the source and passes it on.

    Args:
        options, context: as of every reader.
        source: the data.
        streams: what the reader offers.
        window: how far the random order moves a sequence where the recipe does not say it; None is the order of the
            files.
        seed: seed of the random order; None, as for the next two and ``prefetch``, is what the recipe says: the keys
            of :class:`~cntk_kit_readers.reader_keys.ReaderKeys`.
        keep_in_memory: keep all chunks.
        cache_bytes: parsed data that is kept; the chunks of the current window are kept in any case.
        least_sequences: sequences that a minibatch of an epoch has at least, however small it is; the argument is the
            number of the epoch.
        slots: plans minibatches of pieces of sequences, as truncated training needs them.
        random_order: makes the random order, if there is a window.
        prefetch: prepare minibatches in a background thread.
    """

    general_keys: ClassVar[tuple[str, ...]] = READER_KEYS

    @classmethod
    def general_from(cls, block: Config, what: str) -> ReaderKeys | None:
        """Read the keys that every reader of chunks may be given, as far as its options do not have them."""
        return read_reader_keys(block, cls.options, what)

    def __init__(
        self,
        options: Any,
        context: ReaderContext,
        *,
        source: ChunkSource,
        streams: tuple[StreamInfo, ...],
        window: Window | None,
        seed: int | None = None,
        keep_in_memory: bool | None = None,
        cache_bytes: int | None = None,
        least_sequences: Callable[[int], int] | None = None,
        slots: PlanSlots | None = None,
        random_order: MakeOrder = RandomOrder,
        prefetch: bool | None = None,
    ) -> None:
        super().__init__(options, context)
        keys = options if isinstance(options, ReaderKeys) else context.general
        keys = keys if isinstance(keys, ReaderKeys) else ReaderKeys()
        if slots is not None and source.makers:
            name = next(iter(source.makers))
            raise UnsupportedError(
                f"the stream '{name}' has one sample for each sequence, which cannot be cut",
                hint="Leave truncated=true out.",
            )
        self._source = source
        self._streams = streams
        self._window = None if context.for_writing else keys.window_within(window)
        self._seed = keys.randomization_seed if seed is None else seed
        self._prefetch = keys.prefetch if prefetch is None else prefetch
        self._least_sequences = least_sequences
        self._slots = None if context.for_writing else slots
        self._random_order = random_order
        keep = keys.keep_data_in_memory if keep_in_memory is None else keep_in_memory
        limit = keys.cache_size_in_bytes if cache_bytes is None else cache_bytes
        self._cache = ChunkCache(source, None if keep else limit, lambda: self.order().open_chunks)
        self._order: SweepOrder | None = None
        self._lock = threading.Lock()
        self._running: list[tuple[weakref.ref[Prefetcher[Minibatch]], threading.Thread]] = []

    @staticmethod
    def find_input(context: ReaderContext, name: str) -> tuple[str, tuple[int, ...] | None]:
        """Return the network input that a stream feeds, as the network spells it, and its shape, None if there is none.

        Names compare without case.
        """
        for known, shape in context.inputs.items():
            if known.lower() == name.lower():
                return known, shape
        return name, None

    @staticmethod
    def sized_window(
        window: Window | None, streams: Sequence[StreamInfo], dtype: np.dtype[Any], made: Collection[str] = ()
    ) -> Window | None:
        """Return a window with a size.

        One without becomes one of as many samples as fit into ``WINDOW_BYTES``: memory stays bounded, and smaller data
        sets are shuffled as a whole. Streams that are made for each minibatch, ``made``, do not count.
        """
        if window is None or window.size is not None:
            return window
        kept = [stream for stream in streams if not stream.sparse and stream.name not in made]
        sample = sum(math.prod(stream.shape) for stream in kept) * dtype.itemsize
        return Window(max(WINDOW_BYTES // max(sample, 1), 1), in_samples=True)

    def over(self, source: ChunkSource, streams: tuple[StreamInfo, ...]) -> ChunkedReader:
        """Return a reader of another source in the order that this one would have for it, with the same pieces."""
        return ChunkedReader(
            self.settings,
            self.context,
            source=source,
            streams=streams,
            window=self._window,
            seed=self._seed,
            keep_in_memory=self._cache.limit is None,
            cache_bytes=self._cache.limit,
            least_sequences=self._least_sequences,
            slots=self._slots,
            random_order=self._random_order,
            prefetch=self._prefetch,
        )

    @property
    def expands(self) -> bool:
        """Whether, as a part of a composite, the one frame of each sequence is repeated for all."""
        return False

    @property
    def counts(self) -> bool:
        """Whether, as a part of a composite, its samples alone are counted."""
        return False

    @property
    def source(self) -> ChunkSource:
        """The data, for a reader that joins several."""
        return self._source

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """The streams that this reader offers."""
        return self._streams

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch; see :mod:`cntk_kit_readers.timeline` for which sequences they have."""
        if not self._prefetch:
            return self._read(epoch)
        depth = min(max(self._samples_ahead() // max(epoch.minibatch_size, 1), 2), 64)
        prefetcher = Prefetcher(lambda: self._read(epoch), depth)
        self._running = [entry for entry in self._running if entry[1].is_alive()]
        self._running.append((weakref.ref(prefetcher), prefetcher.thread))
        return prefetcher

    def _read(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        if self._slots is not None:
            plans = self._slots(self.order(), epoch)
            yield from slot_minibatches(plans, epoch, self._cache.get, self._streams, self.context.dtype)
            return
        least = 1 if self._least_sequences is None else self._least_sequences(epoch.epoch)
        learned, plan = without_learned(plan_epoch(self.order(), epoch, least), epoch.learned_samples)
        yield from (Minibatch({}, samples) for samples in learned)
        makers = self._source.makers
        yield from made_minibatches(plan, self._gather, makers) if makers else map(self._gather, plan)

    def gather(self, picks: Picks) -> Minibatch:
        """Make the minibatch of some sequences, in their order.

        Raises:
            DataError: they cannot be read.
        """
        makers = self._source.makers
        return next(iter(made_minibatches(iter([picks]), self._gather, makers))) if makers else self._gather(picks)

    def _gather(self, picks: Picks) -> Minibatch:
        """Make a minibatch; streams that are made have numbers."""
        if self._source.reads_picks and len(picks.sequences):
            chunk = self._source.pick(picks.chunks, picks.sequences)
            if chunk is not None:
                places = np.arange(len(picks.sequences))
                alone = Picks(np.zeros_like(places), places, picks.samples, picks.sweep)
                return make_minibatch(alone, lambda _: chunk, self._streams, self.context.dtype)
        return make_minibatch(picks, self._cache.get, self._streams, self.context.dtype)

    def _samples_ahead(self) -> int:
        """Return how many samples are prepared ahead of time."""
        makers = self._source.makers
        made = sum(math.prod(stream.shape) for stream in self._streams if stream.name in makers)
        return min(PREFETCHED_SAMPLES, PREFETCHED_BYTES // max(made * self.context.dtype.itemsize, 1))

    def order(self) -> SweepOrder:
        """Return the order of the sequences; reads the index of the data at the first call."""
        with self._lock:
            if self._order is None:
                if self._window is None:
                    self._source.read_in_order(FIRST_BYTES)
                index = self._source.index()
                order = (
                    FileOrder(index) if self._window is None else self._random_order(index, self._seed, self._window)
                )
                if order.samples == 0:
                    raise DataError(f"{self._source} has no samples")
                self._order = order
            return self._order

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the data: all chunks are loaded, and compared with what was declared.

        A source that raises several errors together (:func:`~cntk_core.errors.raise_problems`) has all of them told.
        """
        return check_chunks(self._source, self._streams)

    def close(self) -> None:
        """End threads and close files."""
        for reference, thread in self._running:
            prefetcher = reference()
            if prefetcher is not None:
                prefetcher.close()
            thread.join()
        self._running = []
        self._cache.clear()
        self._source.close()
