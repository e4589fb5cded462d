"""What a recipe may say to the reader, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    MissingKeyError,
    at_least,
    collect,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import LINE_BYTES, ReaderKeys, Window

CHUNK_BYTES = 32 * 1024 * 1024
AUTO_WINDOW_BYTES = 4 * 1024 * 1024 * 1024
_LARGEST_SPARSE_DIM = 2**31 - 1


@options
class StreamKeys:
    """The keys of a stream's block."""

    dim: int = option(doc="Values of a sample.", validator=at_least(1))
    format: Literal["dense", "sparse"] = option(doc="dense: v v v; sparse: index:value pairs.")
    alias: str = option(default="", doc="Name in the file; by default the stream's own.")
    defines_mb_size: bool = option(default=False, key="definesMBSize", doc="Minibatches count this stream's samples.")


@options
class StreamOptions(StreamKeys):
    """One stream: a sub-block of ``input``, with the place of its ``dim`` in the recipe."""

    name: str = attrs.field()
    where: Location | None = None


@options
class TextReaderKeys(ReaderKeys):
    """The keys of the reader's block."""

    file: Path = option(doc="The text file.")
    skip_sequence_ids: bool = option(default=False, doc="Every line is a sequence, whatever its id.")
    frame_mode: bool = option(default=False, doc="Every line is an independent sample.")
    max_errors: int = option(default=0, doc="Malformed rows that are left out.", validator=at_least(0))
    chunk_size_in_bytes: int = option(default=CHUNK_BYTES, doc="Bytes that are read at once.", validator=at_least(1))
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))
    truncated: bool = option(default=False, doc="Sequences are read whole whatever this says.")
    truncation_length: int = option(default=0, doc="Accepted with truncated.")
    nbruttsineachrecurrentiter: str = option(default="", doc="Accepted; minibatches are packed without gaps.")


@options
class TextReaderOptions(TextReaderKeys):
    """Everything that a recipe says to the reader."""

    streams: tuple[StreamOptions, ...] = attrs.field()
    file_where: Location | None = None

    @property
    def window(self) -> Window | None:
        """How the sequences are randomized; None is not at all."""
        chunks = max(AUTO_WINDOW_BYTES // self.chunk_size_in_bytes, 1)
        return self.window_within(Window() if self.sample_based_randomization_window else Window(chunks))


def read_options(block: Config, what: str) -> TextReaderOptions:
    """Read the reader's block. Raises all its errors together."""
    errors: list[CntkError] = []
    keys = collect(lambda: block.bind(TextReaderKeys, ignore=("input",), what=what), errors)
    streams = collect(lambda: _read_streams(block, what), errors)
    raise_problems(errors)
    assert keys is not None
    return TextReaderOptions(
        **attrs.asdict(keys, recurse=False),
        streams=streams or (),
        file_where=block.location("file"),
    )


def _read_streams(block: Config, what: str) -> tuple[StreamOptions, ...]:
    value = block.own("input")
    if value is None:
        raise MissingKeyError(
            f"{what} needs the key 'input'",
            where=block.where,
            hint="Add input=[ features=[ dim=... ; format=dense ] ; ... ], one sub-block for each stream.",
        )
    section = value.config()
    errors: list[CntkError] = []
    streams: list[StreamOptions] = []
    for key in section.keys():  # noqa: SIM118 - a Config is no dict
        stream = collect(lambda key=key: _read_stream(section, key, what), errors)
        if stream is not None:
            streams.append(stream)
    if not section.keys():
        errors.append(ConfigError(f"'input' of {what} names no stream", where=value.where))
    errors += _conflicts(streams)
    raise_problems(errors)
    return tuple(streams)


def _read_stream(section: Config, key: str, what: str) -> StreamOptions:
    block = section.section(key)
    missing = [name for name in ("dim", "format") if block.own(name) is None]
    if missing:
        raise MissingKeyError(
            f"stream '{key}' of {what} needs {' and '.join(missing)}",
            where=section.location(key),
            hint="Write dim=... (values of a sample) and format=dense or format=sparse.",
        )
    read = block.bind(StreamKeys, what=f"stream '{key}' of {what}")
    alias = block.own("alias")
    if alias is not None and not alias.text:
        raise ConfigError(f"the alias of stream '{key}' is empty", where=alias.where)
    if read.format == "sparse" and read.dim > _LARGEST_SPARSE_DIM:
        raise ConfigError(f"dim={read.dim} of stream '{key}' is larger than 2147483647", where=block.location("dim"))
    return StreamOptions(
        name=key,
        dim=read.dim,
        format=read.format,
        alias=alias.text if alias else key,
        defines_mb_size=read.defines_mb_size,
        where=block.location("dim"),
    )


def _conflicts(streams: list[StreamOptions]) -> list[CntkError]:
    """Return what is wrong between the streams."""
    errors: list[CntkError] = []
    owners: dict[str, str] = {}
    for stream in streams:
        if stream.alias in owners:
            text = f"alias '{stream.alias}' of stream '{stream.name}' is taken by stream '{owners[stream.alias]}'"
            errors.append(ConfigError(text, where=stream.where, hint="Each stream has a name of its own in the file."))
        owners.setdefault(stream.alias, stream.name)
    main = [stream for stream in streams if stream.defines_mb_size]
    if len(main) > 1:
        names = " and ".join(f"'{stream.name}'" for stream in main)
        errors.append(ConfigError(f"only one stream may have definesMBSize=true, not {names}", where=main[1].where))
    return errors
