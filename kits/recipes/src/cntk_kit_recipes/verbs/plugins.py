"""``cntk plugins``: what is installed and why something is not usable, new wheels, and checks of what is there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cntk_core.contract.verb import Verb

_MORE = "Without --names each of them is loaded, and the table says why one is not usable."


class Plugins(Verb):
    """List, show, make and check plugins."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the tasks list, show, new and check."""
        parser.set_defaults(task="list")
        parser.add_argument("--times", action="store_true", help="also how long the import of each plugin takes")
        tasks = parser.add_subparsers(metavar="TASK", dest="task")
        table = tasks.add_parser("list", help="a table of what is there and why something is not usable (default)")
        table.add_argument("--names", action="store_true", help="only the names that wheels claim; load nothing")
        table.add_argument("--all", action="store_true", help="also what the core itself offers in these ways")
        table.add_argument("--times", action="store_true", default=argparse.SUPPRESS, help="as above")
        table.add_argument("--kind", help="only plugins of this kind: reader, learner, ops ...")
        table.add_argument("--json", action="store_true", help="for programs")
        show = tasks.add_parser("show", help="everything about one plugin, its options with types and defaults")
        show.add_argument("name", help="its name, KIND:NAME, a wheel, an op; or a model file: what made it")
        show.add_argument("--json", action="store_true", help="for programs")
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
            from cntk_kit_recipes.authoring.check import check_plugin

            return check_plugin(options.name, plugin_files=options.plugin)
        if options.task == "show":
            return _show(options.name, options.plugin, as_json=options.json)
        return _list(options)


def _show(name: str, plugin_files: Sequence[str], *, as_json: bool) -> int:
    from cntk_core.records.origin import as_text
    from cntk_kit_recipes.authoring import details

    if Path(name).is_file():
        from cntk_core.network.model_file import read_model_origins

        origins = read_model_origins(name)
        print(details.as_json(origins) if as_json else as_text(origins))
        return 0
    found = details.describe_plugins(name, plugin_files)
    print(details.as_json(found) if as_json else details.show_details(found))
    return 0


def _list(options: argparse.Namespace) -> int:
    from cntk_kit_recipes.authoring.report import list_plugins, of_kind, show_table

    check = not getattr(options, "names", False)
    kind = getattr(options, "kind", None) or ""
    records = of_kind(list_plugins(options.plugin, check=check, core=getattr(options, "all", False)), kind)
    if getattr(options, "json", False):
        from cntk_kit_recipes.authoring.details import as_json

        print(as_json(records))
        return 0
    times = bool(getattr(options, "times", False))
    print(show_table(records, () if check else ("", _MORE), times=times))
    return 0


def _new(kind: str, name: str, folder: str) -> int:
    from cntk_kit_recipes.authoring.scaffold import new_plugin, next_steps

    print(next_steps(new_plugin(kind, name, folder), kind))
    return 0
