"""The action devtest: a self test of the original's developers, which has no counterpart here."""

from __future__ import annotations

from cntk_core.api import Action, Config
from cntk_core.api.recipes import RecipeContext


class DevtestAction(Action):
    """Says what there is in place of a self test."""

    requires_api = "1.0"
    name = "devtest"
    on_all_ranks = True

    def check(self, context: RecipeContext, section: Config) -> None:
        """Nothing can be wrong with the section."""

    def run(self, context: RecipeContext, section: Config) -> None:
        """Say what to do in its place."""
        context.log.line(
            "devtest was a self test for the developers of the original, and does nothing here. "
            "'cntk doctor' says what works on this machine."
        )
