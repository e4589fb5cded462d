"""What a recipe says of one job, as plain texts: to tell runs apart afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from cntk_core.api import CntkError, Config, Value

PLACES = frozenset(
    {
        "modelpath",
        "outputmodelpath",
        "newmodelpath",
        "outputpath",
        "outputfile",
        "outputdotfile",
        "jsonlog",
        "csvlog",
        "tensorboardlogdir",
        "stderr",
        "donefile",
        "currentdirectory",
    }
)
"""Keys, in small letters, that say where a run writes."""

INDIFFERENT = PLACES | {"makemode", "resume"}
"""Keys, in small letters, that do not change what is learned."""

_HASH_LENGTH = 12
_MAX_DEPTH = 20


def settings_of(block: Config | None) -> dict[str, str]:
    """Return the values of a job by their path in the recipe, ``Train:SGD:minibatchSize``.

    They are those of the job's own section, with its blocks, and the plain ones of the top level.

    Args:
        block: of the job: its section, or a block inside it.
    """
    if block is None:
        return {}
    *inner, top = block.chain()
    found = dict(_plain(top))
    if inner:
        found.update(_entries(inner[-1], _MAX_DEPTH))
    return found


def hash_of(settings: Mapping[str, str]) -> str:
    """Return a short text that is the same for the same settings, wherever a run writes, and where it went on."""
    kept = {path.lower(): text for path, text in settings.items() if path.lower().rpartition(":")[2] not in INDIFFERENT}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]


def _plain(config: Config) -> Iterator[tuple[str, str]]:
    for key in config.keys():  # noqa: SIM118 - a Config is no dict
        value = config.own(key)
        if value is not None and not _is_block(value):
            yield value.name, _text(value)


def _entries(config: Config, depth: int) -> Iterator[tuple[str, str]]:
    for key in config.keys():  # noqa: SIM118 - a Config is no dict
        value = config.own(key)
        if value is None:
            continue
        inner = _section(value) if depth and _is_block(value) else None
        if inner is None:
            yield value.name, _text(value)
        else:
            yield from _entries(inner, depth - 1)


def _is_block(value: Value) -> bool:
    try:
        return value.is_block
    except CntkError:
        return False  # a variable that nobody knows


def _section(value: Value) -> Config | None:
    """Return a block as a section; None where it is something else, such as a network in some language."""
    try:
        return value.config()
    except CntkError:
        return None


def _text(value: Value) -> str:
    """Return a value in one line, with variables filled in where they are known."""
    try:
        text = value.full().text
    except CntkError:
        text = value.raw.text
    return " ".join(text.split())
