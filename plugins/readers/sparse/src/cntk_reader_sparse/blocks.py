"""The blocks of streams in a reader's block: features, which have a ``dim``, and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    ReaderContext,
    at_least,
    collect,
    option,
    options,
    show,
)
from cntk_core.api.readers import ChunkedReader, ReaderKeys

_LABEL_KEYS = ("labelDim", "labelType", "labelMappingFile")
_UNUSED = ("start", "labelType", "labelMappingFile", "sectionType")
"""Keys of such blocks that recipes have from other readers, and that the original does not look at."""


@options
class SparseKeys(ReaderKeys):
    """The keys that are the same for the three readers."""

    randomize: Literal["auto", "true", "t", "1", "none", "false", "f", "0"] = option(
        default="none", doc="none: the order of the file, as always with the original; auto: at random."
    )
    minibatch_mode: Literal["partial", "full"] = option(
        default="partial", doc="Accepted; the last minibatch of a sweep may be small."
    )


@options
class FeatureKeys:
    """The keys of a block of features."""

    dim: int = option(doc="Values of a sample.", validator=at_least(1))
    file: Path | None = option(default=None, doc="The file of the stream, where each has its own.")


@options
class LabelKeys:
    """The keys of a block of labels."""

    label_dim: int | None = option(default=None, doc="Values of a sample; the network's input says it, too.")
    dim: int | None = option(default=None, doc="Accepted.")
    file: Path | None = option(default=None, doc="Accepted.")


@attrs.frozen
class Feature:
    """A stream of features: its name, its dimension, its file if it has one of its own, its place in the recipe."""

    name: str
    dim: int
    file: Path | None
    where: Location | None


@attrs.frozen
class Label:
    """A stream of labels: its name, its dimension if it is said, its place in the recipe."""

    name: str
    dim: int | None
    where: Location | None


def read_blocks(
    block: Config, what: str, names: Sequence[str], errors: list[CntkError]
) -> tuple[list[Feature], list[Label]]:
    """Read the blocks of streams; what is wrong is added to ``errors``."""
    found = [collect(partial(_read_block, block, name, what), errors) for name in names]
    features = [one for one in found if isinstance(one, Feature)]
    return features, [one for one in found if isinstance(one, Label)]


def _read_block(block: Config, name: str, what: str) -> Feature | Label:
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    if _is_label(section):
        labels = section.bind(LabelKeys, ignore=_UNUSED, what=told)
        return Label(name, labels.label_dim, section.where)
    features = section.bind(FeatureKeys, ignore=_UNUSED, what=told)
    return Feature(name, features.dim, features.file, section.where)


def _is_label(section: Config) -> bool:
    kind = section.own("sectionType")
    if kind is not None:
        return kind.string().lower() == "labels"
    return any(section.own(key) is not None for key in _LABEL_KEYS)


def input_of(
    context: ReaderContext, name: str, dim: int, where: Location | None, known: str
) -> tuple[str, tuple[int, ...]]:
    """Return the network input that a stream feeds and its shape.

    Args:
        context: what the network needs.
        name: of the stream.
        dim: its values.
        where: its place in the recipe.
        known: what says the dimension, for the message.

    Raises:
        ConfigError: the input has another number of values.
    """
    found, shape = ChunkedReader.find_input(context, name)
    if shape is not None and math.prod(shape) != dim:
        text = f"stream '{name}' has {known}={dim}, but the network's input '{found}' is {show(shape)}"
        raise ConfigError(text, where=where, hint=f"Set {known}={math.prod(shape)}, or change the input.")
    return found, shape or (dim,)
