"""``cntk dump``: a model as text."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb
from cntk_tool_inspect.verbs.depth import add_depth


class Dump(Verb):
    """Print the nodes of a model and their values."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the model and which nodes of it."""
        parser.add_argument("model", metavar="MODEL", help="a model file")
        parser.add_argument("--node", default="", metavar="REGEX", help="only nodes whose whole name matches")
        parser.add_argument(
            "--values",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="the values of parameters (default: yes)",
        )
        parser.add_argument("-o", "--output", default="-", metavar="FILE", help="the file (default: standard output)")
        add_depth(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Print them."""
        from cntk_tool_inspect.show_model import dump_model

        return dump_model(
            options.model,
            pattern=options.node,
            values=options.values,
            output=options.output,
            depth=options.depth,
            plugin_files=options.plugin,
        )
