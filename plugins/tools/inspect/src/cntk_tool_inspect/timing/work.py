"""How much a step of a plan has to do, where its shapes say so: operations with numbers, and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cntk_core.api import Node, elements
from cntk_core.api.engines import AnyStep, GradientStep, Step, is_open


def operations(step: AnyStep, rows: Mapping[str, int]) -> int | None:
    """Return the additions and multiplications of a step whose op says them, or of its gradients.

    Each gradient of a matrix product or a convolution has as many as its value.

    Args:
        step: of a plan.
        rows: frames by dynamic axis.

    Returns:
        None for other steps.
    """
    of = step.step if isinstance(step, GradientStep) else step
    if not isinstance(of, Step) or len(of.nodes) > 1 or any(is_open(node) for node in (*of.nodes, *of.reads)):
        return None
    node = of.nodes[0]
    count = node.op.traits.operations
    if count is None:
        return None
    once = count([child.known_shape for child in node.inputs], node.known_shape, node.attributes)
    times = len(step.targets) if isinstance(step, GradientStep) else 1
    return once * times * _rows(node, rows)


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
