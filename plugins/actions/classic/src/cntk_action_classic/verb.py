"""``cntk edit``: models are changed by scripts and commands."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb
from cntk_core.api.recipes import add_recipe, run_action


class Edit(Verb):
    """Change models: with a script (.mel), with commands, or as a recipe's edit actions say."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add a script, model or recipe, and commands for a model."""
        add_recipe(parser)
        parser.usage = (
            "cntk edit script.mel [key=value ...]\n"
            '       cntk edit model.dnn -c "Command(...)" [-c ...] [-s script.mel] -o edited.dnn\n'
            "       cntk edit recipe.cntk [key=value ...]"
        )
        parser.add_argument(
            "-c",
            "--command",
            dest="commands",
            action="append",
            default=[],
            help="a command for the model; may be repeated",
        )
        parser.add_argument("-s", "--script", metavar="FILE", help="a script for the model; runs before the commands")
        parser.add_argument("-o", "--output", metavar="FILE", help="where the edited model is saved")

    def run(self, options: argparse.Namespace) -> int:
        """Change models."""
        from cntk_action_classic.edit_verb import edit_model, edit_with_script, is_script

        if options.commands or options.script or options.output:
            return edit_model(
                options.recipe,
                options.overrides,
                script=options.script,
                commands=options.commands,
                output=options.output,
                plugin_files=options.plugin,
            )
        if is_script(options.recipe):
            return edit_with_script(options.recipe, options.overrides, plugin_files=options.plugin)
        return run_action(options)
