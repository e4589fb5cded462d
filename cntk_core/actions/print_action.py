"""PrintAction: writes a text to the log (cntk-inventory 5.14)."""

from __future__ import annotations

from cntk_core.config import Config
from cntk_core.recipe.context import ActionContext


def check(context: ActionContext, section: Config) -> None:
    """There is nothing that could be wrong; the text is not looked at before it is printed."""


def run(context: ActionContext, section: Config) -> None:
    """Write ``what``."""
    context.log.line(section.string("what"))
