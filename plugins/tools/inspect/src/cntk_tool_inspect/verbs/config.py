"""``cntk config show`` and ``cntk config check``."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb
from cntk_core.api.recipes import add_recipe, recipe_arguments


class ShowConfig(Verb):
    """Show what a recipe says once everything is put together, or check it."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the tasks show and check."""
        tasks = parser.add_subparsers(metavar="TASK", dest="task", required=True)
        show = tasks.add_parser("show", help="print the effective configuration, and where each value comes from")
        add_recipe(show)
        show.add_argument("--section", help="only this section, such as Train or Train:SGD")
        show.add_argument("--resolved", action="store_true", help="with $variables$ filled in")
        show.add_argument(
            "--given", action="store_true", help="without the values that the recipe leaves to the program"
        )
        show.add_argument("--json", action="store_true", help="for programs")
        check = tasks.add_parser("check", help="report everything that is wrong with a recipe, without running it")
        add_recipe(check)

    def run(self, options: argparse.Namespace) -> int:
        """Show or check a recipe."""
        from cntk_tool_inspect.show_config import check_config, show_config

        if options.task == "check":
            return check_config(recipe_arguments(options), plugin_files=options.plugin)
        return show_config(
            recipe_arguments(options),
            section=options.section,
            resolved=options.resolved,
            defaults=not options.given,
            as_json=options.json,
            plugin_files=options.plugin,
        )
