"""What a recipe asks for, checked before anything runs: commands, their sections, actions, devices, ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from cntk_core.config import Config, Value
from cntk_core.contract.action import Action
from cntk_core.errors import CntkError, ConfigError, collect, raise_problems
from cntk_core.plugins.registry import Registry
from cntk_core.trust import ask_to_run, ask_to_write
from cntk_kit_recipes.recipe import actions as table
from cntk_kit_recipes.recipe.context import ActionContext, device_of, precision_of
from cntk_kit_recipes.recipe.descriptions import languages


@attrs.frozen(eq=False)
class Job:
    """One action of one command."""

    command: str
    name: str
    section: Config
    action: Action


def check_top_level(config: Config) -> None:
    """Raise what is wrong with the keys that concern the whole run."""
    precision_of(config)
    device_of(config)
    if config.own("type") is not None:
        raise ConfigError(
            "the parameter 'type' is called 'precision' now", where=config.location("type"), hint="precision = float"
        )


def find_jobs(config: Config, registry: Registry, only: str | None = None) -> list[Job]:
    """Return the actions to run, in order.

    Args:
        config: the top level of the recipe.
        registry: has the actions.
        only: an action: run it alone, in the commands that have it; if the list of commands has none, in all sections.

    Raises:
        CntkError, Problems: a section is missing, an action is unknown; all of them together.
    """
    problems: list[CntkError] = []
    jobs: list[Job] = []
    for command in _commands(config):
        jobs += collect(partial(_jobs_of, config, command, registry, only), problems) or ()
    raise_problems(problems)
    if only is not None and not jobs:
        sections = config.sections(leave_out=languages(registry, config.keys()))
        jobs = [
            job for section in sections if section.own("action") is not None for job in _of(section, registry, only)
        ]
        if not jobs:
            raise ConfigError(
                f"no command of the recipe has the action '{only}'",
                where=config.where,
                hint=f"Commands: {', '.join(value.string() for value in _commands(config))}",
            )
    return jobs


def check_jobs(context: ActionContext, jobs: list[Job]) -> None:
    """Raise everything that is known to be wrong with the sections before the first of them runs."""
    problems: list[CntkError] = []
    for job in jobs:
        problems += _refused(job)
        collect(lambda job=job: job.action.check(context, job.section), problems)
        if job.action.needs_engine:
            collect(lambda job=job: context.engine_class(job.section), problems)
    raise_problems(list({str(problem): problem for problem in problems}.values()))


def _refused(job: Job) -> list[CntkError]:
    """Return what a section asks for and may not have: see :mod:`cntk_core.trust`."""
    problems: list[CntkError] = []
    for keys, ask in ((job.action.writes, ask_to_write), (job.action.runs, ask_to_run)):
        for value in map(job.section.get, keys):
            if value is not None:
                collect(lambda ask=ask, value=value: _ask(ask, value), problems)
    return problems


def _ask(ask: Callable[..., None], value: Value) -> None:
    text = "" if value.is_empty else value.string()
    if text not in ("", "-"):
        ask(text, key=value.short_name, where=value.where)


def _commands(config: Config) -> list[Value]:
    commands = config.array("command", None)
    if commands is not None:
        return list(commands)
    return list(config.child("command=train", name="", file="<default>").array("command"))


def _jobs_of(config: Config, command: Value, registry: Registry, only: str | None) -> list[Job]:
    name = command.string()
    if config.get(name) is None:
        error = config.missing(name)
        error.where = command.where
        raise error
    return _of(config.section(name), registry, only)


def _of(section: Config, registry: Registry, only: str | None) -> list[Job]:
    """Return the jobs of a command section."""
    actions = section.own("action")
    values = actions.array() if actions is not None else ()
    if not values:
        raise section.missing("action")
    command = section.name
    wanted = None if only is None else {name.casefold() for name in table.same_action(only, registry)}
    return [
        Job(command, value.string(), section, table.find(value, command, registry))
        for value in values
        if wanted is None or value.string().casefold() in wanted
    ]
