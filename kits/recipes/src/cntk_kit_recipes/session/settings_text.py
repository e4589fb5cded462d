"""The settings of a training as text, by key, and what differs between two of them."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import attrs

from cntk_core.config import Schedule, option_key
from cntk_core.errors import Location
from cntk_core.plugins.addresses import with_addresses

NOT_GIVEN = "not given"


def settings_text(settings: Any, prefix: str, *, leave_out: Collection[str] = ()) -> dict[str, str]:
    """Return the values of an options class by key; those in it and in tuples of it, too.

    What has no text that is the same in every run (an array, a function) is left out, and so are places in files.
    A copy of a file elsewhere stands there with its address: copies lie somewhere else on another machine.

    Args:
        settings: an instance, or something else that has no keys.
        prefix: what keys begin with, such as ``SGD``.
        leave_out: names of fields.
    """
    return {key: with_addresses(text) for key, text in _texts(settings, prefix, leave_out)}


def _texts(value: Any, key: str, leave_out: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    if isinstance(value, Location) or callable(value):
        return
    if attrs.has(type(value)) and not isinstance(value, Schedule):
        for field in attrs.fields(cast(Any, type(value))):
            if field.name not in leave_out:
                yield from _texts(getattr(value, field.name), f"{key}.{option_key(field)}")
    elif isinstance(value, tuple | list) and any(attrs.has(type(part)) for part in value):
        for index, part in enumerate(value):
            yield from _texts(part, f"{key}.{getattr(part, 'name', index)}")
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _texts(part, f"{key}.{name}")
    elif value is None:
        yield key, NOT_GIVEN
    elif isinstance(value, bool):
        yield key, str(value).lower()
    elif isinstance(value, enum.Enum):
        yield key, value.name.lower()
    elif isinstance(value, str | int | float | Path | Schedule):
        yield key, str(value)
    elif isinstance(value, tuple | list):
        yield key, ":".join(str(part) for part in value)


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a line for each key that has another value now, or that only one side has."""
    keys = dict.fromkeys([*now, *before])
    return [
        f"{key}: was {before.get(key, NOT_GIVEN)}, is {now.get(key, NOT_GIVEN)}"
        for key in keys
        if before.get(key, NOT_GIVEN) != now.get(key, NOT_GIVEN)
    ]
