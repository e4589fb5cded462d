"""The plugins that are installed, found once for all."""

from __future__ import annotations

from functools import cache
from typing import Any

from cntk_core.api.recipes import PluginManager


@cache
def registry() -> Any:
    """Return the tables of what plugins offer."""
    return PluginManager().registry
