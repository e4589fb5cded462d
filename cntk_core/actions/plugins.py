"""``cntk plugins``: what is installed and why something is not usable, new wheels, and checks of what is there."""

from __future__ import annotations

import argparse

_MORE = "Without --names each of them is loaded, and the table says why one is not usable."


def run(options: argparse.Namespace) -> int:
    """Do what the command line asks for: ``list`` (the default), ``new`` or ``check``; return the exit code."""
    if options.task == "new":
        return _new(options.kind, options.name, options.folder)
    if options.task == "check":
        from cntk_core.plugins.check import check_plugin

        return check_plugin(options.name, plugin_files=_files(options))
    return _list(options)


def _files(options: argparse.Namespace) -> list[str]:
    """The plugin files, whether they were named before the task or after it."""
    return [*options.plugin, *getattr(options, "plugin_after", ())]


def _list(options: argparse.Namespace) -> int:
    from cntk_core.plugins.report import list_plugins, show_table

    check = not getattr(options, "names", False)
    print(show_table(list_plugins(_files(options), check=check), () if check else ("", _MORE)))
    return 0


def _new(kind: str, name: str, folder: str) -> int:
    from cntk_core.plugins.scaffold import new_plugin, next_steps

    print(next_steps(new_plugin(kind, name, folder), kind))
    return 0


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Let installed plugins add verbs of their own."""
    from cntk_core.plugins.manager import PluginManager

    for listener in PluginManager().listeners("cntk_add_commands"):
        listener(subparsers=subparsers)
