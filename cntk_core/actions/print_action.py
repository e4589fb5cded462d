"""PrintAction: writes a text to the log (docs/original-rules.md#brainscript-objects)."""

from __future__ import annotations

from cntk_core.actions.context import ActionContext
from cntk_core.config import Config


def check(context: ActionContext, section: Config) -> None:
    """There is nothing that could be wrong; the text is not looked at before it is printed."""


def run(context: ActionContext, section: Config) -> None:
    """Write ``what``."""
    context.log.line(section.string("what"))
