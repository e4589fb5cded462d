"""UtteranceReader: streams of utterances, each in files of its own, matched by their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import attrs

from cntk_core.contract.reader import EpochSpec, ReaderContext, StreamInfo
from cntk_core.errors import ConfigError
from cntk_core.records.minibatch import Minibatch
from cntk_kit_readers.chunked import ChunkedReader, MakeOrder, PlanSlots
from cntk_kit_readers.composite import CompositeSource, FrameSource, Part
from cntk_kit_readers.randomize import RandomOrder, SweepOrder, Window
from cntk_kit_readers.slots import SlotPlan
from cntk_kit_readers.source import ChunkSource
from cntk_kit_readers.truncation import Truncation, truncated_slots

OpenPart = Callable[..., tuple[Part, StreamInfo]]
"""``(stream, context, trace, *, max_errors, longest) -> (part, stream)``: opens the files of one stream."""


class UtteranceReader(ChunkedReader):
    """Reads several streams of utterances. For the write action an utterance is a minibatch, in the order of the files.

    Args:
        options: ``streams`` (each with ``name`` and ``where``, those of features with ``expand``), and the
            keys of CNTK's readers of utterances (:class:`~cntk_kit_readers.utterance_keys.UtteranceKeys`).
        context: what the reader is for.
        open_part: opens a stream.
        features: the class of streams of features.
        counts_utterances: ``nbruttsineachrecurrentiter`` is how many whole utterances a minibatch has at least.
        numeric_keys: keys are numbers.
        slots: plans minibatches of whole utterances otherwise than one utterance to a slot.
        random_order: makes the random order of the utterances.

    Raises:
        CntkError: files that cannot be read, or an i-vector without a stream that gives the lengths.
    """

    def __init__(
        self,
        options: Any,
        context: ReaderContext,
        *,
        open_part: OpenPart,
        features: type,
        counts_utterances: bool,
        numeric_keys: bool = False,
        slots: PlanSlots | None = None,
        random_order: MakeOrder = RandomOrder,
    ) -> None:
        trace = context.trace if options.trace_level >= 1 and context.trace is not None else _say_nothing
        frames = options.frame_mode and not context.for_writing
        longest = None if options.frame_mode else options.max_utterance_length
        self.parts: list[Part] = []
        streams: list[StreamInfo] = []
        with ExitStack() as stack:
            for stream in _in_order(options.streams, context, features):
                part, info = open_part(stream, context, trace, max_errors=options.max_errors, longest=longest)
                stack.callback(part.source.close)
                self.parts.append(part)
                streams.append(attrs.evolve(info, sequence=not frames))
            stack.pop_all()
        joined: ChunkSource = CompositeSource(
            self.parts,
            numeric_keys=numeric_keys,
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
            window=self.sized_window(window_of(options), streams, context.dtype),
            seed=options.randomization_seed,
            keep_in_memory=options.keep_data_in_memory,
            cache_bytes=options.cache_size_in_bytes,
            slots=self._cut if options.truncated else slots,
            random_order=random_order,
            least_sequences=counts.__getitem__ if counts_utterances and not frames else None,
            prefetch=options.prefetch,
        )

    def minibatch_factor(self, epoch: int) -> int:
        """Return the utterances side by side where ``minibatchSize`` is the length of a piece."""
        if not self.settings.truncated or self.settings.truncation_length:
            return 1
        return int(self.settings.nbruttsineachrecurrentiter[epoch])

    def _cut(self, order: SweepOrder, epoch: EpochSpec) -> Iterator[SlotPlan]:
        """Cut utterances: without truncationLength, minibatchSize is the length of a piece."""
        if self.settings.truncation_length:
            cut = Truncation.of_size(epoch.minibatch_size, self.settings.truncation_length)
        else:
            cut = Truncation(epoch.minibatch_size, self.settings.nbruttsineachrecurrentiter[epoch.epoch])
        return truncated_slots(order, epoch, cut)

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch."""
        if self.context.for_writing:
            epoch = attrs.evolve(epoch, minibatch_size=1)
        return super().minibatches(epoch)


def window_of(options: Any) -> Window | None:
    """Return how the frames are randomized that a reader's options ask for; None is not at all.

    A window without size is to be chosen.
    """
    return Window(options.window_frames, in_samples=True) if options.is_shuffled else None


def _say_nothing(line: str) -> None:
    """Where warnings go when nobody listens."""


def _in_order(streams: Sequence[Any], context: ReaderContext, features: type) -> list[Any]:
    """Return the streams to read: first one of features that gives the order, and labels last.

    The write action reads what the network needs, so utterances without labels are written, too.
    """
    wanted = list(streams)
    if context.for_writing and context.inputs:
        needed = {name.lower() for name in context.inputs}
        wanted = [stream for stream in streams if stream.name.lower() in needed] or wanted
    first: list[Any] = [stream for stream in wanted if isinstance(stream, features)]
    first.sort(key=lambda stream: bool(stream.expand))
    if first and first[0].expand:
        raise ConfigError(
            f"stream '{first[0].name}' cannot be expanded: no other stream of features gives the lengths",
            where=first[0].where,
            hint="Remove expandToUtterance=true, or add the features of the utterances.",
        )
    return [*first, *(stream for stream in wanted if not isinstance(stream, features))]
