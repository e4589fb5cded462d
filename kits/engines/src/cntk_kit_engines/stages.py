"""Stages of a plan: a dynamic axis that an operation makes has its number of frames only after it has run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from cntk_core.errors import DataError
from cntk_core.network.node import Node
from cntk_core.ops.families.frame_moves import same_sequences
from cntk_core.plan.plan import Loop, Plan, derived_nodes, makes_axis_by_values
from cntk_core.records.layout import SequenceLayout


@attrs.frozen(eq=False)
class Stage:
    """Steps that run with the same knowledge of dynamic axes.

    Attributes:
        first, end: the forward steps.
        axes: the dynamic axes whose frames are known, sorted.
        makes: the node at the end whose axis is known from then on; None for the last stage.
    """

    first: int
    end: int
    axes: tuple[str, ...]
    makes: Node | None = None


def stages_of(plan: Plan) -> tuple[Stage, ...]:
    """Cut a plan behind each operation that makes a dynamic axis."""
    # An axis that follows from another is known with it, at the latest in the last stage.
    derived = {node.axis: node.inputs[0].axis for node in derived_nodes(plan)}
    axes = {node.axis for node in plan.inputs if node.framed}
    axes |= {axis for axis, source in derived.items() if source in axes}
    found: list[Stage] = []
    first = 0
    for index, step in enumerate(plan.steps):
        node = step.nodes[0]
        if not isinstance(step, Loop) and makes_axis_by_values(node):
            found.append(Stage(first, index + 1, tuple(sorted(axes)), node))
            axes.add(node.axis)
            axes |= {axis for axis, source in derived.items() if source in axes}
            first = index + 1
    return (*found, Stage(first, len(plan.steps), tuple(sorted(axes))))


Meeting = tuple[Node, tuple[Node, ...]]
"""A node, and inputs of it that have different dynamic axes."""


def meetings_of(plan: Plan) -> tuple[Meeting, ...]:
    """The nodes whose inputs come from different axes: only the data tell whether the sequences are the same."""
    found = []
    for step in plan.steps:
        for node in step.nodes:
            framed = tuple({child.axis: child for child in node.inputs if child.framed}.values())
            if node.op.axis_of is None and len(framed) > 1:
                found.append((node, framed))
    return tuple(found)


def check_axes(meetings: Sequence[Meeting], layouts: Mapping[str, SequenceLayout]) -> None:
    """Make sure that axes that meet have the same sequences.

    Raises:
        DataError: they do not.
    """
    for node, (first, *others) in meetings:
        for other in others:
            if not same_sequences(layouts[first.axis], layouts[other.axis]):
                raise DataError(
                    f"{node.op.name} '{node.name}': the sequences of '{first.name}' and "
                    f"'{other.name}' differ in length",
                    where=node.where,
                    hint="ReconcileDynamicAxis or BS.Sequences.BroadcastSequenceAs brings one to the axis of another.",
                )
