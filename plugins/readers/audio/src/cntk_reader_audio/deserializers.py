"""Sound files as a part of composite readers, beside labels of other files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs

from cntk_core.api import CntkError, Config, ConfigError, ReaderContext, options
from cntk_core.api.readers import ChunkedReader, UtterancePartKeys, Window, read_utterance_part
from cntk_reader_audio.options import FeatureOptions, read_stream
from cntk_reader_audio.sources import WaveSource
from cntk_reader_audio.streams import Streams

_COMPOSITE_KEYS = ("input", "frameMode", "truncated")
"""Keys that the composite around a deserializer obeys, and the block of its stream."""


@options
class DeserializerOptions(UtterancePartKeys):
    """Everything that a recipe says to the deserializer."""

    stream: FeatureOptions = attrs.field()


class AudioFeatureDeserializer(ChunkedReader):
    """The frames of sound files."""

    options: ClassVar[type] = DeserializerOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: DeserializerOptions, context: ReaderContext) -> None:
        trace = context.trace if options.trace_level >= 1 and context.trace is not None else _say_nothing
        part, info = Streams().open(options.stream, context, trace, max_errors=options.max_errors)
        window = Window() if options.is_shuffled else None
        super().__init__(options, context, source=part.source, streams=(info,), window=window)

    @classmethod
    def configure(cls, block: Config, what: str) -> DeserializerOptions:
        """Read the block and its one stream. Raises all errors together."""
        keys, stream = read_utterance_part(
            block, what, UtterancePartKeys, read_stream, ignore=_COMPOSITE_KEYS, example="name=[ ... ]"
        )
        if not isinstance(stream, FeatureOptions):
            where = block.location("input")
            raise ConfigError(f"{what} reads features, and '{stream.name}' is something else", where=where)
        return DeserializerOptions(**keys, stream=stream)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the list and the files."""
        return self.source.check() if isinstance(self.source, WaveSource) else iter(())


def _say_nothing(line: str) -> None:
    """Drop a warning."""
