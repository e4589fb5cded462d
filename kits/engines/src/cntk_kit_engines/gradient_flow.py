"""How gradients flow back through the nodes of a step, by the ops' own descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from cntk_core.network.node import Node
from cntk_core.ops.language.framing import run_gradient
from cntk_core.ops.language.op import OpContext

Array = Any
"""An array of NumPy or of a module like it."""


def flow_back(
    nodes: Iterable[Node],
    arriving: MutableMapping[Node, Array],
    xp: Any,
    value: Callable[[Node], Array],
    contexts: Callable[[Node], OpContext],
    path: Mapping[Node, Sequence[bool]],
) -> None:
    """Compute the gradients of the inputs of nodes, and put them to those that arrive.

    A gradient that comes from one node alone may lie where that node's gradient lies.

    Args:
        nodes: in the order of the forward pass.
        arriving: by node, the gradients that are known.
        xp: NumPy, or a module like it.
        value: gives the value of a node; where no gradient looks at it, something of its shape.
        contexts: gives the context of a node's forward run.
        path: for each node through which a gradient flows, which inputs want one.
    """
    for node in reversed(tuple(nodes)):
        if node not in arriving or node not in path:
            continue
        given = [value(child) for child in node.inputs]
        context = contexts(node)
        found = run_gradient(node.op, xp, arriving[node], value(node), given, node.attributes, context, path[node])
        for child, result in zip(node.inputs, found, strict=True):
            if result is not None:
                arriving[child] = arriving[child] + result if child in arriving else result
