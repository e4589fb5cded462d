"""``cntk convert-data``: data as a binary file."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb
from cntk_core.api.recipes import add_recipe, recipe_arguments


class ConvertData(Verb):
    """Write what a recipe reads as a file in CNTK's binary format."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe, the block, and the new file."""
        add_recipe(parser)
        add = parser.add_argument
        add("-o", "--output", required=True, metavar="FILE", help="the new file")
        add("--section", help="the command section (default: the first that reads data)")
        add("--key", choices=("reader", "cvReader"), default="reader", help="the block (default: reader)")
        add("--precision", choices=("float", "double"), default="", help="default: that of the recipe")
        add("--chunk-size", type=int, default=0, metavar="BYTES", help="a chunk is about this large")

    def run(self, options: argparse.Namespace) -> int:
        """Write the file."""
        from cntk_tool_inspect.convert_data import convert_data

        return convert_data(
            recipe_arguments(options),
            output=options.output,
            section=options.section,
            key=options.key,
            precision=options.precision,
            chunk_bytes=options.chunk_size,
            plugin_files=options.plugin,
        )
