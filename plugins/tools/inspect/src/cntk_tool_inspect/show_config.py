"""``cntk config show`` and ``cntk config check``: what a recipe says once everything is put together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

_SCHEMA = 1
"""Version of what ``--json`` prints: further keys do not change it."""

_READERS = ("reader", "cvreader")


@attrs.frozen
class Line:
    """One line of the listing.

    Attributes:
        text: as a recipe may write it.
        origin: where it comes from.
        path: of the key whose value begins here, such as ``Train:SGD:maxEpochs``; empty on other lines.
        value: of this key.
    """

    text: str
    origin: str = ""
    path: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.text:<{_WIDTH}} # {self.origin}" if self.origin else self.text


def show_config(
    arguments: Sequence[str],
    *,
    section: str | None = None,
    resolved: bool = False,
    defaults: bool = True,
    as_json: bool = False,
    plugin_files: Sequence[str] = (),
) -> int:
    """Print the effective configuration of a recipe, each value with the place that it comes from.

    Args:
        arguments: ``configFile=...``, ``key=value``.
        section: only this section (a path such as ``Train:SGD`` names an inner one).
        resolved: with variables filled in.
        defaults: also the values that the recipe leaves to the program.
        as_json: for programs: the path, value and origin of each key, as docs/command-line.md describes it.
        plugin_files: Python files with further components, whose defaults are known then.

    Raises:
        CntkError: the recipe cannot be read, or there is no such section.
    """
    config = load_recipe(arguments)
    context = RecipeContext.create(config, _silent(), plugin_files=plugin_files)
    listing = _Listing(resolved, context, with_defaults=defaults)
    if section is None:
        lines = listing.entries(config, ())
    else:
        found = _section(config, section, context)
        lines = listing.block(found, tuple(section.split(":")), 0)
    print(_as_json(lines) if as_json else "\n".join(map(str, lines)))
    return 0


def _as_json(lines: Iterable[Line]) -> str:
    values = [{"path": line.path, "value": line.value, "origin": line.origin} for line in lines if line.path]
    return json.dumps({"schema": _SCHEMA, "values": values}, indent=2)


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

    def entries(self, config: Config, path: tuple[str, ...], depth: int = 0) -> Iterator[Line]:
        """Yield the lines of a section's own keys, then of what it takes from elsewhere.

        Args:
            config: the section.
            path: its name and the names of those around it.
            depth: how far it is indented.
        """
        for key in config.keys():  # noqa: SIM118 - a Config is no dict
            value = config.own(key)
            if value is None:
                yield self.line((*path, key), "default", origin(config.location(key)), depth)
            else:
                yield from self.value((*path, key), value, depth)
        known = TOP_LEVEL if config.parent is None else self.defaults(config)
        yield from self.missing(config, known, path, depth)

    def value(self, path: tuple[str, ...], value: Value, depth: int) -> Iterator[Line]:
        """Yield the lines of one key, which a path ends with."""
        if value.is_block and not languages(self.context.plugins.registry, path[-1:]):
            try:
                inner = value.config()
            except CntkError:
                pass  # not a section: a network in some language
            else:
                yield from self.block(inner, path, depth)
                return
        first, *rest = self.text(value).split("\n")
        yield attrs.evolve(
            self.line(path, first, origin(value.key_where or value.where), depth), value=self.plain(value)
        )
        for more in rest:
            yield Line(more)

    def line(self, path: tuple[str, ...], text: str, place: str, depth: int) -> Line:
        """Return the line of a key whose value is a text."""
        return Line(f"{_INDENT * depth}{path[-1]} = {text}", place, ":".join(path), text)

    def block(self, config: Config, path: tuple[str, ...], depth: int) -> Iterator[Line]:
        """Yield the lines of a block."""
        yield Line(f"{_INDENT * depth}{path[-1]} = [", origin(config.where))
        yield from self.entries(config, path, depth + 1)
        yield Line(f"{_INDENT * depth}]")

    def plain(self, value: Value) -> str:
        """Return a value as it is, without the quotation marks that a recipe may need."""
        return value.full().text if self.resolved else value.raw.text

    def text(self, value: Value) -> str:
        """Return a value as a recipe may write it."""
        text = self.plain(value)
        quoted = not value.is_block and (not text or any(character in text for character in " \t,;:#[]{}()"))
        return f'"{text}"' if quoted and not _is_plain(text) else text

    def missing(
        self, config: Config, known: Mapping[str, str | None], path: tuple[str, ...], depth: int
    ) -> Iterator[Line]:
        """Yield keys that are not given here: those that a parent gives, and those with a default."""
        if not self.with_defaults:
            return
        for key, default in known.items():
            if config.own(key) is not None:
                continue
            value, whole = config.get(key), (*path, key)
            if value is not None and not value.is_block:
                place = f"{origin(value.key_where or value.where)}, inherited"
                yield attrs.evolve(self.line(whole, self.text(value), place, depth), value=self.plain(value))
            elif default is not None and value is None:
                yield self.line(whole, default, "default", depth)

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
