"""The action test (also eval): criteria of a network over a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cntk_core.config import Config, Value
from cntk_core.contract.action import Action
from cntk_core.errors import CntkError, NetworkError, raise_problems
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node
from cntk_core.ops.language.shapes import elements, show
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.node_traces import read_traces
from cntk_kit_recipes.session.evaluate import evaluate
from cntk_kit_recipes.session.evaluation_told import Audience

if TYPE_CHECKING:
    from cntk_core.contract.reader import DataReader
    from cntk_core.training.loop.criteria import Criterion

_MINIBATCH_SIZE = 40960


class TestAction(Action):
    """Evaluates the criteria of a network over a data set."""

    requires_api = "1.0"
    name = "test"
    needs_engine = True
    on_all_ranks = True

    def check(self, context: ActionContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        problems: list[CntkError] = []
        if context.builder_value(section) is None and section.get("modelPath") is None:
            problems.append(section.missing("modelPath"))
        problems += check_evaluation(context, section)
        raise_problems(problems)

    def run(self, context: ActionContext, section: Config) -> None:
        """Evaluate the network that the section describes, otherwise the model in ``modelPath``."""
        network = context.network_of(section)
        nodes = evaluation_nodes(context, network, section)
        evaluate_on_reader(context, section, network, nodes)


def check_evaluation(context: ActionContext, section: Config) -> list[CntkError]:
    """Return what is wrong with the keys that test and cv share."""
    problems: list[CntkError] = []
    try:
        context.reader_class(section)
    except CntkError as error:
        problems.append(error)
    return problems


def evaluation_nodes(context: ActionContext, network: Network, section: Config) -> list[Node]:
    """Return ``evalNodeNames``, by default all evaluation nodes and then all criteria of the network.

    Raises:
        NetworkError, Problems: a node does not exist or is no scalar, or there is none.
    """
    names = [value for value in section.array("evalNodeNames", ()) if value.string()]
    if names:
        return _named(network, names)
    context.log.plain("evalNodeNames are not specified, using all the default evalnodes and training criterion nodes.")
    nodes = list(dict.fromkeys([*network.roots["evaluation"], *network.roots["criterion"]]))
    if not nodes:
        raise NetworkError(
            "There is no default evaluation node or training criterion specified in the network.",
            where=section.where,
            hint="Give evalNodeNames=...",
        )
    return nodes


def _named(network: Network, names: Sequence[Value]) -> list[Node]:
    problems: list[CntkError] = []
    nodes: dict[Node, None] = {}
    for name in names:
        try:
            node = network[name.string()]
        except NetworkError as error:
            error.where = name.where
            problems.append(error)
            continue
        nodes[node] = None
        if elements(node.known_shape) != 1:
            problems.append(
                NetworkError(
                    f"Criterion nodes to evaluate must have dimension 1x1; '{node.name}' is {show(node.known_shape)}",
                    where=name.where,
                )
            )
    raise_problems(problems)
    return list(nodes)


def evaluate_on_reader(
    context: ActionContext,
    section: Config,
    network: Network,
    nodes: Sequence[Node],
    reader: DataReader | None = None,
    *,
    model: str = "",
) -> Mapping[str, Criterion]:
    """Evaluate nodes over the data of the section's reader (or of one that is open already) and log the figures.

    Listeners are told that they are of ``model``, by default that of the section.
    """
    minibatch_size = section.schedule("minibatchSize", int, _MINIBATCH_SIZE)[0]
    log = context.run_log(section)
    opened = reader or context.make_reader(section, inputs_of(network, nodes), in_order=True)
    try:
        engine = context.make_engine(section)
        context.note_plugins(network)
        return evaluate(
            network,
            engine,
            opened,
            nodes,
            minibatch_size,
            section.integer("epochSize", 0),
            log,
            show_every=section.integer("numMBsToShowResult", 100),
            show_first=section.integer("firstMBsToShowResult", 0),
            parts=_parts(section, minibatch_size),
            ranks=context.evaluating_ranks(section),
            audience=Audience.of(context.hooks, context.job, model=model or section.string("modelPath", "")),
            traces=read_traces(section, log.line),
        )
    finally:
        if reader is None:
            opened.close()


def inputs_of(network: Network, nodes: Sequence[Node]) -> list[Input]:
    """Return the inputs that nodes need."""
    return [node for node in network.order(nodes, stop_at_constants=True) if isinstance(node, Input)]


def _parts(section: Config, minibatch_size: int) -> int:
    limit = section.integer("maxSamplesInRAM", 0)
    return max(1, -(-minibatch_size // limit) if limit else section.integer("numSubminibatches", 1))
