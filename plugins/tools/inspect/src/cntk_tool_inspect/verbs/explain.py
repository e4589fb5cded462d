"""``cntk explain``."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb
from cntk_core.api.recipes import add_recipe, recipe_arguments
from cntk_tool_inspect.verbs.depth import add_depth


class Explain(Verb):
    """Show how the network of a recipe or of a model is computed, and how memory is shared."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe or model, a section, and a size of minibatches."""
        add_recipe(parser)
        parser.add_argument("--section", help="only this command section")
        parser.add_argument("--frames", type=int, default=0, help="rows of a minibatch (default: the recipe's)")

        add_depth(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Print the plan."""
        from cntk_tool_inspect.explain import explain_model, explain_recipe, is_model

        if not options.section and is_model(options.recipe, options.plugin):
            return explain_model(
                options.recipe,
                options.overrides,
                frames=options.frames,
                depth=options.depth,
                plugin_files=options.plugin,
            )
        return explain_recipe(
            recipe_arguments(options),
            section=options.section,
            frames=options.frames,
            depth=options.depth,
            plugin_files=options.plugin,
        )
