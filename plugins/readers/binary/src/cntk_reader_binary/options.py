"""What a recipe may say to the reader, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import attrs

from cntk_core.api import CntkError, Config, Location, at_least, collect, option, options, raise_problems
from cntk_core.api.readers import CACHE_BYTES, Window

AUTO_WINDOW_CHUNKS = 128
"""How far the random order moves a sequence where the recipe does not say it; chunks are often 32 MB."""
_OFF = ("none", "false", "f", "0")
_FOREIGN_KEYS = ("readerType", "input", "type", "module")


@options
class StreamKeys:
    """The keys of a stream's block."""

    alias: str = option(default="", doc="Name in the file; by default the stream's own.")
    dim: int | None = option(default=None, doc="Values of a sample; the file knows it, and this must be the same.")
    format: Literal["dense", "sparse"] | None = option(default=None, doc="The file knows it; this must be the same.")


@options
class StreamOptions(StreamKeys):
    """One stream: a sub-block of ``input``, with its place in the recipe."""

    name: str = attrs.field()
    where: Location | None = None


@options
class ReaderKeys:
    """The keys of the reader's block."""

    file: Path = option(doc="The binary file.")
    randomize: Literal["auto", "true", "t", "1", "none", "false", "f", "0"] = option(
        default="auto", doc="Whether the sequences are read in random order."
    )
    randomization_window: int | None = option(
        default=None,
        doc="How far the random order moves a sequence, in chunks.",
        validator=attrs.validators.optional(at_least(0)),
    )
    sample_based_randomization_window: bool = option(default=False, doc="randomizationWindow counts samples.")
    randomization_seed: int = option(default=0, doc="Another seed gives another random order.")
    keep_data_in_memory: bool = option(default=False, doc="Read the file once and keep it.")
    cache_size_in_bytes: int = option(
        default=CACHE_BYTES, doc="Parsed data that is kept, if a window has less.", validator=at_least(0)
    )
    prefetch: bool = option(default=True, doc="Prepare the next minibatches in a background thread.")
    trace_level: int = option(default=1, doc="0: errors; 1: warnings too.")
    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")
    truncated: bool = option(default=False, doc="Sequences are read whole whatever this says.")
    truncation_length: int = option(default=0, doc="Accepted with truncated.")
    frame_mode: bool = option(default=False, doc="Accepted; sequences are as the file has them.")
    max_errors: int = option(default=0, doc="Accepted; a damaged chunk is always an error.")
    verbosity: int = option(default=0, doc="Accepted; traceLevel decides.")
    nbruttsineachrecurrentiter: str = option(default="", doc="Accepted; minibatches are packed without gaps.")


@options
class BinaryReaderOptions(ReaderKeys):
    """Everything that a recipe says to the reader; without ``streams`` all of the file are read."""

    streams: tuple[StreamOptions, ...] = ()
    file_where: Location | None = None

    @property
    def window(self) -> Window | None:
        """How the sequences are randomized; None is not at all."""
        if self.randomize in _OFF or self.randomization_window == 0:
            return None
        if self.randomization_window is not None:
            return Window(self.randomization_window, self.sample_based_randomization_window)
        if self.sample_based_randomization_window:
            return Window()
        return Window(AUTO_WINDOW_CHUNKS)


def read_options(block: Config, what: str) -> BinaryReaderOptions:
    """Read the reader's block. Raises all its errors together."""
    errors: list[CntkError] = []
    keys = collect(lambda: block.bind(ReaderKeys, ignore=_FOREIGN_KEYS, what=what), errors)
    value = block.own("input")
    streams: list[StreamOptions] = []
    if value is not None:
        section = collect(value.config, errors)
        for name in () if section is None else section.keys():
            stream = collect(lambda name=name: _read_stream(section, name, what), errors)
            streams += [] if stream is None else [stream]
    raise_problems(errors)
    return BinaryReaderOptions(
        **attrs.asdict(keys, recurse=False), streams=tuple(streams), file_where=block.location("file")
    )


def _read_stream(section: Config, name: str, what: str) -> StreamOptions:
    block = section.section(name)
    read = block.bind(StreamKeys, ignore=("definesMBSize",), what=f"stream '{name}' of {what}")
    own = {key: getattr(read, key) if block.own(key) is not None else default for key, default in _DEFAULTS.items()}
    return StreamOptions(**own, name=name, where=section.location(name))


_DEFAULTS: dict[str, Any] = {"alias": "", "dim": None, "format": None}
"""What a stream does not say itself is not looked up in the blocks around it."""
