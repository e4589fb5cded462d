"""``cntk plugins``: list, make and check plugins; and the verbs that plugins add to the command line."""

from __future__ import annotations

import argparse


def add_commands(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Let plugins add their verbs, and return the names of those."""
    from cntk_core.plugins.manager import PluginManager

    verbs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    before = set(verbs.choices)
    for listener in PluginManager().listeners("cntk_add_commands"):
        listener(subparsers=verbs)
    return tuple(name for name in verbs.choices if name not in before)


def run(options: argparse.Namespace) -> int:
    """Run ``cntk plugins list``, ``new`` or ``check``; return the exit code."""
    task = options.task or "list"
    if task == "new":
        return _new(options)
    if task == "check":
        return _check(options)
    from cntk_core.plugins.report import list_plugins, show_table

    print(show_table(list_plugins(options.plugin, check=getattr(options, "check", False))))
    return 0


def _new(options: argparse.Namespace) -> int:
    from cntk_core.plugins.scaffold import new_plugin, next_steps

    folder = new_plugin(options.kind, options.name, options.folder)
    print(next_steps(folder, options.kind))
    return 0


def _check(options: argparse.Namespace) -> int:
    from cntk_core.plugins.check import check_plugin

    return check_plugin(options.name)
