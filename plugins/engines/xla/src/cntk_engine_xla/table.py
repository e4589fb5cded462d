"""Which nodes have a lowering, and which steps of a plan can be lowered."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.api import Kernel, Node
from cntk_core.api.engines import (
    GradientStep,
    Loop,
    LoopGradient,
    Step,
    is_open,
    kernel_tables,
    makes_axis_by_values,
)
from cntk_engine_xla import (
    alignments,
    attention,
    chains,
    criteria,
    delays,
    direct_lowering,
    dropout,
    images,
    moves,
    negative_samples,
    normalization,
    products,
    reductions,
    regions,
    stack,
    vocabulary,
)
from cntk_engine_xla.lowering import Lowering

KERNELS: tuple[Kernel, ...] = (
    *products.KERNELS,
    *criteria.KERNELS,
    *dropout.KERNELS,
    *normalization.KERNELS,
    *images.KERNELS,
    *delays.KERNELS,
    *moves.KERNELS,
    *stack.KERNELS,
    *alignments.KERNELS,
    *chains.KERNELS,
    *vocabulary.KERNELS,
    *regions.KERNELS,
    *negative_samples.KERNELS,
    *attention.KERNELS,
    *reductions.KERNELS,
)
"""The engine's own kernels. Ops that are pure over ``xp`` and go row by row need none: see :mod:`direct_lowering`."""


class Lowerings:
    """How nodes become XLA: by a kernel of their op, else by what its traits allow.

    Args:
        given: kernels that the run has found; they are asked first.

    Raises:
        PluginError: a kernel has a setting that the engine does not know.
    """

    def __init__(self, given: Sequence[Kernel] = ()) -> None:
        self._kernels = kernel_tables(given, KERNELS, Lowering)

    def of(self, node: Node) -> Lowering | None:
        """Return how a node becomes XLA; None if the host has to compute it."""
        if is_open(node) or any(is_open(child) for child in node.inputs):
            return None
        if makes_axis_by_values(node) or _makes_axis(node):
            return None
        kernels = self._kernels.get(node.op, ())
        return next((each for each in kernels if each.applies(node)), None) or direct_lowering.lowering_of(node.op)

    def at(self, node: Node) -> Lowering:
        """Return how a node becomes XLA that does."""
        found = self.of(node)
        assert found is not None, f"the host computes '{node.name}'"
        return found

    def reach(self, step: Step | Loop | GradientStep | LoopGradient, hosted: frozenset[Node] = frozenset()) -> bool:
        """Whether a step becomes part of a compiled function.

        Args:
            step: of a plan.
            hosted: the nodes whose values the host computes.
        """
        if isinstance(step, LoopGradient):
            step = step.loop
        if isinstance(step, Loop):
            return all(self._in_loop(node) for node in step.nodes)
        if isinstance(step, Step):
            return all(self.of(node) is not None for node in step.nodes)
        nodes = step.step.nodes
        if any(self.of(node) is None for node in nodes):
            return False
        return all(node.op.traits.keeps_nothing for node in nodes) or hosted.isdisjoint(nodes)

    def _in_loop(self, node: Node) -> bool:
        found = self.of(node)
        return found is not None and found.in_loops


def _makes_axis(node: Node) -> bool:
    return node.op.makes_axis(node.inputs[0].shape if node.inputs else None, node.attributes)


OWN = Lowerings()
"""Without kernels of other wheels."""
