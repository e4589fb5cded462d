"""``cntk explain``: a recipe's network and its plan as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cntk_core.api import Config, ConfigError, Network, Node, Plan, PluginError
from cntk_core.api.builders import outline
from cntk_core.api.engines import AnyStep, explain, make_plan
from cntk_core.api.recipes import RecipeContext, open_recipe


def explain_recipe(
    arguments: Sequence[str],
    *,
    section: str | None = None,
    frames: int = 0,
    depth: int = 0,
    plugin_files: Sequence[str] = (),
) -> int:
    """Print nodes and plan of the first section that describes a network (or of the one that is named).

    Args:
        arguments: ``configFile=...``, ``key=value``.
        section: the command section.
        frames: rows of a minibatch for which bytes are given; 0 takes the recipe's ``minibatchSize``.
        depth: how far blocks are shown open; -1 all the way.
        plugin_files: Python files with further builders.

    Raises:
        CntkError: no section describes a network, or the network is wrong.
    """
    context, sections = open_recipe(arguments, section, plugin_files)
    described = [part for part in sections if context.builder_value(part) is not None]
    if not described:
        raise ConfigError("no section of the recipe describes a network", where=context.config.where)
    print("\n".join(describe(context, described[0], frames, depth)))
    context.say_unread()
    return 0


def describe(context: RecipeContext, section: Config, frames: int = 0, depth: int = 0) -> list[str]:
    """Return the lines for one section."""
    network = context.build_network(section)
    blocks = len(network.blocks)
    inside = f", {blocks} block{'s' * (blocks > 1)}" if blocks else ""
    lines = [f"{section.name}: {len(network)} nodes{inside}"]
    lines += [f"  {line}" for line in outline(network, depth, _note)]
    computed_before = [node for node in network if node.op.role == "precompute"]
    for node in computed_before:  # the plan of the training begins when these have values
        lines.append(f"  {node.name} is computed before training, over all data")
        _pretend(node)
    criteria = network.roots["criterion"]
    roots = list(dict.fromkeys(root for role in ("criterion", "evaluation", "output") for root in network.roots[role]))
    plan = make_plan(network, roots or _ends(network), criteria[0] if criteria else None, runnable=False)
    rows = frames or _minibatch_size(section)
    hosted, notes = _hosted(context, section, plan)
    return [*lines, explain(plan, frames=rows, hosted=hosted), *notes]


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
