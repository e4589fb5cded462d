"""``cntk plugins``: what is installed and why something is not usable, new wheels, and checks of what is there."""

from __future__ import annotations

import argparse

from cntk_core.contract.verb import Verb

_MORE = "Without --names each of them is loaded, and the table says why one is not usable."


class Plugins(Verb):
    """List, make and check plugins."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the tasks list, new and check."""
        parser.set_defaults(task="list")
        parser.add_argument("--times", action="store_true", help="also how long the import of each plugin takes")
        tasks = parser.add_subparsers(metavar="TASK", dest="task")
        table = tasks.add_parser("list", help="a table of what is there and why something is not usable (default)")
        table.add_argument("--names", action="store_true", help="only the names that wheels claim; load nothing")
        table.add_argument("--all", action="store_true", help="also what the core itself offers in these ways")
        table.add_argument("--times", action="store_true", default=argparse.SUPPRESS, help="as above")
        new = tasks.add_parser("new", help="write a complete small wheel with its contract test")
        new.add_argument("kind", help="what it is: reader, learner, action ... (a wrong one lists them)")
        new.add_argument("name", help="the word that a recipe will write")
        new.add_argument("--folder", default=".", help="where the wheel's folder goes (default: here)")
        check = tasks.add_parser("check", help="load a plugin and check it against its interface")
        check.add_argument("name", help="its name, or KIND:NAME, or a wheel")

    def run(self, options: argparse.Namespace) -> int:
        """Do what the task asks for; return the exit code."""
        if options.task == "new":
            return _new(options.kind, options.name, options.folder)
        if options.task == "check":
            from cntk_core.plugins.check import check_plugin

            return check_plugin(options.name, plugin_files=options.plugin)
        return _list(options)


def _list(options: argparse.Namespace) -> int:
    from cntk_core.plugins.report import list_plugins, show_table

    check = not getattr(options, "names", False)
    records = list_plugins(options.plugin, check=check, core=getattr(options, "all", False))
    times = bool(getattr(options, "times", False))
    print(show_table(records, () if check else ("", _MORE), times=times))
    return 0


def _new(kind: str, name: str, folder: str) -> int:
    from cntk_core.plugins.scaffold import new_plugin, next_steps

    print(next_steps(new_plugin(kind, name, folder), kind))
    return 0
