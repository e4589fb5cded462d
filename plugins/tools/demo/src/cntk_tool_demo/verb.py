"""The verb ``cntk demo``."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Demo(Verb):
    """Train on real handwritten digits and show how."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the folder."""
        parser.add_argument("--folder", default="demo", help="where recipe, data and results go (default: ./demo)")

    def run(self, options: argparse.Namespace) -> int:
        """Run the demonstration."""
        from cntk_tool_demo import run_demo

        return run_demo(options.folder)
