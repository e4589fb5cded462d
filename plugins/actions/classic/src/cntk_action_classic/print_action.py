"""PrintAction: writes a text to the log (docs/original-rules.md#brainscript-objects)."""

from __future__ import annotations

from cntk_core.api import Action, Config
from cntk_core.api.recipes import RecipeContext


class PrintAction(Action):
    """Writes a text to the log."""

    requires_api = "1.0"
    name = "PrintAction"

    def check(self, context: RecipeContext, section: Config) -> None:
        """There is nothing that could be wrong; the text is not looked at before it is printed."""

    def run(self, context: RecipeContext, section: Config) -> None:
        """Write ``what``."""
        context.log.line(section.string("what"))
