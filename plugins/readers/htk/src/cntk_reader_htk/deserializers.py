"""Features and labels as parts of composite readers; each may also be read alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs

from cntk_core.api import CntkError, Config, ConfigError, ReaderContext, option, options
from cntk_core.api.readers import ChunkedReader, UtterancePartKeys, Window, read_utterance_part
from cntk_reader_htk.options import FeatureOptions, LabelOptions, StreamOptions, read_stream
from cntk_reader_htk.streams import open_features, open_labels, say_nothing

_COMPOSITE_KEYS = ("input", "frameMode", "truncated")
"""Keys that the composite around a deserializer obeys, and the block of its stream."""


@options
class DeserializerKeys(UtterancePartKeys):
    """The keys of a deserializer's own block."""

    chunk_size_in_bytes: int = option(default=0, doc="Accepted; chunks are a quarter of an hour.")


@options
class FeatureDeserializerOptions(DeserializerKeys):
    """Everything that a recipe says to a deserializer of features."""

    stream: FeatureOptions = attrs.field()


@options
class LabelDeserializerOptions(DeserializerKeys):
    """Everything that a recipe says to a deserializer of labels."""

    stream: LabelOptions = attrs.field()


class HTKFeatureDeserializer(ChunkedReader):
    """The utterances of a list of feature files."""

    options: ClassVar[type] = FeatureDeserializerOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: FeatureDeserializerOptions, context: ReaderContext) -> None:
        trace = context.trace if options.trace_level >= 1 and context.trace is not None else say_nothing
        self._features, info = open_features(options.stream, context, trace, max_errors=options.max_errors)
        super().__init__(
            options,
            context,
            source=self._features,
            streams=(attrs.evolve(info, sequence=True),),
            window=_window(options),
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> FeatureDeserializerOptions:
        """Read the block and its one stream. Raises all errors together."""
        keys, stream = _read(block, what)
        if not isinstance(stream, FeatureOptions):
            raise ConfigError(f"{what} reads features, and '{stream.name}' has labels", where=block.location("input"))
        return FeatureDeserializerOptions(**keys, stream=stream)

    @property
    def expands(self) -> bool:
        """Whether the one frame of each utterance is repeated."""
        return bool(self.settings.expand_to_utterance or self.settings.stream.expand)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the files."""
        return self._features.check()


class HTKMLFDeserializer(ChunkedReader):
    """The utterances of label files."""

    options: ClassVar[type] = LabelDeserializerOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: LabelDeserializerOptions, context: ReaderContext) -> None:
        trace = context.trace if options.trace_level >= 1 and context.trace is not None else say_nothing
        self._labels, info = open_labels(options.stream, context, trace, max_errors=options.max_errors)
        super().__init__(
            options, context, source=self._labels, streams=(attrs.evolve(info, sequence=True),), window=_window(options)
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> LabelDeserializerOptions:
        """Read the block and its one stream. Raises all errors together."""
        keys, stream = _read(block, what)
        if not isinstance(stream, LabelOptions):
            raise ConfigError(f"{what} reads labels, and '{stream.name}' has no mlfFile", where=block.location("input"))
        return LabelDeserializerOptions(**keys, stream=stream)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the files."""
        return self._labels.check()


def _window(options: DeserializerKeys) -> Window | None:
    return Window() if options.is_shuffled else None


def _read(block: Config, what: str) -> tuple[dict[str, Any], StreamOptions]:
    """Read the block of a deserializer with one stream; the keys come by name."""
    example = "features=[ dim=... ; scpFile=... ]"
    found: tuple[dict[str, Any], StreamOptions] = read_utterance_part(
        block, what, DeserializerKeys, read_stream, ignore=_COMPOSITE_KEYS, example=example
    )
    return found
