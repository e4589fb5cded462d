"""FailAction: ends the run with a message (docs/original-rules.md#brainscript-objects)."""

from __future__ import annotations

from cntk_core.api import Action, Config, ConfigError
from cntk_core.api.recipes import RecipeContext


class FailAction(Action):
    """Ends the run with a message."""

    requires_api = "1.0"
    name = "FailAction"

    def check(self, context: RecipeContext, section: Config) -> None:
        """What comes before it runs first."""

    def run(self, context: RecipeContext, section: Config) -> None:
        """Raise ``what`` as a ConfigError."""
        raise ConfigError(section.string("what"), where=section.where)
