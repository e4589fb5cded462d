"""The readers: features out of HTK files and labels out of label files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from cntk_core.api import CntkError, Config, ReaderContext, UtteranceReader
from cntk_reader_htk.features import FeatureSource
from cntk_reader_htk.labels import LabelSource
from cntk_reader_htk.options import FeatureOptions, HTKReaderOptions, read_options
from cntk_reader_htk.streams import open_part


class HTKDeserializers(UtteranceReader):
    """Reads features out of HTK files and labels out of label files, matched by the names of the utterances.

    For the write action an utterance is a minibatch, in the order of the list.
    """

    options: ClassVar[type] = HTKReaderOptions
    requires_api: ClassVar[str] = "1.0"
    counts_utterances: ClassVar[bool] = False
    """Whether ``nbruttsineachrecurrentiter`` is how many utterances a minibatch has at least."""

    def __init__(self, options: HTKReaderOptions, context: ReaderContext) -> None:
        super().__init__(
            options,
            context,
            open_part=open_part,
            features=FeatureOptions,
            counts_utterances=self.counts_utterances,
            numeric_keys=options.use_numeric_sequence_keys,
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> HTKReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the files."""
        for part in self.parts:
            if isinstance(part.source, FeatureSource | LabelSource):
                yield from part.source.check()


class HTKMLFReader(HTKDeserializers):
    """As :class:`HTKDeserializers`; whole utterances are counted by ``nbruttsineachrecurrentiter``."""

    counts_utterances: ClassVar[bool] = True
