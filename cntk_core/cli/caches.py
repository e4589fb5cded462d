"""Compiled code that components keep on disk: found, and removed by ``cntk doctor --clear-cache``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cntk_core.errors import PluginError

if TYPE_CHECKING:
    from cntk_core.contract.cache import Cache
    from cntk_core.plugins.manager import PluginManager

WORDS = ("engine", "reader", "aggregation")
"""Kinds of components that may compile."""


def caches(manager: PluginManager) -> Iterator[tuple[str, Cache]]:
    """The caches of all components that can be loaded, and whose they are."""
    for word in WORDS:
        for offer in manager.registry.table(word).offers():
            component = offer.outcome()
            if not isinstance(component, PluginError):
                yield from ((f"{word} {offer.name}", cache) for cache in component.caches())


def clear(*, plugin_files: Sequence[str] = ()) -> int:
    """Remove all entries and say how many there were. Return 1 if one cannot be removed."""
    from cntk_core.plugins.manager import PluginManager

    failed = 0
    for owner, cache in caches(PluginManager(plugin_files=plugin_files)):
        name, state = f"{cache.title} of {owner}", cache.state()
        try:
            print(f"{name}: removed {cache.clear()} entries ({size_text(state.size)}) from {state.folder}")
        except OSError as error:
            print(f"{name}: cannot be removed from {state.folder}: {error.strerror}", file=sys.stderr)
            failed = 1
    return failed


def size_text(size: int) -> str:
    """Bytes in a form for people."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{-(-size // 2**10)} KiB"
