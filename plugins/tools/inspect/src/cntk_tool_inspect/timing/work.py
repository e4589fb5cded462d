"""How much a step of a plan has to do, where its shapes say so: operations with numbers, and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod, sqrt

from cntk_core.api import Node, elements
from cntk_core.api.engines import AnyStep, GradientStep, Step, is_open

_PRODUCTS = frozenset({"Times", "TransposeTimes"})


def operations(step: AnyStep, rows: Mapping[str, int]) -> int | None:
    """Return the additions and multiplications of a matrix product or a convolution, or of its gradients.

    A product of an ``m x k`` and a ``k x n`` matrix has ``2 m k n``; so has each of its gradients. A convolution has
    two for each output and each weight that it comes from.

    Args:
        step: of a plan.
        rows: frames by dynamic axis.

    Returns:
        None for steps of another kind.
    """
    of = step.step if isinstance(step, GradientStep) else step
    if not isinstance(of, Step) or len(of.nodes) > 1 or any(is_open(node) for node in (*of.nodes, *of.reads)):
        return None
    node = of.nodes[0]
    once = _once(node)
    if once is None:
        return None
    times = len(step.targets) if isinstance(step, GradientStep) else 1
    return once * times * _rows(node, rows)


def _once(node: Node) -> int | None:
    """Operations for one frame."""
    if node.op.name in _PRODUCTS and len(node.inputs) == 2:
        sizes = [elements(each.known_shape) for each in (*node.inputs, node)]
        return 2 * round(sqrt(prod(sizes)))  # (m k) (k n) (m n) is the square of m k n
    if node.op.name == "Convolution":
        kernel, outputs = node.inputs[0].known_shape, node.known_shape
        return 2 * elements(outputs) * elements(kernel) // max(1, outputs[-1])
    return None


def moved(step: AnyStep, rows: Mapping[str, int], itemsize: int) -> int | None:
    """Return the bytes of what a step reads and writes, each once; None for loops and where sizes are not known."""
    if isinstance(step, Step):
        touched: Iterable[Node] = {*step.reads, *step.writes}
    elif isinstance(step, GradientStep):
        touched = [*step.reads, *step.sources, *(target.node for target in step.targets)]
    else:
        return None
    nodes = list(touched)
    if any(is_open(node) or getattr(node, "sparse", False) for node in nodes):
        return None
    return itemsize * sum(elements(node.known_shape) * _rows(node, rows) for node in nodes)


def _rows(node: Node, rows: Mapping[str, int]) -> int:
    return rows.get(node.axis, 1) if node.framed else 1
