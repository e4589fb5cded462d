"""``cntk check-data``."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb
from cntk_core.api.recipes import add_recipe, recipe_arguments


class CheckData(Verb):
    """Report everything that is wrong with the data files of a recipe."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe and a section."""
        add_recipe(parser)
        parser.add_argument("--section", help="only this command section")

    def run(self, options: argparse.Namespace) -> int:
        """Look at the data files."""
        from cntk_tool_inspect.check_data import check_data

        return check_data(recipe_arguments(options), section=options.section, plugin_files=options.plugin)
