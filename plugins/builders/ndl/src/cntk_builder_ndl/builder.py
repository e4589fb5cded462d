"""NDLNetworkBuilder: finds the text of the description and builds its network (cntk-inventory 3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cntk_builder_ndl.assemble import Assembler
from cntk_builder_ndl.dump import write_dump
from cntk_builder_ndl.expand import Expander
from cntk_builder_ndl.functions import function_names
from cntk_builder_ndl.parser import parse
from cntk_builder_ndl.syntax import Statement
from cntk_core.api import (
    BuildContext,
    BuildError,
    CntkError,
    Config,
    Location,
    Network,
    NetworkBuilder,
    SourceText,
    Value,
    option,
    options,
    raise_problems,
    read_source,
)


@options
class NDLOptions:
    """Keys of an ``NDLNetworkBuilder`` block beside the sections with the description itself."""

    network_description: str = option(default="", doc="file with the description")
    load: tuple[str, ...] = option(default=(), doc="sections that are read before the network, such as macros (a:b)")
    run: tuple[str, ...] = option(default=(), doc="sections with the network (a:b)")
    ndl_macros: str = option(default="", doc="files with macros (a+b)")
    dump_file_name: str = option(default="", doc="file that gets a list of the nodes")
    random_seed_offset: int = option(default=0, doc="is added to the seed of every parameter")
    device_id: str = option(default="", doc="read by the engine")


class NDLNetworkBuilder(NetworkBuilder):
    """Builds networks from CNTK's network description language."""

    options = NDLOptions
    requires_api = "1.0"

    def build(self, block: Value, context: BuildContext) -> Network:
        """Return the network of an ``NDLNetworkBuilder`` block.

        Raises:
            BuildError, UnsupportedError, NetworkError, ConfigError, Problems: everything that is wrong with it.
        """
        config = block.config()
        # The sections of the description are own keys too, under any name.
        chosen: NDLOptions = config.bind(NDLOptions, ignore=config.keys(), what="NDLNetworkBuilder")
        names = function_names(context)
        known = {name.lower() for name in names}
        expander = Expander(lambda name: name.lower() in known, lambda: names)
        for source in _macro_files(config, chosen, context.directory):
            expander.macros_only(_statements(source))
        for source in _description(config, chosen, context.directory, block.where):
            expander.add(_statements(source))
        assembler = Assembler(context, chosen.random_seed_offset)
        network = assembler.assemble(expander.script)
        problems = _unique([*expander.problems, *assembler.problems])
        if not problems and not network.roots["feature"]:
            problems.append(_no_features(block))
        raise_problems(problems)
        if chosen.dump_file_name:
            write_dump(network, context.directory / chosen.dump_file_name, config.location("dumpFileName"))
        return network


def _statements(source: SourceText) -> tuple[Statement, ...]:
    statements, problems = parse(source)
    raise_problems(problems)
    return statements


def _macro_files(config: Config, chosen: NDLOptions, directory: Path) -> Iterator[SourceText]:
    for name in chosen.ndl_macros.split("+"):
        if name.strip():
            file = read_source(directory / name.strip(), config, where=config.location("ndlMacros"))
            yield from _sections_of(file, None, NDLOptions())


def _description(config: Config, chosen: NDLOptions, directory: Path, where: Location) -> Iterator[SourceText]:
    """Yield the texts that make up the description, in order."""
    if chosen.network_description:
        place = config.location("networkDescription")
        if "+" in chosen.network_description:
            raise BuildError(
                "networkDescription must be one file",
                where=place,
                hint="Files with macros can be listed with '+' in ndlMacros.",
            )
        file = read_source(directory / chosen.network_description, config, where=place)
        yield from _sections_of(file, config, chosen)
        return
    if not chosen.run:
        raise BuildError(
            "the network builder has neither 'run' nor 'networkDescription'",
            where=where,
            hint="Write run=net and a section net=[ ... ], or networkDescription=file.",
        )
    for key, names in (("load", chosen.load), ("run", chosen.run)):
        for name in names:
            yield _section(config, name, key, config.location(key))


def _sections_of(source: SourceText, config: Config | None, chosen: NDLOptions) -> Iterator[SourceText]:
    """Yield the sections of a file that ``load`` and ``run`` name, in the builder's block or there; else all of it."""
    sections = _as_sections(source)
    load = chosen.load or (sections.strings("load", ()) if sections else ())
    run = chosen.run or (sections.strings("run", ()) if sections else ())
    if not load and not run:
        yield source
        return
    for key, names in (("load", load), ("run", run)):
        outside = config is not None and key in config
        for name in names:
            place = config.location(key) if config is not None and outside else None
            if sections is None:
                sections = Config.from_source(source)
            yield _section(sections, name, key, place or sections.location(key))


def _as_sections(source: SourceText) -> Config | None:
    """Read a file as sections; None for a bare description, whose own parser says what is wrong with it."""
    try:
        return Config.from_source(source)
    except CntkError:
        return None


def _section(sections: Config, name: str, key: str, where: Location) -> SourceText:
    value = sections.get(name)
    if value is None:
        raise BuildError(
            f"there is no section '{name}', which '{key}' names",
            where=where,
            hint=f"Sections here: {', '.join(sections.keys()) or 'none'}",
        )
    return value.resolved()


def _no_features(block: Value) -> BuildError:
    return BuildError(
        "the network has no feature nodes",
        where=block.where,
        hint="Add FeatureNodes=(name), or tag=feature to an input.",
    )


def _unique(problems: list[CntkError]) -> list[CntkError]:
    """Return problems without repetitions: a macro that is called twice has each of them twice."""
    return list({str(problem): problem for problem in problems}.values())
