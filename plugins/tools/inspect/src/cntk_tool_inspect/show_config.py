"""``cntk config show`` and ``cntk config check``: what a recipe says once everything is put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    Schedule,
    Value,
    collect,
    did_you_mean,
    raise_problems,
)
from cntk_core.api.builders import COMMAND_LINE
from cntk_core.api.recipes import (
    RecipeContext,
    SGDSettings,
    check_jobs,
    check_top_level,
    find_jobs,
    languages,
    learner_name,
    load_recipe,
    option_key,
)
from cntk_core.api.recipes import RecipeJob as Job

TOP_LEVEL = {
    "command": "train",
    "precision": "float",
    "deviceId": "auto",
    "engine": "auto",
    "traceLevel": "0",
    "timestamping": "false",
    "numCPUThreads": "0",
    "makeMode": "true",
}
"""Keys of the top level that always have a value, and the one that they have if a recipe says nothing."""

_WIDTH = 62
"""Where the places begin, if the values are not longer."""

_INDENT = "    "
_READERS = ("reader", "cvreader")


@attrs.frozen
class Line:
    """One line of the listing: text, and where it comes from."""

    text: str
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.text:<{_WIDTH}} # {self.origin}" if self.origin else self.text


def show_config(
    arguments: Sequence[str],
    *,
    section: str | None = None,
    resolved: bool = False,
    defaults: bool = True,
    plugin_files: Sequence[str] = (),
) -> int:
    """Print the effective configuration of a recipe, each value with the place that it comes from.

    Args:
        arguments: ``configFile=...``, ``key=value``.
        section: only this section (a path such as ``Train:SGD`` names an inner one).
        resolved: with variables filled in.
        defaults: also the values that the recipe leaves to the program.
        plugin_files: Python files with further components, whose defaults are known then.

    Raises:
        CntkError: the recipe cannot be read, or there is no such section.
    """
    config = load_recipe(arguments)
    context = RecipeContext.create(config, _silent(), plugin_files=plugin_files)
    listing = _Listing(resolved, context, with_defaults=defaults)
    if section is None:
        lines = listing.entries(config, 0)
    else:
        found = _section(config, section, context)
        lines = listing.block(found, section.rpartition(":")[2], 0)
    for line in lines:
        print(line)
    return 0


def _silent() -> Any:
    from cntk_core.api.recipes import Log

    return Log(quiet=True)


def _section(config: Config, path: str, context: RecipeContext) -> Config:
    for name in path.split(":"):
        value = config.own(name)
        if value is None or not value.is_block:
            left_out = languages(context.plugins.registry, config.keys())
            blocks = [block.name.rpartition(":")[2] for block in config.sections(leave_out=left_out)]
            raise ConfigError(
                f"the recipe has no section '{path}'{did_you_mean(name, blocks)}",
                where=config.where,
                hint=f"Sections: {', '.join(blocks)}" if blocks else None,
            )
        config = value.config()
    return config


def origin(where: Location) -> str:
    """Return a place as people read it: ``recipe.cntk:3``, ``command line, argument 2``."""
    if where.file == COMMAND_LINE:
        return f"command line, argument {where.line}"
    return f"{where.file}:{where.line}" if where.line else where.file


class _Listing:
    """Makes the lines of sections."""

    def __init__(self, resolved: bool, context: RecipeContext, *, with_defaults: bool) -> None:
        self.resolved = resolved
        self.context = context
        self.with_defaults = with_defaults

    def entries(self, config: Config, depth: int) -> Iterator[Line]:
        """Yield the lines of a section's own keys, then of what it takes from elsewhere."""
        for key in config.keys():  # noqa: SIM118 - a Config is no dict
            value = config.own(key)
            if value is None:
                yield Line(f"{_INDENT * depth}{key} = default", origin(config.location(key)))
            else:
                yield from self.value(key, value, depth)
        if config.parent is None:
            yield from self.missing(config, TOP_LEVEL, depth)
        else:
            yield from self.missing(config, self.defaults(config), depth)

    def value(self, key: str, value: Value, depth: int) -> Iterator[Line]:
        """Yield the lines of one key."""
        if value.is_block and not languages(self.context.plugins.registry, [key]):
            try:
                inner = value.config()
            except CntkError:
                pass  # not a section: a network in some language
            else:
                yield from self.block(inner, key, depth)
                return
        place = origin(value.key_where or value.where)
        text = self.text(value)
        first, *rest = text.split("\n")
        yield Line(f"{_INDENT * depth}{key} = {first}", place)
        for more in rest:
            yield Line(more)

    def block(self, config: Config, key: str, depth: int) -> Iterator[Line]:
        """Yield the lines of a block."""
        yield Line(f"{_INDENT * depth}{key} = [", origin(config.where))
        yield from self.entries(config, depth + 1)
        yield Line(f"{_INDENT * depth}]")

    def text(self, value: Value) -> str:
        """Return a value as a recipe may write it."""
        text = value.full().text if self.resolved else value.raw.text
        quoted = not value.is_block and (not text or any(character in text for character in " \t,;:#[]{}()"))
        return f'"{text}"' if quoted and not _is_plain(text) else text

    def missing(self, config: Config, known: Mapping[str, str | None], depth: int) -> Iterator[Line]:
        """Yield keys that are not given here: those that a parent gives, and those with a default."""
        if not self.with_defaults:
            return
        for key, default in known.items():
            if config.own(key) is not None:
                continue
            value = config.get(key)
            if value is not None and not value.is_block:
                place = f"{origin(value.key_where or value.where)}, inherited"
                yield Line(f"{_INDENT * depth}{key} = {self.text(value)}", place)
            elif default is not None and value is None:
                yield Line(f"{_INDENT * depth}{key} = {default}", "default")

    def defaults(self, config: Config) -> dict[str, str | None]:
        """Return the keys that are looked for in a section, each with its default if it has one."""
        name = config.name.rpartition(":")[2].lower()
        registry = self.context.plugins.registry
        if config.name.count(":") != 1:
            return {}
        try:
            if name == "sgd":
                learner = registry.learners.get(learner_name(config))
                return {**_defaults_of(SGDSettings), **_defaults_of(learner.options)}
            if name in _READERS and config.parent is not None:
                found, _, _ = self.context.reader_class(config.parent, name)
                return _defaults_of(found.options)
        except CntkError:
            pass  # what is wrong with it is not for a listing to say
        return {}


