"""Which block of a recipe describes a network, as builders say it themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from cntk_core.config import Config, Value
from cntk_core.errors import PluginError
from cntk_core.plugins.known import known
from cntk_core.plugins.registry import BUILDER, ComponentTable, Registry


def network_value(registry: Registry, section: Config) -> Value | None:
    """Return the value that describes a network, found here or in a parent, or None.

    Of several, that whose builder has the highest priority. A builder that is not installed, or is broken, comes before
    all others: which network a recipe describes must not depend on what is installed.
    """
    found = [value for value in map(section.get, _words(registry)) if value is not None]
    ranked = [(rank, value) for value in found if (rank := _priority(registry, value.short_name)) is not None]
    return max(ranked, key=lambda one: one[0])[1] if ranked else None


def network_words(registry: Registry) -> list[str]:
    """Return the words of blocks that describe networks, those first that come first."""
    ranked = [(rank, word) for word in _words(registry) if (rank := _priority(registry, word)) is not None]
    return [word for _, word in sorted(ranked, key=lambda one: -one[0])]


def languages(registry: Registry, keys: Iterable[str]) -> frozenset[str]:
    """Return those of some keys, in lower case, whose blocks are not sections: they are in a language of networks."""
    words = {word.lower() for word in _words(registry)}
    return frozenset(key.lower() for key in keys if key.lower() in words and not _is_section(registry, key))


def own_name(table: ComponentTable[Any], word: str) -> str:
    """Return the name that a component has for people where a word such as ``default`` means it.

    Raises:
        PluginError: nothing is offered under this word.
    """
    meant = table.find(word)
    same = [one.name for one in table.offers() if (one.target, one.source) == (meant.target, meant.source)]
    chosen = meant.target.rpartition(":")[2]
    return chosen if chosen in same and table.find(chosen).target == meant.target else word


def _words(registry: Registry) -> list[str]:
    """The words of all builders, also of those of ours that are not installed, each once."""
    others = (spelt for spelt, _ in known(BUILDER.group).values())
    return list({word.casefold(): word for word in (*others, *registry.builders.names())}.values())


def _priority(registry: Registry, word: str) -> float | None:
    """Return that of a builder; None for one that describes no networks."""
    try:
        builder = registry.builders.find(word).outcome()
    except PluginError:
        return math.inf
    if isinstance(builder, PluginError):
        return math.inf
    return builder.priority if builder.describes_networks else None


def _is_section(registry: Registry, word: str) -> bool:
    try:
        builder = registry.builders.find(word).outcome()
    except PluginError:
        return False
    return not isinstance(builder, PluginError) and builder.block_is_section
