"""``cntk explain``: the network of a recipe or of a model, and its plan, as text and for programs."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import attrs

from cntk_core.api import Config, ConfigError, Network, Node, Plan, PluginError, to_cntk
from cntk_core.api.builders import COMMAND_LINE, outline, parse_text
from cntk_core.api.engines import AnyStep, explain, make_plan, plan_record
from cntk_core.api.recipes import Log, RecipeContext, open_recipe
from cntk_tool_inspect.show_model import load_any_model, model_files

_SCHEMA = 1
"""Version of what ``--json`` prints: further keys do not change it."""


def explain_model(
    path: str,
    overrides: Sequence[str] = (),
    *,
    frames: int = 0,
    depth: int = 0,
    as_json: bool = False,
    plugin_files: Sequence[str] = (),
) -> int:
    """Print nodes and plan of a model of any format.

    Args:
        path: the model.
        overrides: ``key=value``, of the engine.
        frames, depth, as_json, plugin_files: as of :func:`explain_recipe`.

    Raises:
        CntkError: it cannot be read.
    """
    config = parse_text("\n".join(overrides), file=COMMAND_LINE)
    context = RecipeContext.create(config, Log(), plugin_files=plugin_files)
    network = load_any_model(path, plugin_files)
    explained = Explained.of(context, context.config, network, Path(path).name, frames)
    print(explained.as_json() if as_json else "\n".join(explained.lines(depth)))
    return 0


def is_model(path: str, plugin_files: Sequence[str]) -> bool:
    """Whether a file is a model of any format, and no recipe."""
    return model_files(plugin_files).is_model(path)


def explain_recipe(
    arguments: Sequence[str],
    *,
    section: str | None = None,
    frames: int = 0,
    depth: int = 0,
    as_json: bool = False,
    plugin_files: Sequence[str] = (),
) -> int:
    """Print nodes and plan of the first section that describes a network (or of the one that is named).

    Args:
        arguments: ``configFile=...``, ``key=value``.
        section: the command section.
        frames: rows of a minibatch for which bytes are given; 0 takes the recipe's ``minibatchSize``.
        depth: how far blocks are shown open; -1 all the way.
        as_json: for programs, as docs/command-line.md describes it; blocks are open there.
        plugin_files: Python files with further builders.

    Raises:
        CntkError: no section describes a network, or the network is wrong.
    """
    context, sections = open_recipe(arguments, section, plugin_files)
    described = [part for part in sections if context.builder_value(part) is not None]
    if not described:
        raise ConfigError("no section of the recipe describes a network", where=context.config.where)
    network = context.build_network(described[0])
    explained = Explained.of(context, described[0], network, described[0].name, frames)
    print(explained.as_json() if as_json else "\n".join(explained.lines(depth)))
    context.say_unread()
    return 0


@attrs.frozen
class Explained:
    """A network and how it is computed.

    Attributes:
        name: of the section or of the file.
        network: the nodes; those that are computed before training have zeros as values.
        computed_before: names of these.
        plan: what is computed one after the other.
        frames: rows of a minibatch for which bytes are given.
        hosted: steps that the engine computes on the host.
        notes: further lines about the engine.
    """

    name: str
    network: Network
    computed_before: Sequence[str]
    plan: Plan
    frames: int
    hosted: Collection[AnyStep]
    notes: Sequence[str]

    @classmethod
    def of(cls, context: RecipeContext, section: Config, network: Network, name: str, frames: int = 0) -> Explained:
        """Plan a network, which the section's engine would compute."""
        before = [node for node in network if node.op.role == "precompute"]
        for node in before:  # the plan of the training begins when these have values
            _pretend(node)
        criteria = network.roots["criterion"]
        roles = ("criterion", "evaluation", "output")
        roots = list(dict.fromkeys(root for role in roles for root in network.roots[role]))
        plan = make_plan(network, roots or _ends(network), criteria[0] if criteria else None, runnable=False)
        hosted, notes = _hosted(context, section, plan)
        rows = frames or _minibatch_size(section)
        return cls(name, network, [node.name for node in before], plan, rows, hosted, notes)

    def lines(self, depth: int = 0) -> list[str]:
        """Return the lines for people, with blocks open to a depth."""
        blocks = len(self.network.blocks)
        inside = f", {blocks} block{'s' * (blocks > 1)}" if blocks else ""
        return [
            f"{self.name}: {len(self.network)} nodes{inside}",
            *(f"  {line}" for line in outline(self.network, depth, _note)),
            *(f"  {name} is computed before training, over all data" for name in self.computed_before),
            explain(self.plan, frames=self.frames, hosted=self.hosted),
            *self.notes,
        ]

    def as_json(self) -> str:
        """Return all of it for programs."""
        record = {
            "schema": _SCHEMA,
            "name": self.name,
            "nodes": [_record(node) for node in self.network],
            "computedBefore": self.computed_before,
            **plan_record(self.plan, frames=self.frames, hosted=self.hosted),
            "notes": self.notes,
        }
        return json.dumps(record, indent=2)


def _record(node: Node) -> dict[str, object]:
    """A node for programs: its shape is in the order of CNTK, sizes that each minibatch brings are None."""
    return {
        "name": node.name,
        "operation": node.op.name,
        "inputs": [one.name for one in node.inputs],
        "shape": [
            size if type(size) is int else None for size in to_cntk(node.known_shape)
        ],  # open ones are of a subclass
        "framed": bool(node.framed),
        "place": str(node.where) if node.where is not None else None,
    }


def _hosted(context: RecipeContext, section: Config, plan: Plan) -> tuple[Collection[AnyStep], list[str]]:
    """The steps that the recipe's engine computes on the host, and a line for each thing to say of it."""
    try:
        name, engine = context.engine_class(section)[0], context.make_engine(section)
    except PluginError as error:
        return (), [f"Which steps run on the host is not known: {error.message}"]
    hosted = engine.on_host(plan)
    found = len(hosted)
    return hosted, [f"On the host with engine={name}: {found} step{'' if found == 1 else 's'}"] if found else []


def _note(node: Node) -> str:
    reason = node.op.missing(node.attributes)
    return "" if reason is None else f"   ({reason})"


def _pretend(node: Node) -> None:
    import numpy as np

    node.value = np.zeros(node.known_shape)


def _ends(network: Network) -> list[Node]:
    """Nodes that no other node reads."""
    read = {child for node in network for child in node.inputs}
    return [node for node in network if node not in read]


def _minibatch_size(section: Config) -> int:
    block = section.get("SGD")
    inner = block.config() if block is not None else section
    return inner.schedule("minibatchSize", int, 256)[0]
