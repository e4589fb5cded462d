"""``cntk plot``: the network of a model or of a recipe as a picture."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb
from cntk_core.api.recipes import add_overrides
from cntk_tool_inspect.verbs.depth import add_depth


class Plot(Verb):
    """Draw the network of a model or of a recipe."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the source and the file."""
        parser.add_argument("source", metavar="MODEL", help="a model file, or a recipe that describes a network")
        add_overrides(parser)
        parser.add_argument(
            "-o",
            "--output",
            default="",
            metavar="FILE",
            help="net.svg or net.dot (default: MODEL.svg here; - is stdout)",
        )
        parser.add_argument("--section", help="the command section of a recipe (default: the first with a network)")
        add_depth(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Draw it."""
        from cntk_tool_inspect.show_model import plot

        return plot(
            options.source,
            options.overrides,
            output=options.output,
            section=options.section,
            depth=options.depth,
            plugin_files=options.plugin,
        )
