"""The plugins of a run: what its recipe says of them, and the manager that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cntk_core.config import Config
from cntk_core.errors import ConfigError
from cntk_kit_recipes.recipe.log import Log

if TYPE_CHECKING:
    from cntk_core.plugins.manager import PluginManager


def make_plugins(
    log: Log,
    plugin_files: Sequence[str] = (),
    listeners: Sequence[object] = (),
    watchers: Sequence[object] = (),
    *,
    recipe: Sequence[str] = (),
) -> PluginManager:
    """Make the plugin manager of a run.

    Args:
        log: where warnings go.
        plugin_files: Python files with further components.
        listeners: get the events; an error in one ends the run.
        watchers: the same, but an error is only reported.
        recipe: what the recipe says of plugins: :func:`recipe_plugins`.
    """
    from cntk_core.plugins.manager import PluginManager

    return PluginManager(plugin_files, listeners, watchers=watchers, report=log.line, recipe=recipe)


def recipe_plugins(config: Config) -> tuple[str, ...]:
    """Return what the top level of a recipe says of plugins, in the words of a plugin manager."""
    from cntk_core.plugins.discovery import OFF
    from cntk_core.plugins.precedence import DISABLED, USED

    switched_off = (f"{OFF}{name}" for name in _words(config, DISABLED))
    return (*_words(config, USED), *switched_off)


def _words(config: Config, key: str) -> tuple[str, ...]:
    """Read names separated by commas or spaces, since ``kind:name`` has a colon; or an array in parentheses."""
    value = config.own(key)
    if value is None:
        return ()
    try:
        text = value.string()
    except ConfigError:
        return config.strings(key)
    return config.strings(key) if text.startswith("(") else tuple(text.replace(",", " ").split())
