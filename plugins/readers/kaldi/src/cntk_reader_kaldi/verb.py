"""The verb ``cntk kaldi-prepare``. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from pathlib import Path

from cntk_core.api import Verb


class KaldiPrepare(Verb):
    """Run the commands of a recipe's Kaldi tables once, after showing them, and write archives."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe, where the archives go, and whether to ask."""
        from cntk_core.api.recipes import add_recipe

        add_recipe(parser)
        add = parser.add_argument
        add("--section", default=None, help="look at the readers of this command section only")
        add("--to", type=Path, default=Path("kaldi"), metavar="DIR", help="where the archives go (default: kaldi)")
        add("--yes", action="store_true", help="run the commands without asking")

    def run(self, options: argparse.Namespace) -> int:
        """Write the archives."""
        from cntk_core.api.recipes import recipe_arguments
        from cntk_reader_kaldi.prepare import prepare

        return prepare(
            recipe_arguments(options),
            options.to,
            section=options.section,
            agreed=options.yes,
            plugin_files=options.plugin,
        )