def _is_plain(text: str) -> bool:
    """Whether a text needs no quotation marks: arrays such as ``a*3:b``."""
    return bool(text) and not any(character in text for character in " \t,;#[]{}()")


def _defaults_of(options_class: type) -> dict[str, str | None]:
    fields = attrs.fields(cast(Any, options_class))
    return {option_key(field): _default_text(field.default) for field in fields if field.init}


def _default_text(default: Any) -> str | None:
    """Return a default as a recipe would write it; None where there is none, or no text for it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, Schedule | int | float):
        return str(default)
    if isinstance(default, str) and default:
        return default
    return None


def check_config(arguments: Sequence[str], *, plugin_files: Sequence[str] = ()) -> int:
    """Check a recipe without running it: its keys, its sections, and the networks that it describes.

    Raises:
        CntkError, Problems: everything that is wrong, together.
    """
    config = load_recipe(arguments)
    problems: list[CntkError] = []
    for step in (config.check_variables, lambda: check_top_level(config)):
        collect(step, problems)
    # A wrong precision is reported already; what else is wrong does not depend on it.
    context = RecipeContext.create(
        config.with_entries("precision=float") if problems else config, _silent(), plugin_files=plugin_files
    )
    if not problems:
        collect(context.check_device, problems)
    jobs: list[Job] = []
    collect(lambda: jobs.extend(find_jobs(config, context.plugins.registry)), problems)
    collect(lambda: check_jobs(context, jobs), problems)
    for section in {job.section.name: job.section for job in jobs}.values():
        collect(partial(_check_network, context, section), problems)
    raise_problems(list({str(problem): problem for problem in problems}.values()))
    unread = "" if config.unread is None else config.unread.take()
    for warning in config.warnings:
        print(f"warning: {warning}")
    if unread:
        print(unread)
    for job in jobs:
        print(f"{job.command}: {job.name}")
    print("no problems found")
    return 0


def _check_network(context: RecipeContext, section: Config) -> None:
    if context.builder_value(section) is not None:
        context.describe_network(section).infer()
