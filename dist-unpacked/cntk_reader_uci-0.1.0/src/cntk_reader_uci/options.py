"""What a recipe may say to the reader, and how it is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    UnsupportedError,
    Value,
    at_least,
    collect,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import LINE_BYTES, ReaderKeys, Window

CHUNK_BYTES = 32 * 1024 * 1024
_CACHE_KEYS = ("writerType", "wfile", "wrecords", "wsize", "windowSize", "elementSize", "wref", "mapping", "category")
_LABEL_KEYS = ("labelType", "labelDim", "labelMappingFile")
_NO_ORDER = ("none", "false", "f", "0")
_ANY_ORDER = ("auto", "true", "t", "1")


@options
class ColumnKeys:
    """The keys of a block of numbers."""

    file: Path = option(doc="The table; usually given once, in the reader's block.")
    start: int = option(default=0, doc="First column, from 0.", validator=at_least(0))
    dim: int = option(doc="How many columns.", validator=at_least(1))


@options
class LabelKeys:
    """The keys of a block of labels."""

    file: Path = option(doc="The table; the same as that of the features.")
    start: int = option(default=0, doc="First column, from 0.", validator=at_least(0))
    dim: int = option(default=1, doc="How many columns.", validator=at_least(0))
    label_type: Literal["category", "regression", "none"] = option(
        default="category", doc="category: a name, made one-hot; regression: numbers; none: not read."
    )
    label_dim: int = option(
        default=0, doc="Number of classes; 0: as many as the mapping file has.", validator=at_least(0)
    )
    label_mapping_file: Path | None = option(default=None, doc="The names of the classes, one per line.")


@options
class ColumnOptions(ColumnKeys):
    """A stream of numbers, with its place in the recipe."""

    name: str = attrs.field()
    where: Location | None = None


@options
class LabelOptions(LabelKeys):
    """A stream of labels, with its place in the recipe."""

    name: str = attrs.field()
    where: Location | None = None


@options
class UCIReaderKeys(ReaderKeys):
    """The keys of the reader's own block."""

    randomize: str = option(  # type: ignore[assignment]  # wider: a number of samples too
        default="auto", doc="auto, none, or how many samples the random order moves a sample."
    )
    minibatch_mode: Literal["partial", "full"] = option(default="partial", doc="full: no minibatch is small.")
    custom_delimiter: str = option(default="", doc="A character between columns beside blank and tab.")
    custom_decimal_point: str = option(default="", doc="A character in place of the decimal point.")
    allow_map_creation: bool = option(default=False, doc="A missing labelMappingFile is made from the data.")
    one_line_per_file: bool = option(default=False, doc="Not supported.")
    chunk_size_in_bytes: int = option(default=CHUNK_BYTES, doc="Bytes that are read at once.", validator=at_least(1))
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=at_least(1))
    trace_level: int = option(default=0, doc="1: say which label maps are made.")


@options
class UCIReaderOptions(UCIReaderKeys):
    """Everything that a recipe says to the reader.

    Attributes:
        has_cache: whether the recipe asks for a binary cache of what was parsed.
        window: how far the random order moves a sample; None is the order of the file.
        streams: the blocks of the recipe.
    """

    window: Window | None = attrs.field(factory=Window)
    has_cache: bool = False
    streams: tuple[ColumnOptions | LabelOptions, ...] = attrs.field()


def read_options(block: Config, what: str) -> UCIReaderOptions:
    """Read the reader's block and its sub-blocks, one for each stream. Raises all errors together."""
    errors: list[CntkError] = []
    names = block.block_names()
    ignore = (*_CACHE_KEYS, "file", *names)
    keys = collect(lambda: block.bind(UCIReaderKeys, ignore=ignore, what=what), errors)
    window = collect(lambda: _read_window(block.get("randomize")), errors)
    streams = [collect(lambda name=name: _read_stream(block, name, what), errors) for name in names]
    found = [stream for stream in streams if stream is not None]
    if not any(_is_read(stream) for stream in found) and not errors:
        hint = "Add features=[ start=... ; dim=... ] and labels=[ start=... ; labelDim=... ; labelMappingFile=... ]."
        errors.append(ConfigError(f"{what} has no block with columns", where=block.where, hint=hint))
    errors += _other_files(found)
    if keys is not None:
        errors += _unsupported(keys, block)
    raise_problems(errors)
    assert keys is not None
    return UCIReaderOptions(
        **attrs.asdict(keys, recurse=False),
        window=window,
        has_cache=block.own("writerType") is not None,
        streams=tuple(found),
    )


def _is_read(stream: ColumnOptions | LabelOptions) -> bool:
    return isinstance(stream, ColumnOptions) or stream.label_type != "none"


def _read_window(value: Value | None) -> Window | None:
    text = "auto" if value is None else value.string().lower()
    if text in _NO_ORDER:
        return None
    if value is None or text in _ANY_ORDER:
        return Window()
    if not re.fullmatch(r"\d{1,18}", text):
        raise value.error("a number of samples or one of the names below", "Accepted: auto, true, none, false, 1000.")
    return Window(int(text), in_samples=True)


def _read_stream(block: Config, name: str, what: str) -> ColumnOptions | LabelOptions:
    """Read a stream's block: labels if it has a key that only labels have, else numbers."""
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    ignore = ("sectionType", *_CACHE_KEYS)
    if all(section.own(key) is None for key in _LABEL_KEYS):
        columns: Any = section.bind(ColumnKeys, ignore=ignore, what=told)
        return ColumnOptions(name=name, where=section.where, **attrs.asdict(columns, recurse=False))
    labels: Any = section.bind(LabelKeys, ignore=ignore, what=told)
    if labels.label_type == "category" and labels.dim > 1:
        text = f"{told} has dim={labels.dim}; a category is one column"
        raise ConfigError(text, where=section.location("dim"), hint="Set dim=1, or labelType=regression.")
    if labels.label_type == "regression" and labels.dim == 0:
        raise ConfigError(f"{told} has no columns: dim=0", where=section.location("dim"), hint="Or labelType=none.")
    if labels.label_type == "category" and labels.label_mapping_file is None:
        raise section.missing("labelMappingFile")
    return LabelOptions(name=name, where=section.where, **attrs.asdict(labels, recurse=False))


def _other_files(streams: list[ColumnOptions | LabelOptions]) -> list[CntkError]:
    return [
        ConfigError(
            f"stream '{stream.name}' has the file '{stream.file}', stream '{streams[0].name}' '{streams[0].file}'",
            where=stream.where,
            hint="All columns stand in one table: give file=... once, in the reader's block.",
        )
        for stream in streams[1:]
        if stream.file != streams[0].file
    ]


def _unsupported(keys: UCIReaderKeys, block: Config) -> list[CntkError]:
    errors: list[CntkError] = []
    if keys.one_line_per_file:
        text = "oneLinePerFile=true is not supported"
        errors.append(UnsupportedError(text, where=block.location("oneLinePerFile"), hint="Put all lines in one file."))
    for name, text in (("customDelimiter", keys.custom_delimiter), ("customDecimalPoint", keys.custom_decimal_point)):
        if len(text) > 1 or not text.isascii() or text in ("\n", "\r"):
            errors.append(ConfigError(f"{name} must be one ASCII character, not '{text}'", where=block.location(name)))
    if keys.custom_delimiter and keys.custom_delimiter == keys.custom_decimal_point:
        where = block.location("customDecimalPoint")
        errors.append(ConfigError("customDelimiter and customDecimalPoint are the same character", where=where))
    return errors
