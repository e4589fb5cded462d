"""Which ops have a lowering, and whether a step of a plan can be lowered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from cntk_core.api import Node, Op, core_ops
from cntk_core.api.engines import GradientStep, Loop, LoopGradient, Step, is_open, makes_axis_by_values
from cntk_engine_xla import (
    alignments,
    chains,
    criteria,
    delays,
    dropout,
    images,
    moves,
    normalization,
    partners,
    plain,
    products,
    regions,
    stack,
    vocabulary,
)
from cntk_engine_xla.lowering import Lowering

LOWERINGS: Mapping[str, Lowering] = {
    **plain.LOWERINGS,
    **products.LOWERINGS,
    **criteria.LOWERINGS,
    **dropout.LOWERINGS,
    **normalization.LOWERINGS,
    **images.LOWERINGS,
    **delays.LOWERINGS,
    **moves.LOWERINGS,
    **stack.LOWERINGS,
    **alignments.LOWERINGS,
    **chains.LOWERINGS,
    **vocabulary.LOWERINGS,
    **regions.LOWERINGS,
    **partners.LOWERINGS,
}
"""Op name to lowering. Element-wise ops need none: their scalar expressions run on ``jax.numpy``."""

BY_VALUES_ALONE = frozenset({"Times", "TransposeTimes", "DiagTimes"})
"""Ops whose gradient needs nothing that the forward part keeps."""

IN_LOOPS = frozenset({*plain.LOWERINGS, *products.LOWERINGS, *delays.LOWERINGS, "Dropout", "BatchNormalization"}) - {
    "LocalResponseNormalization"
}
"""Ops that a compiled loop can do for one time step.

They keep nothing for their gradients but what the host drew; those that update parameters may, the loop keeps it too.
"""


def lowering_of(node: Node) -> Lowering | None:
    """Return how a node becomes XLA; None if the host has to compute it."""
    if is_open(node) or any(is_open(child) for child in node.inputs):
        return None
    if node.op.makes_axis(node.inputs[0].shape if node.inputs else None, node.attributes) or makes_axis_by_values(node):
        return None
    if node.op.elementwise is not None:
        return plain.PLAIN
    found = LOWERINGS.get(node.op.name)
    # A plugin's op of the same name is another op.
    return found if found is not None and node.op is _core_op(node.op.name) and found.applies(node) else None


@cache
def _core_op(name: str) -> Op | None:
    """The core's op of a name. Its table is made anew by each call; tracing asks for every node of every function."""
    return core_ops().find("", name)


def is_lowered(step: Step | Loop | GradientStep | LoopGradient, hosted: frozenset[Node]) -> bool:
    """Whether a step becomes part of a compiled function.

    Args:
        step: of a plan.
        hosted: the nodes whose values the host computes.
    """
    if isinstance(step, LoopGradient):
        step = step.loop
    if isinstance(step, Loop):
        return all(_in_loop(node) for node in step.nodes)
    if isinstance(step, Step):
        return all(lowering_of(node) is not None for node in step.nodes)
    nodes = step.step.nodes
    if any(lowering_of(node) is None for node in nodes):
        return False
    alone = all(node.op.elementwise is not None or node.op.name in BY_VALUES_ALONE for node in nodes)
    return alone or hosted.isdisjoint(nodes)


def _in_loop(node: Node) -> bool:
    return lowering_of(node) is not None and (node.op.elementwise is not None or node.op.name in IN_LOOPS)
