"""NDLNetworkBuilder: finds the text of the description and builds its network (docs/original-rules.md#ndl)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cntk_builder_ndl.assemble import Assembler
from cntk_builder_ndl.dump import write_dump
from cntk_builder_ndl.files import macro_sources, section_of, sections_of
from cntk_builder_ndl.statements import make_expander, read_statements, unique
from cntk_core.api import (
    BuildContext,
    BuildError,
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
    priority = 20

    def build(self, block: Value, context: BuildContext) -> Network:
        """Return the network of an ``NDLNetworkBuilder`` block.

        Raises:
            BuildError, UnsupportedError, NetworkError, ConfigError, Problems: everything that is wrong with it.
        """
        config = block.config()
        # The sections of the description are own keys too, under any name.
        chosen: NDLOptions = config.bind(NDLOptions, ignore=config.keys(), what="NDLNetworkBuilder")
        expander = make_expander(context)
        for source in macro_sources(chosen.ndl_macros, config, context, config.location("ndlMacros")):
            expander.macros_only(read_statements(source))
        for source in _description(config, chosen, context.directory, block.where):
            expander.add(read_statements(source))
        assembler = Assembler(context, chosen.random_seed_offset)
        network = assembler.assemble(expander.script)
        problems = unique([*expander.problems, *assembler.problems])
        if not problems and not network.roots["feature"]:
            problems.append(_no_features(block))
        raise_problems(problems)
        assembler.infer()
        if chosen.dump_file_name:
            write_dump(network, context.directory / chosen.dump_file_name, config.location("dumpFileName"))
        return network


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
        yield from sections_of(file, config, chosen.load, chosen.run)
        return
    if not chosen.run:
        raise BuildError(
            "the network builder has neither 'run' nor 'networkDescription'",
            where=where,
            hint="Write run=net and a section net=[ ... ], or networkDescription=file.",
        )
    for key, names in (("load", chosen.load), ("run", chosen.run)):
        for name in names:
            yield section_of(config, name, key, config.location(key))


def _no_features(block: Value) -> BuildError:
    return BuildError(
        "the network has no feature nodes",
        where=block.where,
        hint="Add FeatureNodes=(name), or tag=feature to an input.",
    )
