"""``cntk doctor``."""

from __future__ import annotations

import argparse

from cntk_core.contract.verb import Verb


class Doctor(Verb):
    """Say what works on this machine, and what mends the rest."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what is for programs, and what removes compiled code."""
        parser.add_argument("--json", action="store_true", help="for programs")
        parser.add_argument(
            "--clear-cache", action="store_true", help="remove the compiled code that is kept, and do nothing else"
        )

    def run(self, options: argparse.Namespace) -> int:
        """Print the findings, or remove compiled code."""
        from cntk_kit_recipes.authoring.doctor import clear_caches, doctor

        if options.clear_cache:
            return clear_caches(plugin_files=options.plugin)
        return doctor(plugin_files=options.plugin, as_json=options.json)
