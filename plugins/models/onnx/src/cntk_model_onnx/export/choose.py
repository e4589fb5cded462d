"""Which nodes of a network a file has as its outputs: criteria and what they need alone are left out."""

from __future__ import annotations

from collections.abc import Iterable

from cntk_core.api import Input, Network, NetworkError, Node, Parameter

OF_TRAINING = {
    "SquareError", "CrossEntropyWithSoftmax", "CrossEntropy", "ClassificationError", "Logistic", "DummyCriterion",
    "CosDistanceWithNegativeSamples", "ClassBasedCrossEntropyWithSoftmax", "NoiseContrastiveEstimation", "LambdaRank",
    "NDCG1Eval", "CRF", "EditDistanceError", "LabelsToGraph", "ForwardBackward", "SequenceWithSoftmax",
    "LatticeFreeMMI", "EpochAccumulator", "SumFrames", "SumOfOuterProducts", "ConvolutionWeights",
}  # fmt: skip
"""Operations that are there for training and its reports."""


def outputs_of(network: Network) -> list[Node]:
    """Return the outputs: those that are marked, else what no node reads, each without criteria.

    Where none is marked, what stands behind the criteria is an output too: what is trained to be right.

    Raises:
        NetworkError: nothing is left.
    """
    marked = network.roots["output"]
    candidates = marked or _roots(network)
    found = [node for node in candidates if not _is_criterion(node, network)]
    if not marked or not found:
        criteria = [*network.roots["criterion"], *network.roots["evaluation"], *candidates]
        found += _behind([node for node in dict.fromkeys(criteria) if _is_criterion(node, network)], network)
    if not found:
        raise NetworkError("the network has no output that could be written", hint="Mark one: outputNodes.")
    return list(dict.fromkeys(found))


def _roots(network: Network) -> list[Node]:
    read = {child for node in network for child in node.inputs}
    leaves = ("input", "parameter", "axis")
    return [node for node in network if node not in read and node.op.role not in leaves]


def _is_criterion(node: Node, network: Network) -> bool:
    of_group = node in network.roots["criterion"] or node in network.roots["evaluation"]
    return node.op.name in OF_TRAINING or of_group or (node.op.role == "criterion" and not node.inputs)


def _behind(criteria: Iterable[Node], network: Network) -> list[Node]:
    """What criteria look at and is computed of features; the first that is none of theirs."""
    waiting, found, seen = list(criteria), [], set[Node]()
    labels = set(network.roots["label"])
    while waiting:
        node = waiting.pop(0)
        for child in node.inputs:
            if child in seen:
                continue
            seen.add(child)
            if _is_criterion(child, network) or child.op.role == "criterion":
                waiting.append(child)
            elif not isinstance(child, Input | Parameter) and child.framed and not _needs_only(child, labels):
                found.append(child)
    return found


def _needs_only(node: Node, labels: set[Node]) -> bool:
    """Whether all inputs that a node needs are labels."""
    waiting, seen = [node], {node}
    found: set[Node] = set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, Input):
            found.add(each)
        for child in each.inputs:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return bool(found) and found <= labels
