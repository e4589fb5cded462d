"""Which nodes training looks at, and the lines that say what is trained."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.errors import NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.shapes import elements, show
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.session.run_log import RunLog


def choose_criteria(network: Network, settings: SGDSettings) -> tuple[Node, tuple[Node, ...]]:
    """The training criterion and the evaluation nodes that a recipe means.

    Raises:
        NetworkError: there is no criterion, or a name is not a node of the network.
    """
    if settings.train_criterion_node_name:
        criterion = network[settings.train_criterion_node_name]
    elif network.roots["criterion"]:
        criterion = network.roots["criterion"][0]
    else:
        raise NetworkError(
            "the network has no training criterion",
            hint="Put a node into CriterionNodes, or give trainCriterionNodeName.",
        )
    if settings.eval_criterion_node_name:
        chosen = [network[settings.eval_criterion_node_name]]
    else:
        chosen = network.roots["evaluation"]
    return criterion, tuple(node for node in dict.fromkeys(chosen) if node is not criterion)


def describe_parameters(network: Network, criterion: Node, *, detailed: bool) -> list[str]:
    """The lines that say what is trained."""
    order = network.order([criterion], stop_at_constants=True)
    reached = [node for node in order if isinstance(node, Parameter)]
    trained = sorted((node for node in reached if node.learned), key=lambda node: node.name)
    needing: set[Node] = set(trained)
    for node in order:
        if node.value is None and any(child in needing for child in node.inputs):
            needing.add(node)
    count = sum(elements(node.known_shape) for node in trained)
    text = f"Training {count} parameters in {len(trained)} "
    if not detailed:
        return ["", text + "parameter tensors.", ""]
    listed = [f"\tNode '{node.name}' ({node.op.name} operation) : {show(node.known_shape)}" for node in trained]
    head = f"{text}out of {len(reached)} parameter tensors and {len(needing)} nodes with gradient:"
    return ["", head, "", *listed, ""]


def describe_training(network: Network, criterion: Node, evaluations: Sequence[Node], engine: str, log: RunLog) -> None:
    """Say what is trained, with which criteria."""
    log.line()
    log.line(f"Model has {len(network)} nodes. Using {'CPU' if engine in ('', 'cpu') else engine}.")
    log.line()
    log.line(f"Training criterion:   {criterion.name} = {criterion.op.name}")
    if len(evaluations) == 1:
        log.line(f"Evaluation criterion: {evaluations[0].name} = {evaluations[0].op.name}")
    elif evaluations:
        log.line()
        log.line("Evaluation criteria:")
        for node in evaluations:
            log.line(f"\t{node.name} = {node.op.name}")
    for text in describe_parameters(network, criterion, detailed=log.trace_level > 0):
        log.line(text)
