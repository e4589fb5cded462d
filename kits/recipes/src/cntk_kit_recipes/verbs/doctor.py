"""``cntk doctor``."""

from __future__ import annotations

import argparse

from cntk_core.contract.verb import Verb


class Doctor(Verb):
    """Say what works on this machine, and what mends the rest."""

    requires_api = "1.0"

    def run(self, options: argparse.Namespace) -> int:
        """Print the findings."""
        from cntk_kit_recipes.authoring.doctor import doctor

        return doctor(plugin_files=options.plugin)
