"""FailAction: ends the run with a message (cntk-inventory 5.14)."""

from __future__ import annotations

from cntk_core.config import Config
from cntk_core.contract.action import Action
from cntk_core.errors import ConfigError
from cntk_core.recipe.context import ActionContext


class FailAction(Action):
    """Ends the run with a message."""

    requires_api = "1.0"
    name = "FailAction"

    def check(self, context: ActionContext, section: Config) -> None:
        """What comes before it runs first."""

    def run(self, context: ActionContext, section: Config) -> None:
        """Raise ``what`` as a ConfigError."""
        raise ConfigError(section.string("what"), where=section.where)
