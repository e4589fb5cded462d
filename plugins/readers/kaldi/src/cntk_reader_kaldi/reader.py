"""The reader: features and labels of Kaldi tables, matched by the keys of the utterances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import attrs

from cntk_core.api import (
    ChunkedReader,
    ChunkSource,
    CntkError,
    CompositeSource,
    Config,
    ConfigError,
    EpochSpec,
    FrameSource,
    Minibatch,
    Part,
    ReaderContext,
    StreamInfo,
    Truncation,
)
from cntk_reader_kaldi.options import FeatureOptions, KaldiReaderOptions, StreamOptions, read_options
from cntk_reader_kaldi.sources import TableSource
from cntk_reader_kaldi.streams import open_part, say_nothing


class Kaldi2Reader(ChunkedReader):
    """Reads features and labels of Kaldi tables. For the write action an utterance is a minibatch, in their order."""

    options: ClassVar[type] = KaldiReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: KaldiReaderOptions, context: ReaderContext) -> None:
        trace = context.trace if options.trace_level >= 1 and context.trace is not None else say_nothing
        frames = options.frame_mode and not context.for_writing
        longest = None if options.frame_mode else options.max_utterance_length
        with ExitStack() as stack:
            self._parts: list[Part] = []
            streams: list[StreamInfo] = []
            for stream in _in_order(options.streams, context):
                part, info = open_part(stream, context, trace, max_errors=options.max_errors, longest=longest)
                stack.callback(part.source.close)
                self._parts.append(part)
                streams.append(attrs.evolve(info, sequence=not frames))
            stack.pop_all()
        joined: ChunkSource = CompositeSource(
            self._parts,
            equal_lengths=True,
            drop=options.check_data,
            warn=trace,
            cache_bytes=options.cache_size_in_bytes,
        )
        counts = options.nbruttsineachrecurrentiter
        super().__init__(
            options,
            context,
            source=FrameSource(joined) if frames else joined,
            streams=tuple(streams),
            window=self.sized_window(options.window, streams, context.dtype),
            seed=options.randomization_seed,
            keep_in_memory=options.keep_data_in_memory,
            cache_bytes=options.cache_size_in_bytes,
            truncation=self._truncation if options.truncated else None,
            least_sequences=None if frames else counts.__getitem__,
            prefetch=options.prefetch,
        )

    def minibatch_factor(self, epoch: int) -> int:
        """Return the utterances side by side where ``minibatchSize`` is the length of a piece."""
        if not self.settings.truncated or self.settings.truncation_length:
            return 1
        return int(self.settings.nbruttsineachrecurrentiter[epoch])

    def _truncation(self, epoch: EpochSpec) -> Truncation:
        """Say how utterances are cut: without truncationLength, minibatchSize is the length of a piece."""
        if self.settings.truncation_length:
            return Truncation.of_size(epoch.minibatch_size, self.settings.truncation_length)
        return Truncation(epoch.minibatch_size, self.settings.nbruttsineachrecurrentiter[epoch.epoch])

    @classmethod
    def configure(cls, block: Config, what: str) -> KaldiReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch."""
        if self.context.for_writing:
            epoch = attrs.evolve(epoch, minibatch_size=1)
        return super().minibatches(epoch)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the tables."""
        for part in self._parts:
            if isinstance(part.source, TableSource):
                yield from part.source.check()


def _in_order(streams: Sequence[StreamOptions], context: ReaderContext) -> list[StreamOptions]:
    """Return the streams to read: first one of features that gives the order, and labels last.

    The write action reads what the network needs, so utterances without labels are written, too.
    """
    wanted: list[Any] = list(streams)
    if context.for_writing and context.inputs:
        needed = {name.lower() for name in context.inputs}
        wanted = [stream for stream in streams if stream.name.lower() in needed] or wanted
    features = [stream for stream in wanted if isinstance(stream, FeatureOptions)]
    labels = [stream for stream in wanted if not isinstance(stream, FeatureOptions)]
    ordered = [*sorted(features, key=lambda stream: stream.expand), *labels]
    if features and ordered[0].expand:
        raise ConfigError(
            f"stream '{ordered[0].name}' cannot be expanded: no other stream of features gives the lengths",
            where=ordered[0].where,
            hint="Remove expandToUtterance=true, or add the features of the utterances.",
        )
    return ordered
