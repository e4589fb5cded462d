"""From BrainScript's words for an operation's settings to the attributes of our ops."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from cntk_builder_brainscript.leaves import channels_last, image_dims
from cntk_builder_brainscript.settings import Settings
from cntk_builder_brainscript.values import Record, flatten, number_text
from cntk_core.api import CntkError, Op

WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "*": {
        "kernel_shape": ("kernelShape",),
        "map_count": ("mapCount",),
        "stride": ("strideShape",),
        "sharing": ("dimSharing",),
        "auto_padding": ("dimPadding",),
        "lower_pad": ("dimPadLower",),
        "upper_pad": ("dimPadUpper",),
        "output_shape": ("dimOutputShape",),
        "ceil_out_dim": ("ceilOut",),
        "include_pad": ("poolIncludePad",),
        "pool_kind": ("pool",),
    },
    "Slice": {"begin": ("beginIndex",), "end": ("endIndex",), "stride": ("stride",)},
    "Reshape": {"dims": ("shape",)},
    "PastValue": {"dims": ("shape",)},
    "FutureValue": {"dims": ("shape",)},
    "ROIPooling": {"spatial_scale": ("featureScale",)},
    "QuantizedTimes": {
        "bit_smoothing_a": ("bitShiftA", "bitSmoothingA"),
        "bit_smoothing_b": ("bitShiftB", "bitSmoothingB"),
    },
    "EditDistanceError": {
        "substitution_penalty": ("subPen",),
        "deletion_penalty": ("delPen",),
        "insertion_penalty": ("insPen",),
    },
    "OptimizedRNNStack": {"hidden_size": ("hiddenDims",)},
    "RandomSample": {"num_samples": ("sizeOfSampledSet",)},
    "RandomSampleInclusionFrequency": {"num_samples": ("sizeOfSampledSet",)},
}
"""Where a setting is not the attribute's name in camel case: op (``*``: any) to attribute to BrainScript's words."""

FIXED: Mapping[str, frozenset[str]] = {
    "TransposeTimes": frozenset({"output_rank", "infer_input_rank_to_map"}),
}
"""Attributes that BrainScript does not read although a surrounding record may have members of these names."""


def camel_case(name: str) -> str:
    """``output_rank`` -> ``outputRank``."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def read_attributes(op: Op, settings: Settings) -> Any:
    """Return the attributes of an op, read from the members of a record.

    Raises:
        BuildError: a member has the wrong kind, or one without default is missing.
        CntkError: the op refuses a value.
    """
    if op.name in SPECIAL:
        return SPECIAL[op.name](op, settings)
    return _generic(op, settings)


def _generic(op: Op, settings: Settings, leave: frozenset[str] = frozenset()) -> Any:
    given: dict[str, Any] = {}
    for name, words, read in _fields(op):
        if name in leave:
            continue
        word = next((word for word in words if settings.has(word)), None)
        if word is not None and not (_is_required(op, name) and _is_scalar(op, name) and _is_none(settings, word)):
            given[name] = read(settings, word)
        elif _is_required(op, name):
            raise settings.missing(words[0])
    try:
        return op.attributes(**given)
    except CntkError as error:
        error.where = error.where or settings.where
        raise


def _legacy_reshape(op: Op, settings: Settings) -> Any:
    sides = [settings.whole(f"image{side}", 0) for side in ("Width", "Height", "Channels")]
    image = image_dims(settings) if all(sides) else ()
    return op.attributes(rows=settings.whole("numRows"), image=image)


def _trace(op: Op, settings: Settings) -> Any:
    record = settings.record.find("format")
    members = record.names() if isinstance(record, Record) else ()
    layout = tuple(f"{name}={_plain(record.own(name))}" for name in members if isinstance(record, Record))
    return attrs.evolve(_generic(op, settings, leave=frozenset({"format"})), format=layout)


def _plain(value: object) -> str:
    """Write a value as recipes write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return number_text(value) if isinstance(value, float) else str(value)


SPECIAL: Mapping[str, Callable[[Op, Settings], Any]] = {"LegacyReshape": _legacy_reshape, "Trace": _trace}
"""Operations whose settings are not read one by one."""


_Read = Callable[[Settings, str], Any]


@functools.cache
def _fields(op: Op) -> tuple[tuple[str, tuple[str, ...], _Read], ...]:
    """For each attribute its name, its words in BrainScript and how it is read."""
    hints = typing.get_type_hints(op.attributes)
    fixed = FIXED.get(op.name, frozenset())
    own, common = WORDS.get(op.name, {}), WORDS["*"]
    return tuple(
        (name, own.get(name) or common.get(name) or (camel_case(name),), _reader(name, hints[name]))
        for name in (field.name for field in attrs.fields(op.attributes))
        if name not in fixed
    )


def words_of(op: Op) -> tuple[tuple[str, str], ...]:
    """For each attribute its name and its first word in BrainScript."""
    return tuple((name, words[0]) for name, words, _ in _fields(op))


@functools.cache
def _is_required(op: Op, name: str) -> bool:
    field = next(field for field in attrs.fields(op.attributes) if field.name == name)
    return field.default is attrs.NOTHING


@functools.cache
def _is_scalar(op: Op, name: str) -> bool:
    return typing.get_type_hints(op.attributes)[name] in (bool, int, float, str)


def _reader(name: str, hint: Any) -> _Read:
    if name == "image_layout":
        return lambda settings, word: "CHW" if channels_last(settings) else "HWC"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = next(part for part in typing.get_args(hint) if part is not type(None))
        read = _reader(name, inner)
        return lambda settings, word: None if _is_none(settings, word) else read(settings, word)
    if typing.get_origin(hint) is tuple:
        items: dict[Any, _Read] = {int: Settings.wholes, bool: Settings.flags, float: Settings.numbers}
        return items.get(typing.get_args(hint)[0], _as_it_is)
    single: dict[Any, _Read] = {
        bool: Settings.flag,
        int: Settings.whole,
        float: Settings.number,
        str: Settings.text,
    }
    return single.get(hint, _as_it_is)


def _is_none(settings: Settings, word: str) -> bool:
    return not flatten(settings.record.find(word))


def _as_it_is(settings: Settings, word: str) -> Any:
    return settings.record.get(word)
