"""FailAction: ends the run with a message (docs/original-rules.md#brainscript-objects)."""

from __future__ import annotations

from cntk_core.actions.context import ActionContext
from cntk_core.config import Config
from cntk_core.errors import ConfigError


def check(context: ActionContext, section: Config) -> None:
    """What comes before it runs first."""


def run(context: ActionContext, section: Config) -> None:
    """Raise ``what`` as a ConfigError."""
    raise ConfigError(section.string("what"), where=section.where)
