"""``cntk explain``."""

from __future__ import annotations

import argparse

from cntk_core.api import UsageError, Verb
from cntk_core.api.recipes import add_recipe, recipe_arguments
from cntk_tool_inspect.verbs.depth import add_depth

_STEPS = 50


class Explain(Verb):
    """Show how the network of a recipe or of a model is computed, and how memory is shared."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe or model, a section, and a size of minibatches."""
        add_recipe(parser)
        parser.add_argument("--section", help="only this command section")
        parser.add_argument("--frames", type=int, default=0, help="rows of a minibatch (default: the recipe's)")
        add_depth(parser)
        parser.add_argument("--json", action="store_true", help="for programs; with all nodes, blocks are open")
        parser.add_argument("--time", action="store_true", help="train some steps, and say what each part takes")
        parser.add_argument("--steps", type=int, help=f"how many --time measures (default: {_STEPS})")
        parser.add_argument("--flame", default="", metavar="FILE.svg", help="draw what --time measures")
        parser.add_argument(
            "--trace", default="", metavar="FILE.json", help="write what --time measures for a time line (Perfetto)"
        )

    def run(self, options: argparse.Namespace) -> int:
        """Print the plan, or what its steps take."""
        if options.json and (options.time or options.depth):
            raise UsageError("--json describes the plan with all nodes: leave --time and --depth out")
        if options.time:
            return self._time(options)
        if options.flame or options.trace or options.steps is not None:
            raise UsageError("--steps, --flame and --trace are for what is measured: add --time")
        from cntk_tool_inspect.explain import explain_model, explain_recipe, is_model

        if not options.section and is_model(options.recipe, options.plugin):
            return explain_model(
                options.recipe,
                options.overrides,
                frames=options.frames,
                depth=options.depth,
                as_json=options.json,
                plugin_files=options.plugin,
            )
        return explain_recipe(
            recipe_arguments(options),
            section=options.section,
            frames=options.frames,
            depth=options.depth,
            as_json=options.json,
            plugin_files=options.plugin,
        )

    def _time(self, options: argparse.Namespace) -> int:
        from cntk_tool_inspect.explain import is_model
        from cntk_tool_inspect.timing.verb import time_recipe

        if options.frames or options.depth:
            raise UsageError(
                "--frames and --depth are for the plan: --time measures the recipe's own minibatches",
                hint="Their size is minibatchSize of the SGD block.",
            )
        if is_model(options.recipe, options.plugin):
            raise UsageError(
                f"'{options.recipe}' is a model, whose training nobody describes: --time measures that of a recipe"
            )
        return time_recipe(
            recipe_arguments(options),
            section=options.section,
            steps=_STEPS if options.steps is None else options.steps,
            flame=options.flame,
            trace=options.trace,
            plugin_files=options.plugin,
        )
