"""What the binding of a step may use: arrays on the device, kernels, storage; and what sizes values have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from cntk_core.api import Node, Op, OpContext, Plan
from cntk_core.api.engines import Loop, Step, ValueSizes, elements_of
from cntk_engine_cuda.gpu import Array, Gpu

if TYPE_CHECKING:
    from cntk_engine_cuda.delay_tables import DelayTables
    from cntk_engine_cuda.loops import StepSites
    from cntk_engine_cuda.sparse import SparseInlet
    from cntk_engine_cuda.templates import Template


@attrs.frozen(eq=False)
class OpKernel:
    """How this engine computes an op.

    Attributes:
        forward: ``(site, step) -> calls`` that compute the value, None if it cannot.
        gradient: ``(site, gradient step) -> calls`` that compute the gradients, None if it cannot.
    """

    forward: Callable[..., Any]
    gradient: Callable[..., Any] | None = None


@attrs.frozen(eq=False)
class Site(ValueSizes):
    """The arrays of a plan for given numbers of frames.

    Attributes:
        plan: the plan.
        gpu: the device.
        dtype: precision.
        frames: rows of each dynamic axis.
        values, gradients: arrays ``(frames, *shape)`` or ``shape`` on the device, by node.
        path: for each node through which a gradient flows, which inputs want one.
        contexts: what ops see beside their inputs, by node.
        numbers: a number for each node: names in expression trees, and keys of random streams.
        scratch: ``(node, purpose, elements for each frame or, without frames, in all, type) -> flat array``: storage
            that a step keeps beside its value, the same for all numbers of frames.
        fixed: ``(node, purpose, elements) -> flat array``: storage that does not depend on the number of frames.
        workspace: ``elements -> flat array``: storage that a step uses while it runs, the same for all.
        random: the step and the dropout rate of the present minibatch, on the device.
        delays: which rows delays read, and what they keep.
        longest: the longest sequence of each dynamic axis that is a dimension of a node.
        sparse: inputs that stay sparse; they have no values.
        templates: code of time steps of loops, for other rows.
        made: values of nodes that make dynamic axes.
        interpreted: nodes that look at their contexts.
        step_sites: what the steps of each loop see.
        drawn: random numbers that nodes in a loop have drawn in the time steps before.
        refreshed: by key, what sends a table of ``delays``; done before all calls.
        beforehand, afterwards: what is done on the host before all calls (after the tables), and after them.
        kernels: of ops, in the order in which they are asked.
        chosen: which of them computes a node's value.
        remarks: what the program has to say when training has ended, by what it is about.
    """

    plan: Plan
    gpu: Gpu
    dtype: np.dtype[Any]
    frames: Mapping[str, int]
    values: Mapping[Node, Array]
    gradients: Mapping[Node, Array]
    path: Mapping[Node, list[bool]]
    contexts: Mapping[Node, OpContext]
    numbers: Mapping[Node, int]
    scratch: Callable[..., Array]
    fixed: Callable[[Node, str, int], Array]
    workspace: Callable[[int], Array]
    random: RandomState
    delays: DelayTables
    longest: Mapping[str, int] = attrs.field(factory=dict)
    sparse: Mapping[Node, SparseInlet] = attrs.field(factory=dict)
    templates: dict[Any, Template | None] = attrs.field(factory=dict)
    made: dict[Node, Array] = attrs.field(factory=dict)
    interpreted: set[Node] = attrs.field(factory=set)
    step_sites: dict[Loop, StepSites] = attrs.field(factory=dict)
    drawn: Mapping[Node, int] = attrs.field(factory=dict)
    refreshed: dict[Any, Callable[[], None]] = attrs.field(factory=dict)
    beforehand: list[Callable[[], None]] = attrs.field(factory=list)
    afterwards: list[Callable[[], None]] = attrs.field(factory=list)
    kernels: Mapping[Op, Sequence[OpKernel]] = attrs.field(factory=dict)
    chosen: dict[Node, OpKernel] = attrs.field(factory=dict)
    remarks: dict[str, str] = attrs.field(factory=dict)

    def matrix(self, node: Node) -> Array:
        """A value as ``(rows, elements)``."""
        return self.values[node].reshape(self.rows(node), elements_of(node))

    def gradient_matrix(self, node: Node) -> Array:
        """A gradient as ``(rows, elements)``."""
        return self.gradients[node].reshape(self.rows(node), elements_of(node))

    def outputs(self, step: Step) -> list[Array]:
        """The values that a step writes."""
        return [self.values[node] for node in step.writes]


@attrs.frozen(eq=False)
class RandomState:
    """What random numbers depend on beside the node.

    Attributes:
        seed: of the program.
        step: ``(1,)`` unsigned, on the device.
        rate: ``(1,)`` double, on the device: the share of elements to drop, 0 outside of training.
        own: the same of nodes that have rates of their own, by rate.
    """

    seed: int
    step: Array
    rate: Array
    own: Mapping[float, Array] = attrs.field(factory=dict)
