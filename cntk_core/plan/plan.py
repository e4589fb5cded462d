"""The records of a plan. :func:`cntk_core.plan.make.make_plan` makes it; engines compile it."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import attrs

from cntk_core.errors import CntkError, NetworkError
from cntk_core.network.inference import is_delay
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.shapes import Free, Longest
from cntk_core.records.layout import SequenceLayout


@attrs.frozen(eq=False)
class Step:
    """One forward step: a single node, or several element-wise nodes fused into one pass.

    Attributes:
        nodes: in order; the last is always an output.
        reads: distinct values from outside that the step uses (inputs, parameters, results of earlier steps).
        writes: nodes of the step whose values must be materialised, because a later step or the user reads them.
    """

    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]


@attrs.frozen(eq=False)
class Target:
    """A gradient that a gradient step produces.

    Attributes:
        node: whose gradient it is.
        accumulate: add to what earlier gradient steps wrote; otherwise overwrite.
        last: no later step adds to it, so that for a parameter the gradient is complete.
    """

    node: Node
    accumulate: bool
    last: bool


@attrs.frozen(eq=False)
class GradientStep:
    """The gradients of one forward step.

    Attributes:
        step: the forward step.
        sources: nodes of the step whose output gradients come in.
        reads: forward values that the gradient expressions look at.
        targets: gradients that go out, to nodes outside the step.
    """

    step: Step
    sources: tuple[Node, ...]
    reads: tuple[Node, ...]
    targets: tuple[Target, ...]


@attrs.frozen(eq=False)
class Loop:
    """A recurrent loop: steps that are done for one time step after the other.

    All its nodes have the same dynamic axis. A time step works on the rows of that step alone, but for a delay, which
    reads its first input at another time step.

    Attributes:
        steps: the body, in order; delays come first, each a step of its own.
        direction: 1 from the first time step to the last, -1 from the last to the first.
        reads: values from outside that the body uses.
        writes: nodes of the body whose values must be materialised for all time steps.
    """

    steps: tuple[Step, ...]
    direction: int
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]

    @functools.cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the body, in order."""
        return tuple(node for step in self.steps for node in step.nodes)

    @functools.cached_property
    def delays(self) -> tuple[Node, ...]:
        """The steps through which one time step sees another."""
        return tuple(step.nodes[0] for step in self.steps if is_delay(step.nodes[0]))


@attrs.frozen(eq=False)
class LoopGradient:
    """The gradients of a loop, time step by time step against its direction.

    What needs no time loop is not here: gradients of values without frames (weights, biases) are ordinary gradient
    steps over all frames after it.

    Attributes:
        loop: the forward loop.
        steps: the gradient steps of the body, in order, for one time step. Targets inside the loop are added to or
            overwritten row by row; a delay adds to the rows of the time step that it read.
        cleared: nodes whose gradients must be zero before the loop begins.
        sources: nodes of the loop whose output gradients come in from outside.
        reads: forward values that the gradients look at.
        targets: gradients that are complete for all time steps afterwards, inside the loop and outside.
    """

    loop: Loop
    steps: tuple[GradientStep, ...]
    cleared: tuple[Node, ...]
    sources: tuple[Node, ...]
    reads: tuple[Node, ...]
    targets: tuple[Target, ...]


AnyStep = Step | Loop | GradientStep | LoopGradient
"""What a plan does one after the other."""


@attrs.frozen
class Buffer:
    """Storage that several values share one after the other.

    ``per_frame`` elements for each frame of the minibatch (of dynamic axis ``axis``), or ``fixed`` elements.
    """

    index: int
    per_frame: int
    fixed: int
    axis: str = ""


