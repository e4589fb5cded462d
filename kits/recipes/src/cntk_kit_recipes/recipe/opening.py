"""Opening a recipe for a tool that only looks at it."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.config import Config, load_recipe
from cntk_core.errors import ConfigError, did_you_mean
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.jobs import find_jobs
from cntk_kit_recipes.recipe.log import Log


def open_recipe(
    arguments: Sequence[str], section: str | None, plugin_files: Sequence[str]
) -> tuple[ActionContext, list[Config]]:
    """Read a recipe for a tool that only looks at it; return its command sections, or the one that is asked for.

    Raises:
        ConfigError: there is no such section.
    """
    config = load_recipe(arguments)
    context = ActionContext.create(config, Log(), plugin_files=plugin_files)
    sections = list({job.section.name: job.section for job in find_jobs(config, context.plugins.registry)}.values())
    if section is None:
        return context, sections
    if config.get(section) is None:
        names = [part.name for part in sections]
        raise ConfigError(
            f"the recipe has no section '{section}'{did_you_mean(section, names)}",
            where=config.where,
            hint=f"Commands: {', '.join(names)}",
        )
    return context, [config.section(section)]
