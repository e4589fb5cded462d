"""Functions as a network: what ``cntk_fit`` trains, and what notebooks draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk_model_cntk2.naming import add_blocks, choose_names

from cntk._graph.errors import GraphError
from cntk._graph.lower import lower
from cntk._graph.records import output_uid
from cntk_core.api import CntkError, Network, Node, UsageError


def network_of(model: Any, criterion: Any, evaluations: Sequence[Any]) -> tuple[Network, Node, list[Node]]:
    """Return the network of a model and of what is minimised and counted.

    Parameters are those of the functions. Inputs have the names of the arguments; those that the model itself does not
    need are labels.

    Args:
        model: the Function whose outputs are asked for.
        criterion: the loss; or a Function of two outputs, loss and metric; or both as a tuple.
        evaluations: further metrics.

    Returns:
        The network, the criterion's node, and those of the metrics.

    Raises:
        UsageError: there is no loss.
    """
    from cntk.train._criterion import loss_and_metric, summed

    if criterion is None:
        raise UsageError(
            "a Function does not say what is minimised",
            hint="Give the loss: Estimator(z, C.cross_entropy_with_softmax(z, y)).",
        )
    loss, metric = loss_and_metric(criterion)
    counted = [each for each in (metric, *evaluations) if each is not None]
    sums = [summed(each) for each in (loss, *counted)]
    maker, nodes = lower(list(dict.fromkeys([*model.outputs, *sums])))
    network = maker.network
    asked = set(model.arguments)
    arguments = dict.fromkeys(each for root in (model, loss, *counted) for each in root.arguments)
    for each in arguments:
        network.mark(nodes[each], "feature" if each in asked else "label")
        _name(network, nodes[each], each.name)
    for output in model.outputs:
        network.mark(nodes[output], "output")
        _name(network, nodes[output], output.name or "output")
    criteria = [nodes[each] for each in sums]
    for node, function, stem in zip(criteria, (loss, *counted), ("loss", *["metric"] * len(counted)), strict=True):
        _name(network, node, function.name or stem)
    network.mark(criteria[0], "criterion")
    for node in criteria[1:]:
        network.mark(node, "evaluation")
    return network, criteria[0], criteria[1:]


def drawn(model: Any) -> str | None:
    """Return the picture of a Function, a box for each block; None if it cannot be computed yet, or nothing draws."""
    try:
        maker, nodes = lower(list(model.outputs), bare=True)
    except (CntkError, GraphError):
        return None
    add_blocks(maker)
    choose_names(maker, {nodes[each]: (output_uid(each),) for each in model.outputs})
    for each in model.arguments:
        maker.network.mark(nodes[each], "feature")
    for each in model.outputs:
        maker.network.mark(nodes[each], "output")
    return maker.network._repr_svg_()


def _name(network: Network, node: Node, name: str) -> None:
    """Give a node the name that users know, as far as nobody else has it."""
    if name and name not in network:
        network.rename(node, name)
