"""``cntk plugins``: what is installed and why something is not usable, new wheels, and checks of what is there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cntk_core.errors import MissingPluginError, did_you_mean
from cntk_core.plugins.report import PluginRecord, list_plugins, show_table

_SOUND = ("installed", "usable")


def run(options: argparse.Namespace) -> int:
    """Do what the command line asks for: ``list`` (the default), ``new`` or ``check``."""
    if options.task == "new":
        return _new(options.kind, options.name, options.folder)
    if options.task == "check":
        return check(options.name, options.plugin)
    print(show_table(list_plugins(options.plugin, check=True)))
    return 0


def _new(kind: str, name: str, folder: str) -> int:
    from cntk_core.plugins.scaffold import new_plugin, next_steps

    print(next_steps(new_plugin(kind, name, folder), kind))
    return 0


def check(name: str, plugin_files: Sequence[str] = ()) -> int:
    """Load every plugin of a name (``reader:NAME``, ``NAME`` or a wheel) and say whether it can be used.

    Raises:
        MissingPluginError: nothing has this name.
    """
    records = [record for record in list_plugins(plugin_files, check=True) if record.version or record.wheel]
    found = [record for record in records if _means(name, record)]
    if not found:
        names = [record.name for record in records] + [record.wheel for record in records]
        raise MissingPluginError(
            f"there is no plugin '{name}'{did_you_mean(name, names)}", hint="cntk plugins shows what is installed."
        )
    print(show_table(found))
    return 1 if any(record.state not in _SOUND for record in found) else 0


def _means(name: str, record: PluginRecord) -> bool:
    kind, _, word = name.rpartition(":")
    same_kind = not kind or kind.casefold() in (record.kind, record.wheel.casefold())
    return same_kind and word.casefold() in (record.name.casefold(), record.wheel.casefold())


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Let installed plugins add verbs of their own."""
    from cntk_core.plugins.manager import PluginManager

    for listener in PluginManager().listeners("cntk_add_commands"):
        listener(subparsers=subparsers)
