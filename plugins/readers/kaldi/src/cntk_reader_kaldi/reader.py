"""The reader: features and labels of Kaldi tables, matched by the keys of the utterances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs

from cntk_core.api import CntkError, Config, ReaderContext
from cntk_core.api.readers import UtteranceReader, lattice_rows
from cntk_reader_kaldi.lattice_options import LatticeOptions
from cntk_reader_kaldi.options import FeatureOptions, KaldiReaderOptions, StreamOptions, read_options
from cntk_reader_kaldi.sources import TableSource
from cntk_reader_kaldi.streams import open_part


class Kaldi2Reader(UtteranceReader):
    """Reads features and labels of Kaldi tables. For the write action an utterance is a minibatch, in their order."""

    options: ClassVar[type] = KaldiReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: KaldiReaderOptions, context: ReaderContext) -> None:
        every: Any = options
        if context.inputs and not any(_feeds(context, stream) for stream in options.streams):
            streams = tuple(stream for stream in options.streams if not isinstance(stream, LatticeOptions))
            every = attrs.evolve(every, streams=streams)
        super().__init__(every, context, open_part=open_part, features=FeatureOptions, counts_utterances=True)

    @classmethod
    def configure(cls, block: Config, what: str) -> KaldiReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the tables."""
        for part in self.parts:
            if isinstance(part.source, TableSource):
                yield from part.source.check()


def _feeds(context: ReaderContext, stream: StreamOptions) -> bool:
    """Tell whether a stream of lattices is one that the network needs."""
    return isinstance(stream, LatticeOptions) and lattice_rows.lattice_input(context.inputs, stream.name) is not None
