"""What a recipe may say to the reader, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import attrs

from cntk_core.api import CntkError, Config, Location, collect, option, options, raise_problems
from cntk_core.api.readers import ReaderKeys, Window

AUTO_WINDOW_CHUNKS = 128
"""How far the random order moves a sequence where the recipe does not say it; chunks are often 32 MB."""


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
class BinaryReaderKeys(ReaderKeys):
    """The keys of the reader's block."""

    file: Path = option(doc="The binary file.")
    truncated: bool = option(default=False, doc="Sequences are read whole whatever this says.")
    truncation_length: int = option(default=0, doc="Accepted with truncated.")
    frame_mode: bool = option(default=False, doc="Accepted; sequences are as the file has them.")
    max_errors: int = option(default=0, doc="Accepted; a damaged chunk is always an error.")
    nbruttsineachrecurrentiter: str = option(default="", doc="Accepted; minibatches are packed without gaps.")


@options
class BinaryReaderOptions(BinaryReaderKeys):
    """Everything that a recipe says to the reader; without ``streams`` all of the file are read."""

    streams: tuple[StreamOptions, ...] = ()
    file_where: Location | None = None

    @property
    def window(self) -> Window | None:
        """How the sequences are randomized; None is not at all."""
        return self.window_within(Window() if self.sample_based_randomization_window else Window(AUTO_WINDOW_CHUNKS))


def read_options(block: Config, what: str) -> BinaryReaderOptions:
    """Read the reader's block. Raises all its errors together."""
    errors: list[CntkError] = []
    keys = collect(lambda: block.bind(BinaryReaderKeys, ignore=("input",), what=what), errors)
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
