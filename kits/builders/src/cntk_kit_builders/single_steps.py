"""Which places a Where finds: one in each sequence, or any number."""

from __future__ import annotations

import numpy as np

from cntk_core.network.node import Node, Parameter


def makes_single_steps(node: Node) -> bool:
    """Whether a Where finds the first or the last step alone, so that its axis has one step in each sequence.

    CNTK 2 has no sequences there any more. It is seen from what the Where reads: a delay by one step of what is always
    0, with 1 beyond the end.
    """
    found = node.inputs[0]
    while found.op.name == "Pass":
        found = found.inputs[0]
    if not found.op.traits.delay or found.attributes.time_step != 1 or not _is_zero(found.inputs[0]):
        return False
    if len(found.inputs) == 1:
        return bool(found.attributes.default_hidden_activation == 1.0)
    first = found.inputs[1]
    return isinstance(first, Parameter) and first.value is not None and bool(np.all(first.value == 1.0))


def _is_zero(node: Node) -> bool:
    """Whether a node is 0 whatever the inputs are."""
    if isinstance(node, Parameter):
        return not node.learned and node.value is not None and not np.any(node.value)
    if node.op.name in ("ReconcileDynamicAxis", "Pass", "Slice", "SumColumnElements", "BroadcastLike"):
        return _is_zero(node.inputs[0])
    return node.op.name == "ElementTimes" and any(map(_is_zero, node.inputs))
