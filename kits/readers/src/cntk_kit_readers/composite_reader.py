"""Readers made of several: ``deserializers=([type=... ...]:[type=... ...])``, joined by sequence key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import attrs

from cntk_core.config import Config, Value, at_least, option, options
from cntk_core.contract.reader import DataReader, EpochSpec, FindReader, ReaderContext, ReaderName
from cntk_core.errors import (
    CntkError,
    ConfigError,
    Location,
    MissingKeyError,
    UnsupportedError,
    collect,
    raise_problems,
)
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.composite import CompositeSource, FrameSource, Part
from cntk_kit_readers.randomize import SweepOrder, Window
from cntk_kit_readers.reader_keys import ReaderKeys
from cntk_kit_readers.slots import SlotPlan
from cntk_kit_readers.truncation import Truncation, truncated_slots

_OWN_BUSINESS = "frameMode=false\ntruncated=false\nrandomize=false\n"
"""What the parts must not look up in the composite: it cuts and shuffles for them."""


@options
class CompositeKeys(ReaderKeys):
    """The keys of the composite's own block."""

    sample_based_randomization_window: bool = option(default=True, doc="The window counts samples; false: chunks.")
    frame_mode: bool = option(default=False, doc="Every frame is an independent sample.")
    truncated: bool = option(default=False, doc="Truncated back-propagation.")
    truncation_length: int = option(default=0, doc="Frames of a piece of a sequence.", validator=at_least(0))
    check_data: bool = option(default=True, doc="Leave out sequences whose streams do not fit together.")
    use_numeric_sequence_keys: bool | None = option(
        default=None, doc="Keys are numbers; by default if a text file is among the parts."
    )
    hash_sequence_keys: bool = option(default=False, doc="Accepted; keys are compared as they are.")
    max_errors: int = option(
        default=0, doc="Malformed sequences of each part that are left out.", validator=at_least(0)
    )
    multi_threaded_deserialization: bool = option(default=False, doc="Accepted.")
    local_timeline: bool = option(default=True, doc="Accepted.")


@attrs.frozen
class PartOptions:
    """One of the parts: its reader's class and options, its name in the recipe, its place.

    ``general`` is what its base class has read of the block for itself.
    """

    reader: type[DataReader]
    options: Any
    name: str
    where: Location
    general: Any = None

    @classmethod
    def read(cls, reader: type[DataReader], block: Config, name: str, what: str, where: Location) -> PartOptions:
        """Read the block of a part. Raises all its errors together."""
        return cls(reader, reader.settings_from(block, what), name, where, reader.general_from(block, what))

    def open(self, context: ReaderContext) -> DataReader:
        """Make the reader, in the context of the whole."""
        return self.reader(self.options, attrs.evolve(context, general=self.general))


@options
class CompositeOptions(CompositeKeys):
    """Everything that a recipe says to the composite."""

    parts: tuple[PartOptions, ...] = attrs.field()

    @property
    def window(self) -> Window | None:
        """How the sequences are randomized; None is not at all. A window without size is to be chosen."""
        return self.window_within(Window(None, self.sample_based_randomization_window))


