"""Images with their channels last: which values lie so in memory, and their conversion where one is wanted otherwise.

A sample ``(channels, *space)`` of a node that lies channels last is stored ``(*space, channels)``. Its value and its
gradient are seen through transposed views, so that an op that knows nothing of it computes the right thing. Ops whose
kernels want an array whole in memory get a copy, made once for each minibatch.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node, Plan, elements
from cntk_core.api.engines import GradientStep, Loop, Step, is_open
from cntk_engine_cpu.gemm import Gemm
from cntk_engine_cpu.onednn_objects import PrimitiveError
from cntk_engine_cpu.primitives import Primitives
from cntk_engine_cpu.site import Array, Call, Site


def primitives_of(gemm: Gemm, dtype: np.dtype[Any]) -> Primitives | None:
    """The primitives for images, which are there in single precision with oneDNN."""
    if gemm.onednn is None or dtype != np.float32:
        return None
    try:
        return Primitives(gemm.onednn, gemm.threads)
    except PrimitiveError:
        return None


def channels_last_nodes(plan: Plan, sources: Iterable[Node], followers: Iterable[Node]) -> frozenset[Node]:
    """Choose the nodes that lie channels last.

    Args:
        plan: the plan.
        sources: nodes computed by kernels that write channels last (convolutions).
        followers: nodes computed by kernels that write as they read their first input (pooling, normalization).
    """
    begins, follows = set(sources), set(followers)
    in_loops = {node for step in plan.steps if isinstance(step, Loop) for node in (*step.nodes, *step.reads)}
    unfit = in_loops | set(plan.roots)
    found: set[Node] = set()
    for step in plan.steps:
        if isinstance(step, Loop):
            continue
        like = step.nodes[-1]
        if all(node.op.elementwise is not None for node in step.nodes):
            follow = any(node in found and node.known_shape == like.known_shape for node in step.reads)
        else:
            first = like.inputs[0] if like.inputs else None
            follow = first in found and (like in follows or like.op.traits.keeps_order)
        for node in step.writes:
            if (node in begins or follow) and node not in unfit and _is_image(node):
                found.add(node)
    return frozenset(found)


def _is_image(node: Node) -> bool:
    return bool(node.framed) and not is_open(node) and len(node.known_shape) > 1 and elements(node.known_shape) > 0


def last_channels(array: Array) -> Array:
    """The view ``(frames, *space, channels)`` of ``(frames, channels, *space)``."""
    return np.moveaxis(array, 1, -1)


def first_channels(array: Array) -> Array:
    """The view ``(frames, channels, *space)`` of ``(frames, *space, channels)``."""
    return np.moveaxis(array, -1, 1)


def stored_view(buffer: Array, node: Node, frames: int) -> Array:
    """The value ``(frames, channels, *space)`` in a buffer where it lies channels last."""
    channels, *space = node.known_shape
    return first_channels(buffer.reshape(frames, *space, channels))


@attrs.frozen(eq=False)
class Images:
    """How the values of one site's nodes lie, and copies of those that are wanted otherwise.

    Attributes:
        primitives: reorders arrays.
        nodes: those that lie channels last.
        copies: of values, in the other order than the node's; the forward part fills them.
        kept: what a pooling by a primitive keeps for its gradient.
    """

    primitives: Primitives
    nodes: frozenset[Node]
    copies: dict[Node, Array] = attrs.field(factory=dict)
    kept: dict[Node, Array | None] = attrs.field(factory=dict)

    def continued(self) -> Images:
        """The same with a record of its own, for the steps of another stage."""
        return attrs.evolve(self, copies=dict(self.copies), kept=dict(self.kept))

    def value(self, site: Site, node: Node, calls: list[Call]) -> Array:
        """A value as it is wanted of channels-last kernels, ``(frames, *space, channels)``.

        ``calls`` gets the conversion if one is needed and was not done before.
        """
        array = last_channels(site.values[node])
        return array if array.flags.c_contiguous else self._copy(site, node, array, calls)

    def value_out(self, site: Site, node: Node, after: list[Call]) -> Array:
        """Where a value ``(frames, *space, channels)`` is to be written; ``after`` gets the conversion."""
        array = last_channels(site.values[node])
        if array.flags.c_contiguous:
            return array
        made = self.copies[node] = site.scratch(node, array, node.axis, "value made")
        after.append(Call(self.primitives.reorder(made, array, site.ports)))
        return made

    def plain_value(self, site: Site, node: Node, calls: list[Call]) -> Array:
        """A value as it is wanted of any other kernel."""
        array = site.values[node]
        return array if array.flags.c_contiguous else self._copy(site, node, array, calls)

    def _copy(self, site: Site, node: Node, array: Array, calls: list[Call]) -> Array:
        if node not in self.copies:
            copy = self.copies[node] = site.scratch(node, array, node.axis, "copied value")
            calls.append(Call(self.primitives.reorder(array, copy, site.ports)))
        return self.copies[node]

    def gradient(self, site: Site, node: Node, calls: list[Call]) -> Array:
        """A gradient that comes in, ``(frames, *space, channels)``; ``calls`` gets the conversion."""
        array = last_channels(site.gradients[node])
        if array.flags.c_contiguous:
            return array
        copy = site.scratch(node, array, node.axis, "copied gradient")
        calls.append(Call(self.primitives.reorder(array, copy, site.ports)))
        return copy

    def gradient_out(self, site: Site, node: Node, after: list[Call], *, accumulate: bool) -> tuple[Array, bool]:
        """Where a gradient ``(frames, *space, channels)`` goes, and whether it is added there.

        ``after`` gets what has to be done when it is there.
        """
        return self._out(site, node, last_channels(site.gradients[node]), after, accumulate=accumulate)

    def _out(self, site: Site, node: Node, array: Array, after: list[Call], *, accumulate: bool) -> tuple[Array, bool]:
        if array.flags.c_contiguous:
            return array, accumulate
        made = site.scratch(node, array, node.axis, "gradient made")
        after.append(Call(self.primitives.reorder(made, array, site.ports, accumulate=accumulate)))
        return made, False

    def plain_site(self, site: Site, step: Step, calls: list[Call]) -> Site:
        """A site where all that a step reads lies plain; ``calls`` gets the conversions."""
        copied = {
            node: self.plain_value(site, node, calls)
            for node in step.reads
            if node in self.nodes and not site.values[node].flags.c_contiguous
        }
        # Over the others as they are then: the array of an input is another one in each minibatch.
        return attrs.evolve(site, values=ChainMap(copied, site.values)) if copied else site

    def plain_gradients(self, site: Site, step: GradientStep, after: list[Call]) -> tuple[Site, GradientStep]:
        """A site and step where all gradients that go out lie plain; ``after`` gets the conversions."""
        made: dict[Node, Array] = {}
        targets = []
        for target in step.targets:
            array, accumulate = site.gradients[target.node], target.accumulate
            if target.node in self.nodes:
                made[target.node], accumulate = self._out(site, target.node, array, after, accumulate=accumulate)
            targets.append(attrs.evolve(target, accumulate=accumulate))
        if not made:
            return site, step
        gradients = dict(site.gradients) | made
        return attrs.evolve(site, gradients=gradients), attrs.evolve(step, targets=tuple(targets))
