"""The action plot: the network of a model as DOT text, and beside it as a picture that needs no other program."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from cntk_core.api import Action, Config, ConfigError, TrainingError
from cntk_core.api.builders import to_dot, to_svg, write_text
from cntk_core.api.recipes import RecipeContext

PICTURE = ".svg"
"""Suffix of the pictures that we draw ourselves."""


class PlotAction(Action):
    """Writes the network of a model as DOT text, and beside it as a picture."""

    requires_api = "1.0"
    name = "plot"
    writes = ("outputDotFile", "outputFile")
    runs = ("renderCmd",)

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        section.require("modelPath")
        target = section.string("outputFile", "")
        if target and not section.string("renderCmd", "") and Path(target).suffix.lower() != PICTURE:
            raise ConfigError(
                "plot: If you specify an outputFile, you also need a renderCmd.",
                where=section.location("outputFile"),
                hint=f"Without one an outputFile that ends in {PICTURE} is drawn; with one, for example: "
                'renderCmd="dot -Tpng <IN> -o<OUT>"',
            )

    def run(self, context: RecipeContext, section: Config) -> None:
        """Write ``outputDotFile``, the picture beside it, and what ``renderCmd`` makes of it.

        Raises:
            CntkError: the model cannot be read, a file cannot be written, or the command failed.
        """
        model = section.string("modelPath")
        network = context.load_model(model, section.location("modelPath"))
        dot = section.string("outputDotFile", "") or f"{model}.dot"
        target, command = section.string("outputFile", ""), section.string("renderCmd", "")
        write_text(dot, to_dot(network))
        context.log.plain(f"Created network description in dot format: {dot}")
        picture = str(Path(dot).with_suffix(PICTURE)) if command or not target else target
        write_text(picture, to_svg(network))
        context.log.plain(f"Created picture: {picture}")
        if command:
            _render(context, section, command.replace("<IN>", shlex.quote(dot)).replace("<OUT>", shlex.quote(target)))
        context.log.plain("Done.")


def _render(context: RecipeContext, section: Config, command: str) -> None:
    context.log.plain(f"Executing third-party tool for rendering dot:\n{command}")
    status = subprocess.run(command, shell=True, check=False).returncode
    if status:
        raise TrainingError(
            f"plot: the renderCmd ended with exit status {status}: {command}", where=section.location("renderCmd")
        )
