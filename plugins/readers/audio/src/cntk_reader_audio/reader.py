"""The reader: features of sound files, and labels of their frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from cntk_core.api import CntkError, Config, ReaderContext
from cntk_core.api.readers import UtteranceReader
from cntk_reader_audio.options import AudioReaderOptions, FeatureOptions, read_options
from cntk_reader_audio.sources import LabelSource, WaveSource
from cntk_reader_audio.streams import Streams


class AudioReader(UtteranceReader):
    """Reads sound files as frames. For the write action an utterance is a minibatch, in their order."""

    options: ClassVar[type] = AudioReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: AudioReaderOptions, context: ReaderContext) -> None:
        streams = Streams()
        super().__init__(options, context, open_part=streams.open, features=FeatureOptions, counts_utterances=True)

    @classmethod
    def configure(cls, block: Config, what: str) -> AudioReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the lists and the files."""
        for part in self.parts:
            if isinstance(part.source, WaveSource | LabelSource):
                yield from part.source.check()
