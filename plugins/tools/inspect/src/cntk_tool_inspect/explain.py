"""``cntk explain``: the network of a recipe or of a model, and its plan, as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from cntk_core.api import Config, ConfigError, Network, Node, Plan, PluginError
from cntk_core.api.builders import COMMAND_LINE, outline, parse_text
from cntk_core.api.engines import AnyStep, explain, make_plan
from cntk_core.api.recipes import Log, RecipeContext, open_recipe
from cntk_tool_inspect.show_model import load_any_model, model_files


def explain_model(
    path: str,
    overrides: Sequence[str] = (),
    *,
    frames: int = 0,
    depth: int = 0,
    plugin_files: Sequence[str] = (),
) -> int:
    """Print nodes and plan of a model of any format.

    Args:
        path: the model.
        overrides: ``key=value``, of the engine.
        frames, depth, plugin_files: as of :func:`explain_recipe`.

    Raises:
        CntkError: it cannot be read.
    """
    config = parse_text("\n".join(overrides), file=COMMAND_LINE)
    context = RecipeContext.create(config, Log(), plugin_files=plugin_files)
    network = load_any_model(path, plugin_files)
    print("\n".join(describe(context, context.config, network, Path(path).name, frames, depth)))
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
    network = context.build_network(described[0])
    print("\n".join(describe(context, described[0], network, described[0].name, frames, depth)))
    context.say_unread()
    return 0


def describe(
    context: RecipeContext, section: Config, network: Network, name: str, frames: int = 0, depth: int = 0
) -> list[str]:
    """Return the lines for a network, which the section's engine would compute."""
    blocks = len(network.blocks)
    inside = f", {blocks} block{'s' * (blocks > 1)}" if blocks else ""
    lines = [f"{name}: {len(network)} nodes{inside}"]
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
