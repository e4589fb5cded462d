"""Axes: the original's, of samples and of minibatches, and ours."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.api import NetworkError, Node
from cntk_core.api.builders import BATCH, FREE
from cntk_model_cntk2.values import ALL, ALL_STATIC, BATCH_AXIS, SEQUENCE_AXIS, Axis
from cntk_model_cntk2.values import FREE as FREE_DIMENSION

WHOLE_SAMPLE, EVERYTHING, SEQUENCE, SAMPLES = 0, -1, -2, -3
"""Numbers of axes of our ReduceElements; those of samples begin at 1."""


def rank_of(node: Node, what: str) -> int:
    """Return how many axes a node's samples have.

    Raises:
        NetworkError: that is not known when it is needed, in a loop.
    """
    if node.shape is None:
        raise NetworkError(f"{what} counts axes from the end of a value whose axes are not known")
    return len(node.shape)


def axis_number(axis: Axis, node: Node, what: str) -> int:
    """Return our number, from 1, of a static axis of a node.

    Raises:
        NetworkError: it is none.
    """
    if not axis.is_static:
        raise NetworkError(f"{what} needs an axis of a sample, not '{axis.name[:80]}'")
    return axis.index + 1 if axis.index >= 0 else axis.index + 1 + rank_of(node, what)


def reduced_axis(axis: Axis, node: Node, what: str) -> int:
    """Return our number of an axis that is reduced, which may be a dynamic one or all."""
    if axis.is_static:
        return axis_number(axis, node, what)
    if axis.index in (ALL_STATIC, ALL):
        return WHOLE_SAMPLE if axis.index == ALL_STATIC else EVERYTHING
    return SEQUENCE if axis.ordered else SAMPLES


def dynamic_axis(axes: Sequence[Axis]) -> str | None:
    """Return the name of our dynamic axis for the original's; None if there is none."""
    if not axes:
        return None
    ordered = next((axis.name for axis in axes if axis.ordered), BATCH)
    return "" if ordered == SEQUENCE_AXIS else ordered


def dynamic_axes(framed: bool, axis: str) -> list[Axis]:
    """Return the original's dynamic axes for ours."""
    from cntk_model_cntk2.values import NOT_STATIC

    if not framed:
        return []
    batch = Axis(NOT_STATIC, BATCH_AXIS, False)
    return [batch] if axis == BATCH else [Axis(NOT_STATIC, axis or SEQUENCE_AXIS, True), batch]


def memory_shape(dims: Sequence[int]) -> tuple[int, ...]:
    """Return a shape in memory order; free dimensions stay free."""
    return tuple(FREE if dim == FREE_DIMENSION else dim for dim in reversed(dims))
