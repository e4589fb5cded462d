"""The readers: features out of HTK files and labels out of label files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs

from cntk_core.api import CntkError, Config, ConfigError, ReaderContext
from cntk_core.api.readers import RandomOrder, UtteranceReader, lattice_rows, window_of
from cntk_reader_htk.features import FeatureSource
from cntk_reader_htk.joined import JoinedUtterances
from cntk_reader_htk.labels import LabelSource
from cntk_reader_htk.lattices import LatticeSource
from cntk_reader_htk.old_order import OldOrder
from cntk_reader_htk.options import FeatureOptions, HTKReaderOptions, LatticeOptions, read_options
from cntk_reader_htk.streams import open_part

_LONGEST = 10_000
"""Frames of the longest utterance that the original joins, where the recipe does not say."""

_COPIES = (
    "at the end of an epoch fills gaps with copies of the last ones, which count again. joinUtterances=false reads "
    "each utterance once, as a sequence of its own."
)
_JOINED = (
    "WARNING: as in CNTK 2.0, HTKMLFReader joins as many utterances as fit into minibatchSize frames into one "
    f"sequence, over whose seams recurrent networks carry their state, and {_COPIES}"
)
_ROLLED = (
    "WARNING: as in CNTK 2.0, HTKMLFReader with readMethod=rollingWindow cuts sequences of minibatchSize frames out of "
    f"the order of all frames, whatever utterances they belong to, and {_COPIES}"
)


class HTKDeserializers(UtteranceReader):
    """Reads features out of HTK files and labels out of label files, matched by the names of the utterances.

    For the write action an utterance is a minibatch, in the order of the list.
    """

    options: ClassVar[type] = HTKReaderOptions
    requires_api: ClassVar[str] = "1.0"
    counts_utterances: ClassVar[bool] = False
    """Whether ``nbruttsineachrecurrentiter`` is how many utterances a minibatch has at least."""

    def __init__(self, options: HTKReaderOptions, context: ReaderContext, **order: Any) -> None:
        if context.inputs and lattice_rows.lattice_input(context.inputs, _name_of(options.lattices)) is None:
            streams = tuple(stream for stream in options.streams if not isinstance(stream, LatticeOptions))
            every: Any = options
            options = attrs.evolve(every, streams=streams)
        super().__init__(
            options,
            context,
            open_part=open_part,
            features=FeatureOptions,
            counts_utterances=self.counts_utterances,
            numeric_keys=options.use_numeric_sequence_keys,
            **order,
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> HTKReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        options = read_options(block, what)
        if options.join_utterances and not cls.counts_utterances:
            raise ConfigError(
                f"{what} never joins utterances",
                where=block.location("joinUtterances"),
                hint="Remove joinUtterances=true, or set readerType=HTKMLFReader.",
            )
        return options

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the files."""
        for part in self.parts:
            if isinstance(part.source, FeatureSource | LabelSource | LatticeSource):
                yield from part.source.check()


class HTKMLFReader(HTKDeserializers):
    """As :class:`HTKDeserializers`, but whole utterances are joined as the original's reader of this name does.

    With ``joinUtterances=false`` they are not, and ``nbruttsineachrecurrentiter`` is how many utterances a minibatch
    has at least.
    """

    counts_utterances: ClassVar[bool] = True

    def __init__(self, options: HTKReaderOptions, context: ReaderContext) -> None:
        if context.for_writing or not options.joins:
            super().__init__(options, context)
            return
        changed: dict[str, Any] = {"max_utterance_length": options.max_utterance_length or _LONGEST}
        if options.rolls:  # the frames move, not the utterances
            changed = {"randomize": "none"}
        joined = JoinedUtterances(
            options.nbruttsineachrecurrentiter,
            rolling=options.rolls,
            window=window_of(options),
            seed=options.randomization_seed,
            full=options.minibatch_mode == "full",
        )
        random_order = RandomOrder if options.use_mersenne_twister_rand else OldOrder
        chosen: Any = options
        super().__init__(attrs.evolve(chosen, **changed), context, slots=joined, random_order=random_order)
        if options.trace_level >= 1 and context.trace is not None:
            context.trace(_ROLLED if options.rolls else _JOINED)


def _name_of(stream: LatticeOptions | None) -> str:
    return "" if stream is None else stream.name
