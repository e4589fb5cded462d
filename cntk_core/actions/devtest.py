"""The action devtest: a self test of the original's developers, which has no counterpart here."""

from __future__ import annotations

from cntk_core.config import Config
from cntk_core.recipe.context import ActionContext


def check(context: ActionContext, section: Config) -> None:
    """Nothing can be wrong with the section."""


def run(context: ActionContext, section: Config) -> None:
    """Say what to do in its place."""
    context.log.line(
        "devtest was a self test for the developers of the original, and does nothing here. "
        "'cntk doctor' says what works on this machine."
    )
