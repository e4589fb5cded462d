"""The builder ``MEL``: a network is what a model editing script leaves as its default model."""

from __future__ import annotations

from pathlib import Path

from cntk_builder_ndl.files import macro_sources, section_of
from cntk_builder_ndl.mel.parser import parse, sections_of
from cntk_builder_ndl.mel.run import Script
from cntk_builder_ndl.mel.syntax import Step
from cntk_builder_ndl.statements import make_expander, read_statements, unique
from cntk_core.api import (
    BuildContext,
    CntkError,
    Config,
    Location,
    Network,
    NetworkBuilder,
    Value,
    option,
    options,
    raise_problems,
)
from cntk_core.api.builders import SourceText, read_source


@options
class MELOptions:
    """Keys of the section of an edit action."""

    edit_path: str = option(default="", doc="file with the script")
    edit_commands: str = option(default="", doc="further commands, separated by ';', which run after the file")
    ndl_macros: str = option(default="", doc="files with macros for in-line NDL (a+b)")


class MELBuilder(NetworkBuilder):
    """Edits models with a script of CNTK's model editing language; the result is the default model."""

    options = MELOptions
    requires_api = "1.0"
    describes_networks = False

    def build(self, block: Value, context: BuildContext) -> Network:
        """Run the script that ``editPath`` names, from ``context.base`` if there is one.

        ``editPath`` and ``ndlMacros`` are looked up in the block and in the sections around it.

        Raises:
            BuildError, NetworkError, ConfigError, DataError, Problems: everything that is wrong with the text of the
                script, or what is wrong with the first command that fails.
        """
        config = block.config()
        macros, steps = _read(config, context)
        script = Script(context, config, macros)
        script.run(steps)
        default = script.models.default
        return Network(context.dtype) if default is None else default.network

    def check(self, block: Value, context: BuildContext) -> None:
        """Read the script and the macros; nothing is run.

        Raises:
            BuildError, ConfigError, Problems: everything that is wrong with their text.
        """
        _read(block.config(), context)


def _read(config: Config, context: BuildContext) -> tuple[list[SourceText], list[Step]]:
    """Return the macros and steps of a section."""
    problems: list[CntkError] = []
    listed = config.string("ndlMacros", "")
    macros = macro_sources(listed, config, context, config.location("ndlMacros")) if listed else []
    steps: list[Step] = []
    texts: list[SourceText] = []
    for is_macros, source in _parts(config, context.directory):
        if is_macros:
            macros.append(source)
        else:
            texts.append(source)
    for source in texts:
        found, wrong = parse(source)
        steps += found
        problems += wrong
    expander = make_expander(context)
    for source in macros:
        expander.macros_only(read_statements(source))
    raise_problems(unique([*expander.problems, *problems]))
    return macros, steps


def _parts(config: Config, directory: Path) -> list[tuple[bool, SourceText]]:
    """Return the texts of the script, in order, and whether each holds macros (``load``) or steps (``edit``)."""
    commands = config.get("editCommands")
    further = [] if commands is None or commands.is_empty else [(False, commands.resolved())]
    value = config.get("editPath") if further else config.require("editPath")
    if value is None or value.is_empty:
        return further
    source = read_source(directory / value.string(), config, where=value.where)
    wanted = sections_of(source)
    if not wanted.load and not wanted.edit:
        return [(False, source), *further]
    sections = Config.from_source(source)
    where = Location(source.where.file)
    parts = [(True, section_of(sections, name, "load", where)) for name in wanted.load]
    return [*parts, *((False, section_of(sections, name, "edit", where)) for name in wanted.edit), *further]
