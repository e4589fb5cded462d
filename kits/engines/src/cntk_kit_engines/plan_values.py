"""What every engine asks of a plan before it computes: constants, contexts, sizes, rows of sparse gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.shapes import elements, with_lengths
from cntk_core.plan.plan import Plan
from cntk_kit_engines.axes import Axes


def elements_of(node: Node) -> int:
    """Number of values in one sample of a node."""
    return math.prod(node.known_shape)


class ValueSizes:
    """What sizes values have in a minibatch; the base of what an engine binds steps to.

    Attributes:
        frames: rows of each dynamic axis.
        longest: the longest sequence of each dynamic axis that is a dimension of a node.
    """

    frames: Mapping[str, int]
    longest: Mapping[str, int]

    def rows(self, node: Node) -> int:
        """Rows of a node's value seen as ``(rows, elements)``."""
        return self.frames[node.axis] if node.framed else 1

    def shape(self, node: Node) -> tuple[int, ...]:
        """Shape of a node's value, its frames included."""
        sample = with_lengths(node.known_shape, self.longest)
        return (self.rows(node), *sample) if node.framed else sample


def constants_of(plan: Plan, dtype: Any) -> dict[Node, NDArray[Any]]:
    """Return the values of the nodes that are known beforehand, in their shapes, in one piece and in a precision."""
    return {
        node: np.ascontiguousarray(node.value, dtype).reshape(node.known_shape)
        for node in plan.network
        if node.value is not None and not isinstance(node, Parameter)
    }


def contexts_of(plan: Plan, axes: Axes) -> dict[Node, OpContext]:
    """Return a context for each computed node whose dynamic axis has a known number of frames."""
    return {
        node: OpContext(framed=tuple(bool(child.framed) for child in node.inputs), frames=count, saved={})
        for step in plan.steps
        for node in step.nodes
        for count in [axes.rows_for(node)]
        if count >= 0
    }


def row_count(plan: Plan, parameter: Parameter) -> int:
    """Return how many rows a parameter with a sparse gradient has."""
    return elements(plan.sparse[parameter][0].known_shape)


def mark_rows(
    plan: Plan, store: ParameterStore, columns: Mapping[Node, Any], parameters: Iterable[Parameter] | None = None
) -> None:
    """Note in the store which rows of parameters with sparse gradients a minibatch has come to.

    Args:
        plan: tells the parameters, and the inputs that their gradients come from.
        store: the parameters.
        columns: by input, the elements that occur in the minibatch.
        parameters: only these; None are all.
    """
    for parameter in plan.sparse if parameters is None else parameters:
        touched = store.touched(parameter, row_count(plan, parameter))
        for node in plan.sparse[parameter]:
            touched[columns[node]] = True


def criterion_shape(plan: Plan, frames: Mapping[str, int]) -> tuple[int, ...] | None:
    """Return the shape of the ones that gradients begin with; None if there is no criterion, or its frames are unknown.

    A criterion by frame counts as the sum over its frames.
    """
    node = plan.criterion
    if node is None or (node.framed and node.axis not in frames):
        return None
    return (*((frames[node.axis],) if node.framed else ()), *node.known_shape)