@attrs.frozen(eq=False)
class Plan:
    """What to compute for a set of roots.

    Attributes:
        network: the network, with shapes inferred.
        roots: values that can be read after a run; scalar ones are summed into totals.
        criterion: the node whose gradient is computed in training; None for evaluation and for gradients ``by`` nodes.
        inputs: streams that are read.
        parameters: parameters that are read.
        trained: parameters whose gradients are computed into the store.
        steps: forward steps in order.
        gradients: gradient steps in order; empty for evaluation.
        buffers: the shared storage.
        value_buffer: node to index of the buffer of its value. Inputs, parameters and precomputed nodes have none, nor
            have nodes with a dimension that every minibatch has its own of
            (:class:`~cntk_core.ops.language.shapes.Longest`).
        gradient_buffer: node to index of the buffer of its gradient, or of its seed. Trained parameters have none (the
            store).
        open_values, open_gradients: nodes with such a dimension, whose values and gradients need storage.
        seeded: the roots where gradients begin that :meth:`Program.backward` is given; none in a plan for training.
        by: the nodes by which gradients are asked for, empty in a plan for training. What their gradients look at is
            kept until the next minibatch, so that gradients may flow again from other seeds.
        sparse: the trained parameters whose gradients come from products with sparse inputs alone, with these inputs.
            An update touches only the rows (in memory order) whose elements occur in the minibatch, unless the rule
            changes all values (``UpdateRule.everywhere``).
    """

    network: Network
    roots: tuple[Node, ...]
    criterion: Node | None
    inputs: tuple[Input, ...]
    parameters: tuple[Node, ...]
    trained: tuple[Parameter, ...]
    steps: tuple[Step | Loop, ...]
    gradients: tuple[GradientStep | LoopGradient, ...]
    buffers: tuple[Buffer, ...]
    value_buffer: Mapping[Node, int]
    gradient_buffer: Mapping[Node, int]
    sparse: Mapping[Parameter, tuple[Input, ...]] = attrs.field(factory=dict)
    open_values: tuple[Node, ...] = ()
    open_gradients: tuple[Node, ...] = ()
    seeded: tuple[Node, ...] = ()
    by: tuple[Node, ...] = ()

    @property
    def fed_back(self) -> bool:
        """Whether gradients are added to the ones of the criterion, since a delay in a loop looks at it."""
        return any(target.node is self.criterion for step in self.gradients for target in step.targets)

    @property
    def training(self) -> bool:
        """Whether the plan has gradients (and dropout is on)."""
        return self.criterion is not None

    def sole_writer(self, parameter: Parameter) -> bool:
        """Whether one step alone produces the parameter's gradient, so that the update may be folded into it."""
        targets = [target for step in self.gradients for target in step.targets if target.node is parameter]
        return len(targets) == 1


def is_open(node: Node) -> bool:
    """Whether a node has a dimension that every minibatch has its own of."""
    return any(isinstance(dim, Longest | Free) for dim in node.known_shape)


def assignments(plan: Plan) -> dict[Parameter, Node]:
    """Return the parameters that a plan assigns to after a minibatch, each with the node whose value it gets."""
    nodes = (node for step in plan.steps for node in step.nodes if node.op.traits.assigns)
    return {node.inputs[0]: node for node in nodes if isinstance(node.inputs[0], Parameter)}


def marked_assignments(network: Network) -> tuple[Node, ...]:
    """Return the marked nodes of a network that assign, which a training does although nothing else needs them."""
    marked = dict.fromkeys(node for group in network.roots.values() for node in group)
    return tuple(node for node in marked if node.op.traits.assigns)


def makes_axis_by_values(node: Node) -> bool:
    """Whether a node makes a dynamic axis whose sequences are known only after it was computed."""
    op = node.op
    if op.forward is None or op.relayout is not None:
        return False
    return op.makes_axis(node.inputs[0].shape if node.inputs else None, node.attributes)


def derived_nodes(plan: Plan) -> tuple[Node, ...]:
    """Return the nodes with a dynamic axis of their own whose layout follows from that of their first input."""
    return tuple(
        node
        for step in plan.steps
        for node in step.nodes
        if node.op.relayout is not None and node.op.makes_axis(node.inputs[0].shape, node.attributes)
    )


def derive_layout(node: Node, layouts: Mapping[str, SequenceLayout | None]) -> SequenceLayout:
    """Return the layout of the axis that a node makes, from the layouts of the axes before it.

    Raises:
        CntkError: the frames of this minibatch do not fit; with the node's name and place.
    """
    source = node.inputs[0]
    layout = layouts[source.axis]
    assert layout is not None
    assert node.op.relayout is not None
    try:
        return node.op.relayout(layout, source.known_shape, node.attributes)
    except CntkError as error:
        error.message = f"{node.op.name} '{node.name}': {error.message}"
        error.where = error.where or node.where
        raise


def layout_of_root(plan: Plan, name: str, layouts: Mapping[str, SequenceLayout | None]) -> SequenceLayout:
    """Return the layout of the dynamic axis of a root, or of a node by which gradients are asked for.

    Raises:
        NetworkError: the plan has no such root, or it has no sequences.
    """
    node = next((root for root in (*plan.roots, *plan.by) if root.name.lower() == name.lower()), None)
    layout = layouts.get(node.axis) if node is not None and node.framed else None
    if layout is None:
        raise NetworkError(f"the root '{name}' has no sequences")
    return layout
