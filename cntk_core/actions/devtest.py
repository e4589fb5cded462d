"""The action devtest: a self test of the original's developers, which has no counterpart here."""

from __future__ import annotations

from cntk_core.config import Config
from cntk_core.contract.action import Action
from cntk_core.recipe.context import ActionContext


class DevtestAction(Action):
    """Says what there is in place of a self test."""

    requires_api = "1.0"
    name = "devtest"
    on_all_ranks = True

    def check(self, context: ActionContext, section: Config) -> None:
        """Nothing can be wrong with the section."""

    def run(self, context: ActionContext, section: Config) -> None:
        """Say what to do in its place."""
        context.log.line(
            "devtest was a self test for the developers of the original, and does nothing here. "
            "'cntk doctor' says what works on this machine."
        )
