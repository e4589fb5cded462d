"""``cntk convert``: models from one format to another."""

from __future__ import annotations

import argparse

from cntk_core.api import UsageError, Verb


class Convert(Verb):
    """Read a model of any known format, also of the original CNTK, and write it as another file."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the model, the new file, its precision and format, and what the format is told."""
        parser.add_argument("model", metavar="MODEL", help="a model file")
        parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the new model file")
        parser.add_argument("--precision", choices=("float", "double"), default="", help="default: that of the model")
        parser.add_argument(
            "--format", default="", metavar="NAME", help="default: by the suffix of the file, else the program's own"
        )
        parser.add_argument("--check", action="store_true", help="run the new file elsewhere, and compare the values")
        parser.add_argument("--quantize", default="", metavar="TYPE", help="smaller numbers: int8 or fp16 (ONNX)")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a setting of the format, such as sequences=one (ONNX); may be given several times",
        )

    def run(self, options: argparse.Namespace) -> int:
        """Write the model file anew.

        Raises:
            UsageError: a setting is not written ``NAME=VALUE``.
        """
        from cntk_tool_inspect.convert_model import convert_model

        wrong = next((each for each in options.set if "=" not in each), None)
        if wrong is not None:
            raise UsageError(f"--set needs NAME=VALUE, not '{wrong}'")
        settings = dict(each.split("=", 1) for each in options.set)
        if options.quantize:
            settings["quantize"] = options.quantize
        return convert_model(
            options.model,
            options.output,
            precision=options.precision,
            form=options.format,
            settings=settings,
            check=options.check,
            plugin_files=options.plugin,
        )
