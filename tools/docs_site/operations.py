"""Pages of operations."""

from __future__ import annotations

from docs_site.navigation import Entry


def entries() -> list[Entry]:
    """Return the entries."""
    return []


def pages_of_all() -> dict[str, str]:
    """Return all."""
    return {}
