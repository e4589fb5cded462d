"""The action dumpNodes: the nodes of a model as text."""

from __future__ import annotations

import re
from pathlib import Path

from cntk_core.api import Action, Config, ConfigError, Network, Node, did_you_mean
from cntk_core.api.builders import write_dump
from cntk_core.api.recipes import RecipeContext

_ALL = "__AllNodes__"


class DumpNodesAction(Action):
    """Writes the nodes of a model as text."""

    requires_api = "1.0"
    name = "dumpNodes"
    writes = ("outputFile",)

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        section.require("modelPath")
        if not section.boolean("printValues", True) and not section.boolean("printMetadata", True):
            raise ConfigError(
                "printValues and printMetadata: Since both are set to false, there will be nothing to dump",
                where=section.location("printMetadata"),
                hint="Set one of them to true.",
            )
        _pattern(section)

    def run(self, context: RecipeContext, section: Config) -> None:
        """Write the nodes of ``modelPath`` to ``outputFile``."""
        model = section.string("modelPath")
        name = section.string("nodeName", _ALL)
        target = Path(section.string("outputFile", f"{model}.{name}.txt"))
        network = context.load_model(model, section.location("modelPath"))
        nodes = _chosen(context, section, network, name)
        values = section.boolean("printValues", True)
        metadata = section.boolean("printMetadata", True)
        write_dump(nodes, target, values=values, metadata=metadata)


def _pattern(section: Config) -> re.Pattern[str] | None:
    value = section.get("nodeNameRegex")
    if value is None or not value.string():
        return None
    try:
        return re.compile(value.string())
    except re.error as error:
        raise ConfigError(
            f"nodeNameRegex is not a regular expression: {error}",
            where=value.where,
            hint="It must match a whole node name, for example W.* for all names that begin with W.",
        ) from None


def _chosen(context: RecipeContext, section: Config, network: Network, name: str) -> list[Node]:
    ordered = sorted(network, key=lambda node: node.name.lower())
    pattern = _pattern(section)
    if pattern is not None:
        found = [node for node in ordered if pattern.fullmatch(node.name)]
        context.log.plain(f"DumpNodeInfo: {len(found)} nodes matching RegEx({pattern.pattern}): ")
        for node in found:
            context.log.plain(f"\t{node.name}")
        return found
    if name in network:
        return [network[name]]
    if name != _ALL:
        guess = did_you_mean(name, [node.name for node in network])
        context.log.plain(
            f"Warning: node name '{name}' does not exist in the network{guess}. dumping all nodes instead."
        )
    return ordered