class CompositeReader(ChunkedReader):
    """Joins the streams of several readers by sequence key. The first part gives the order."""

    options: ClassVar[type] = CompositeOptions
    requires_api: ClassVar[str] = "1.0"

    @classmethod
    def composed(cls, find: FindReader, name_of: ReaderName) -> type[DataReader]:
        """Return the class of composite readers that looks its parts up with ``find``."""
        return composite_class(find)

    def __init__(self, options: CompositeOptions, context: ReaderContext) -> None:
        trace = context.trace if options.trace_level >= 1 else None
        frames = options.frame_mode and not context.for_writing
        with ExitStack() as stack:
            self._readers = list(_open_parts(options.parts, context, stack))
            streams = tuple(
                attrs.evolve(stream, sequence=not frames) for reader in self._readers for stream in reader.streams
            )
            _check_names(options.parts, self._readers)
            parts = [
                Part(reader.source, tuple(stream.name for stream in reader.streams), reader.expands, reader.counts)
                for reader in self._readers
            ]
            numeric = options.use_numeric_sequence_keys
            if numeric is None:
                numeric = any(part.source.numeric_keys for part in parts)
            joined = CompositeSource(
                parts,
                numeric_keys=numeric,
                equal_lengths=frames or options.truncated,
                drop=options.check_data,
                warn=trace,
                cache_bytes=options.cache_size_in_bytes,
            )
            window = self.sized_window(_window(options, parts), streams, context.dtype, joined.makers)
            super().__init__(
                options,
                context,
                source=FrameSource(joined) if frames else joined,
                streams=streams,
                window=window,
                slots=self._cut if options.truncated else None,
            )
            stack.pop_all()

    def _cut(self, order: SweepOrder, epoch: EpochSpec) -> Iterator[SlotPlan]:
        cut = Truncation.of_size(epoch.minibatch_size, self.settings.truncation_length)
        return truncated_slots(order, epoch, cut)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the data of the parts, and whether they fit together."""
        sound = True
        for reader in self._readers:
            for error in reader.check():
                sound = False
                yield error
        if sound:
            try:
                self.order()
            except CntkError as error:
                yield error


def _window(options: CompositeOptions, parts: Sequence[Part]) -> Window | None:
    """Return the window of the recipe; one source of single sequences is shuffled by its chunks alone, as in CNTK."""
    window = options.window
    if window is not None and window.size is None and len(parts) == 1 and parts[0].source.single_sequences:
        return Window(1, in_samples=True)
    return window


def composite_class(find: FindReader) -> type[CompositeReader]:
    """Return the composite reader that looks its parts up with ``find``."""

    class Composite(CompositeReader):
        """A composite reader."""

        @classmethod
        def configure(cls, block: Config, what: str) -> CompositeOptions:
            """Read the block and those of the parts. Raises all errors together."""
            return read_options(block, what, find)

    return Composite


def read_options(block: Config, what: str, find: FindReader) -> CompositeOptions:
    """Read the composite's block. Raises all its errors together."""
    errors: list[CntkError] = []
    keys = collect(lambda: block.bind(CompositeKeys, ignore=("deserializers",), what=what), errors)
    value = block.require("deserializers")
    parts = [collect(lambda one=one: _read_part(one, block, find), errors) for one in value.array()]
    if keys is not None:
        errors += _contradictions(keys, block)
    raise_problems(errors)
    if not parts:
        hint = "deserializers=( [ type=... ; input=[ ... ] ] : [ type=... ] )"
        raise ConfigError(f"{what} has no deserializers", where=value.where, hint=hint)
    return CompositeOptions(**attrs.asdict(keys, recurse=False), parts=tuple(parts))


def _read_part(value: Value, parent: Config, find: FindReader) -> PartOptions:
    own = value.config().with_parent(parent.with_entries(_OWN_BUSINESS))
    kind = own.own("type")
    if kind is None:
        raise MissingKeyError(
            "a deserializer needs its type",
            where=value.where,
            hint="type=HTKFeatureDeserializer, HTKMLFDeserializer, CNTKTextFormatDeserializer, ...",
        )
    name = kind.string()
    reader = find(name, kind.where)
    if not issubclass(reader, ChunkedReader):
        raise UnsupportedError(f"'{name}' cannot be a part of a composite reader", where=kind.where)
    return PartOptions.read(reader, own, name, f"deserializer '{name}'", kind.where)


def _contradictions(keys: CompositeKeys, block: Config) -> list[CntkError]:
    if not keys.truncated:
        return []
    if keys.frame_mode:
        text = "frameMode=true and truncated=true exclude each other"
        return [ConfigError(text, where=block.location("truncated"), hint="Truncated training needs sequences.")]
    if not keys.truncation_length:
        hint = "Give the frames of a piece; minibatchSize / truncationLength is how many sequences go side by side."
        return [MissingKeyError("truncated=true needs truncationLength", where=block.location("truncated"), hint=hint)]
    return []


def _open_parts(parts: tuple[PartOptions, ...], context: ReaderContext, stack: ExitStack) -> Iterator[ChunkedReader]:
    """Open the parts; for the write action the first, and those that the network needs."""
    needed = {name.lower() for name in context.inputs}
    for number, part in enumerate(parts):
        reader = part.open(context)
        assert isinstance(reader, ChunkedReader)
        if number and context.for_writing and not needed & {stream.name.lower() for stream in reader.streams}:
            reader.close()
            continue
        stack.callback(reader.close)
        yield reader


def _check_names(parts: tuple[PartOptions, ...], readers: list[ChunkedReader]) -> None:
    owners: dict[str, str] = {}
    for part, reader in zip(parts, readers, strict=False):
        for stream in reader.streams:
            if stream.name.lower() in owners:
                text = f"the stream '{stream.name}' is read by '{owners[stream.name.lower()]}' already"
                raise ConfigError(text, where=part.where, hint="Each stream has a name of its own.")
            owners[stream.name.lower()] = part.name
    if readers[0].expands:
        raise ConfigError(
            "the first deserializer cannot have expandToUtterance=true",
            where=parts[0].where,
            hint="Put the deserializer of the whole utterances in front of it.",
        )
