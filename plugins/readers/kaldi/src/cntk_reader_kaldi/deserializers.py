"""Tables as parts of composite readers; each may also be read alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import attrs

from cntk_core.api import (
    ChunkedReader,
    CntkError,
    Config,
    ConfigError,
    MissingKeyError,
    ReaderContext,
    Window,
    option,
    options,
    raise_problems,
)
from cntk_reader_kaldi.options import AlignmentOptions, FeatureOptions, StreamOptions, collect, read_stream
from cntk_reader_kaldi.sources import TableSource
from cntk_reader_kaldi.streams import open_part, say_nothing

_FOREIGN_KEYS = ("readerType", "type", "module", "input", "frameMode", "truncated")


@options
class DeserializerKeys:
    """The keys of a deserializer's own block."""

    randomize: Literal["auto", "true", "t", "1", "none", "false", "f", "0"] = option(
        default="auto", doc="Whether the utterances are read in random order."
    )
    expand_to_utterance: bool = option(default=False, doc="One frame (an i-vector), repeated for each frame.")
    max_errors: int = option(default=0, doc="Malformed utterances that are left out.")
    verbosity: int = option(default=0, doc="Accepted; traceLevel decides.")
    trace_level: int = option(default=1, doc="0: errors; 1: warnings too.")
    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")


@options
class DeserializerOptions(DeserializerKeys):
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
        window = None if options.randomize in ("none", "false", "f", "0") else Window()
        super().__init__(options, context, source=part.source, streams=(info,), window=window)

    @classmethod
    def configure(cls, block: Config, what: str) -> DeserializerOptions:
        """Read the block and its one stream. Raises all errors together."""
        errors: list[CntkError] = []
        keys = collect(lambda: block.bind(DeserializerKeys, ignore=_FOREIGN_KEYS, what=what), errors)
        value = block.own("input")
        if value is None:
            hint = "Add input=[ name=[ ... ] ], the name of a network input and its stream."
            raise MissingKeyError(f"{what} needs the key 'input'", where=block.where, hint=hint)
        section = value.config()
        names = section.keys()
        if len(names) != 1:
            raise ConfigError(f"'input' of {what} must have one stream, not {len(names)}", where=value.where)
        stream: Any = collect(lambda: read_stream(section, names[0], what), errors)
        raise_problems(errors)
        if not isinstance(stream, cls.stream_options):
            raise ConfigError(f"{what} reads {cls.holds}, and '{names[0]}' is something else", where=value.where)
        checked: Any = stream
        return DeserializerOptions(**attrs.asdict(keys, recurse=False), stream=checked)

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
