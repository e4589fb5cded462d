"""``cntk convert``: models from one format to another."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Convert(Verb):
    """Read a model of any known format, also of the original CNTK, and write it as another file."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the model, the new file, its precision and format."""
        parser.add_argument("model", metavar="MODEL", help="a model file")
        parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the new model file")
        parser.add_argument("--precision", choices=("float", "double"), default="", help="default: that of the model")
        parser.add_argument(
            "--format", default="", metavar="NAME", help="default: by the suffix of the file, else the program's own"
        )

    def run(self, options: argparse.Namespace) -> int:
        """Write the model file anew."""
        from cntk_tool_inspect.convert_model import convert_model

        return convert_model(
            options.model,
            options.output,
            precision=options.precision,
            form=options.format,
            plugin_files=options.plugin,
        )
