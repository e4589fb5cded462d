"""Tables as parts of composite readers; each may also be read alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs

from cntk_core.api import CntkError, Config, ConfigError, ReaderContext, options
from cntk_core.api.readers import ChunkedReader, UtterancePartKeys, Window, read_utterance_part
from cntk_reader_kaldi.options import AlignmentOptions, FeatureOptions, StreamOptions, read_stream
from cntk_reader_kaldi.sources import TableSource
from cntk_reader_kaldi.streams import open_part, say_nothing

_COMPOSITE_KEYS = ("input", "frameMode", "truncated")
"""Keys that the composite around a deserializer obeys, and the block of its stream."""


@options
class DeserializerOptions(UtterancePartKeys):
    """Everything that a recipe says to a deserializer."""

    stream: StreamOptions = attrs.field()


class _Deserializer(ChunkedReader):
    """One table. Subclasses say which."""

    options: ClassVar[type] = DeserializerOptions
    requires_api: ClassVar[str] = "1.0"
    stream_options: ClassVar[type]
    holds: ClassVar[str]

    def __init__(self, options: DeserializerOptions, context: ReaderContext) -> None:
        trace = context.trace if options.trace_level >= 1 and context.trace is not None else say_nothing
        part, info = open_part(options.stream, context, trace, max_errors=options.max_errors)
        window = Window() if options.is_shuffled else None
        super().__init__(options, context, source=part.source, streams=(info,), window=window)

    @classmethod
    def configure(cls, block: Config, what: str) -> DeserializerOptions:
        """Read the block and its one stream. Raises all errors together."""
        keys, stream = read_utterance_part(
            block, what, UtterancePartKeys, read_stream, ignore=_COMPOSITE_KEYS, example="name=[ ... ]"
        )
        if not isinstance(stream, cls.stream_options):
            where = block.location("input")
            raise ConfigError(f"{what} reads {cls.holds}, and '{stream.name}' is something else", where=where)
        checked: Any = stream
        return DeserializerOptions(**keys, stream=checked)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the table."""
        return self.source.check() if isinstance(self.source, TableSource) else iter(())


class KaldiFeatureDeserializer(_Deserializer):
    """The matrices of a table, one for each utterance."""

    stream_options: ClassVar[type] = FeatureOptions
    holds: ClassVar[str] = "features"

    @property
    def expands(self) -> bool:
        """Whether the one frame of each utterance is repeated."""
        return bool(self.settings.expand_to_utterance or self.settings.stream.expand)


class KaldiAlignmentDeserializer(_Deserializer):
    """The classes of the frames of each utterance, out of a table of alignments or posteriors."""

    stream_options: ClassVar[type] = AlignmentOptions
    holds: ClassVar[str] = "labels"
