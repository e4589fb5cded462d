"""What both readers read of a recipe."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from cntk_core.api import Config, ConfigError, Location, ReaderContext, did_you_mean, show
from cntk_core.api.readers import ChunkedReader

T = TypeVar("T")

FOREIGN_KEYS = ("minibatchMode",)
"""Keys of other readers that say nothing to these."""
CACHE_KEYS = ("wfile", "wrecords", "wsize", "windowSize", "elementSize", "wref", "sectionType", "mapping", "category")
"""Keys of binary caches; they mean nothing without writerType."""


def label_names(block: Config, what: str) -> tuple[str, str]:
    """Return the names of the blocks for the labels that go in and those that come out: the first by name is in.

    Raises ConfigError if there are not two.
    """
    keys = ("labelMappingFile", "labelType", "labelDim", "token")
    found = [name for name in block.block_names() if any(block.section(name).own(key) is not None for key in keys)]
    if len(found) != 2:
        raise ConfigError(
            f"{what} needs two blocks of labels, and has {len(found)}",
            where=block.where,
            hint="The first by name describes the words (labelIn=[...]), the second what is learned (labels=[...]).",
        )
    first, second = sorted(found, key=str.lower)
    return first, second


def feature_name(block: Config, labels: tuple[str, ...], what: str) -> str:
    """Return the name of the block of features: the one with ``dim`` that has no labels. Raises ConfigError."""
    names = [name for name in block.block_names() if name not in labels and block.section(name).own("dim") is not None]
    names = [name for name in names if name.lower() not in ("sequence", "labelsmap")] or names
    if not names:
        hint = "Add features=[ dim=... ] for the input of the network."
        raise ConfigError(f"{what} needs a block of features", where=block.where, hint=hint)
    return sorted(names, key=str.lower)[0]


def say_no_cache(reader: str, context: ReaderContext, asked: bool) -> None:
    """Log that there is no binary cache, if the recipe asks for one (``writerType``)."""
    if asked and context.trace is not None:
        context.trace(f"{reader}: no binary cache is written or read (writerType), the text is parsed directly")


def stream_shape(context: ReaderContext, name: str, dim: int, where: Location | None) -> tuple[str, tuple[int, ...]]:
    """Return the name and shape of the network's input that a stream feeds. Raises ConfigError if the sizes differ."""
    known, shape = ChunkedReader.find_input(context, name)
    if shape is not None and math.prod(shape) != dim:
        text = f"stream '{name}' has {dim} rows, but the network's input '{known}' is {show(shape)}"
        raise ConfigError(text, where=where)
    return known, shape or (dim,)


_SUGGESTED = 10


def unknown_word(word: str, unknown: str, words: Any, what: str, before: int) -> str:
    """Return the message for a word without a number; ``before`` is how many problems are known already.

    To find what was meant takes time for each known word: of many messages the first have it.
    """
    near = did_you_mean(word, words) if before < _SUGGESTED else ""
    return f"'{word}' is not in {what}{near}, nor is the unknown word '{unknown}'"
