"""How gradients flow back through the nodes of a step, by the ops' own descriptions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from cntk_core.network.node import Node
from cntk_core.ops.language.framing import run_gradient
from cntk_core.ops.language.op import OpContext
from cntk_kit_engines.foreign_results import check_gradients, is_foreign

Array = Any
"""An array of NumPy or of a module like it."""


def flow_back(
    nodes: Iterable[Node],
    arriving: MutableMapping[Node, Array],
    xp: Any,
    value: Callable[[Node], Array],
    contexts: Callable[[Node], OpContext],
    path: Mapping[Node, Sequence[bool]],
    *,
    targets: Container[Node] | None = None,
    whole: Callable[[Node], Array] | None = None,
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
        targets: nodes from outside that get one now, if others of the path do not.
        whole: in a loop, where ``value`` gives rows of a time step, gives all of a value to ops that take it whole.

    Raises:
        WrongResult: an op gives no list of gradients, or one of another shape than its input.
    """
    members = tuple(nodes)
    for node in reversed(members):
        if node not in arriving or node not in path:
            continue
        given = [
            whole(child) if whole is not None and index in node.op.whole else value(child)
            for index, child in enumerate(node.inputs)
        ]
        needs = path[node]
        if targets is not None:
            pairs = zip(needs, node.inputs, strict=True)
            needs = [need and (child in targets or child in members) for need, child in pairs]
        found = run_gradient(node.op, xp, arriving[node], value(node), given, node.attributes, contexts(node), needs)
        if is_foreign(node.op):
            check_gradients(node.op, found, given)
        for child, result in zip(node.inputs, found, strict=True):
            if result is not None:
                arriving[child] = arriving[child] + result if child in arriving else result
