"""The reader: features and labels of Kaldi tables, matched by the keys of the utterances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from cntk_core.api import CntkError, Config, ReaderContext
from cntk_core.api.readers import UtteranceReader
from cntk_reader_kaldi.options import FeatureOptions, KaldiReaderOptions, read_options
from cntk_reader_kaldi.sources import TableSource
from cntk_reader_kaldi.streams import open_part


class Kaldi2Reader(UtteranceReader):
    """Reads features and labels of Kaldi tables. For the write action an utterance is a minibatch, in their order."""

    options: ClassVar[type] = KaldiReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: KaldiReaderOptions, context: ReaderContext) -> None:
        super().__init__(options, context, open_part=open_part, features=FeatureOptions, counts_utterances=True)

    @classmethod
    def configure(cls, block: Config, what: str) -> KaldiReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the tables."""
        for part in self.parts:
            if isinstance(part.source, TableSource):
                yield from part.source.check()
