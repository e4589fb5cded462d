"""Interpreter: steps and loops of a plan computed with NumPy, node by node, slowly and obviously.

The reference engine is made of it; other engines compute with it what they have no form of their own for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.network.inference import shift_of
from cntk_core.network.node import Node
from cntk_core.ops.families.delays import fill_outside, keep_tail, rows_of
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.ops.language.shapes import Shape, longest_axes, with_lengths
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Step, is_open, makes_axis_by_values
from cntk_core.records.layout import IntArray
from cntk_kit_engines.axes import time_steps
from cntk_kit_engines.foreign_results import check_gradients, check_value, is_foreign
from cntk_kit_engines.lengths import check_lengths
from cntk_kit_engines.program import PlanProgram
from cntk_kit_engines.trees import path_of

Array = NDArray[Any]


@attrs.frozen(eq=False)
class NodeKernel:
    """How an engine computes an op that an :class:`Interpreter` comes to, outside of loops and in them.

    Values are arrays ``(frames, *shape)``, or ``shape`` where a node has no frames; in a loop, the frames are those of
    one time step. An input that is whole in loops (``Op.whole``) has all frames. Nodes with a dimension that every
    minibatch has its own of are left to the op's own functions.

    Attributes:
        forward: ``(node, inputs, context) -> value``; None leaves the node to the next kernel, at last to the op's own
            functions. For the gradient it may keep what it likes in ``context.saved``.
        gradient: ``(node, arriving, value, inputs, needs, context) -> gradients``, one for each input in the shape of
            its value, None where ``needs`` is False or it is zero. Without it gradients are the op's own, so that an op
            whose gradient looks at what its own forward function has kept is left to the op wherever gradients flow.
    """

    forward: Callable[..., Any]
    gradient: Callable[..., Any] | None = None


class Interpreter:
    """Computes steps on arrays that it finds by node.

    Args:
        program: whose axes, carried state and random streams are used.
        values: by node; what is computed is put there. Inputs, parameters and constants must be there.
        gradients: by node; a step adds to those that are there already. Arrays may be changed in place.
        dtype: of what is computed.
        kernels: of ops, in the order in which they are asked.

    Attributes:
        contexts: of each node of the last minibatch, and of each node and first row of a time step in loops.
    """

    def __init__(
        self,
        program: PlanProgram,
        values: MutableMapping[Node, Array],
        gradients: MutableMapping[Node, Array],
        dtype: Any,
        kernels: Mapping[Op, Sequence[NodeKernel]] | None = None,
    ) -> None:
        self._program = program
        self._kernels = kernels or {}
        self._chosen: dict[Node, NodeKernel] = {}
        self._flowing = path_of(program.plan) if kernels else {}
        self._values = values
        self._gradients = gradients
        self._dtype = np.dtype(dtype)
        self.contexts: dict[Any, OpContext] = {}

    def compute(self, step: Step | Loop, *, training: bool) -> None:
        """Compute a step or a loop; an axis that it makes is known afterwards.

        Raises:
            DataError: it cannot be computed with the longest sequences of this minibatch.
        """
        axes = self._program.axes
        if any(is_open(child) for child in step.reads):
            check_lengths(step.nodes, axes.longest())
        if isinstance(step, Loop):
            self._compute_loop(step, training)
            return
        for node in step.nodes:
            context = self.contexts[node] = self._program.make_context(node, training=training)
            self._values[node] = self._result(node, [self._values[child] for child in node.inputs], context)
            if makes_axis_by_values(node):
                axes.make(node, context.new_layout)

    def compute_gradients(self, step: GradientStep | LoopGradient) -> None:
        """Compute the gradients that leave a step or a loop, and add them to those that are there.

        Somebody else may have computed a step without a loop, whose ops keep nothing but values for their gradients.
        """
        if isinstance(step, LoopGradient):
            self._backward_loop(step)
            return
        gradients = self._gradients
        arriving = {node: gradients[node] for node in step.sources if node in gradients}
        for node, change in self._gradients_of(step, arriving, None).items():
            gradients[node] = gradients[node] + change if node in gradients else np.array(change)

    def _result(self, node: Node, inputs: Sequence[Array], context: OpContext) -> Array:
        opened = any(is_open(each) for each in (node, *node.inputs))
        for kernel in () if opened else self._kernels.get(node.op, ()):
            if kernel.gradient is None and node in self._flowing and not node.op.traits.keeps_nothing:
                continue
            found = kernel.forward(node, inputs, context)
            if found is not None:
                self._chosen[node] = kernel
                return np.array(found, self._dtype)
        self._chosen.pop(node, None)
        result = run_forward(node.op, np, inputs, node.attributes, context)
        if is_foreign(node.op) and not makes_axis_by_values(node):
            sample = self._shape(node)
            check_value(node.op, result, (context.frames, *sample) if node.framed else sample)
        return np.array(result, self._dtype)

    def _flow(
        self, node: Node, arriving: Array, value: Array, inputs: list[Array], context: OpContext, needs: list[bool]
    ) -> Sequence[Array | None]:
        """The gradients of a node's inputs: by the kernel that has computed its value, or by the op's own function."""
        kernel = self._chosen.get(node)
        if kernel is None or kernel.gradient is None:
            gradients = run_gradient(node.op, np, arriving, value, inputs, node.attributes, context, needs)
            if is_foreign(node.op):
                check_gradients(node.op, gradients, inputs)
            return gradients
        found: Sequence[Array | None] = kernel.gradient(node, arriving, value, inputs, needs, context)
        return found

    # -- loops --------------------------------------------------------------------------------------------

    def _compute_loop(self, loop: Loop, training: bool) -> None:
        axis = loop.nodes[0].axis
        axes, values = self._program.axes, self._values
        for node in loop.nodes:
            values[node] = np.zeros((axes.frames[axis], *self._shape(node)), self._dtype)
            self.contexts[node] = self._program.make_context(node, training=training)
            self.contexts[node].random = _always(self.contexts[node].random())
        for delay in loop.delays:
            initial = [values[child] for child in delay.inputs[1:]]
            fill_outside(values[delay], initial, self.contexts[delay], *_delay(delay))
        for rows in time_steps(axes.layouts[axis], loop.direction):
            for node in loop.nodes:
                if node in loop.delays:
                    here, source = _delayed(node, self.contexts[node], rows)
                    values[node][here] = values[node.inputs[0]][source]
                else:
                    context = self.contexts[node, rows.start] = self._step_context(node, rows)
                    inputs = [self._given(node, index, rows) for index in range(len(node.inputs))]
                    values[node][rows] = self._result(node, inputs, context)
        for delay in loop.delays:
            value, *initial = (values[child] for child in delay.inputs)
            keep_tail(value, initial, self.contexts[delay], *_delay(delay))

    def _shape(self, node: Node) -> Shape:
        """The sample shape of a node in this minibatch."""
        shape = node.known_shape
        return with_lengths(shape, self._program.axes.longest()) if longest_axes(shape) else shape

    def _kept(self, node: Node) -> Array:
        """A value; something of its shape if somebody else has computed the step, and no gradient looks at it."""
        if node in self._values:
            return self._values[node]
        return np.zeros(self._program.shape_of(node), self._dtype)

    def _context(self, node: Node) -> OpContext:
        """The context of a node's forward run; a new one if somebody else has computed it."""
        if node not in self.contexts:
            self.contexts[node] = self._program.make_context(node, training=True)
        return self.contexts[node]

    def _step_context(self, node: Node, rows: slice) -> OpContext:
        count = rows.stop - rows.start
        layout = frame_layout(count)
        return attrs.evolve(self.contexts[node], frames=count, layout=layout, saved={}, first=rows.start)

    def _given(self, node: Node, index: int, rows: slice) -> Array:
        """What a node is given of an input for the rows of a time step."""
        child = node.inputs[index]
        value = self._values[child]
        return value if index in node.op.whole else self._rows(child, value, rows)

    def _rows(self, node: Node, value: Array, rows: slice) -> Array:
        return value[rows] if node.framed else value

    def _backward_loop(self, step: LoopGradient) -> None:
        gradients = self._gradients
        for target in step.targets:
            if target.node not in gradients:
                gradients[target.node] = np.zeros_like(self._values[target.node])
        layout = self._program.axes.layouts[step.loop.nodes[0].axis]
        for rows in time_steps(layout, -step.loop.direction):
            for part in step.steps:
                (first, *_) = part.step.nodes
                if first in step.loop.delays:
                    here, source = _delayed(first, self.contexts[first], rows)
                    np.add.at(gradients[first.inputs[0]], source, gradients[first][here])
                    continue
                arriving = {node: gradients[node][rows] for node in part.sources}
                leaving = self._gradients_of(part, arriving, rows)
                for node, change in leaving.items():
                    self._rows(node, gradients[node], rows)[...] += change

    def _gradients_of(self, step: GradientStep, arriving: dict[Node, Array], rows: slice | None) -> dict[Node, Array]:
        """Gradients that leave a step, for all frames or for the rows of one time step."""
        inside = set(step.step.nodes)
        targets = {target.node for target in step.targets}
        leaving: dict[Node, Array] = {}

        def value(node: Node) -> Array:
            return self._kept(node) if rows is None else self._rows(node, self._values[node], rows)

        def given(node: Node) -> list[Array]:
            if rows is None:
                return [self._kept(child) for child in node.inputs]
            return [self._given(node, index, rows) for index in range(len(node.inputs))]

        for node in reversed(step.step.nodes):
            if node not in arriving:
                continue
            results = self._flow(
                node,
                arriving[node],
                value(node),
                given(node),
                self._context(node) if rows is None else self.contexts[node, rows.start],
                [node.op.flows_to(index) and child in inside | targets for index, child in enumerate(node.inputs)],
            )
            for child, result in zip(node.inputs, results, strict=True):
                if result is not None:
                    place = arriving if child in inside else leaving
                    place[child] = place[child] + result if child in place else np.array(result)
        return leaving


def _always(generator: np.random.Generator) -> Callable[[], np.random.Generator]:
    """One stream for all time steps of a loop, so that they differ."""
    return lambda: generator


def _delay(node: Node) -> tuple[int, float]:
    """How many steps back a delay reads, and what stands before the first step."""
    return shift_of(node), node.attributes.default_hidden_activation


def _delayed(node: Node, context: OpContext, rows: slice) -> tuple[IntArray, IntArray]:
    """The rows of a time step that a delay finds in this minibatch, and where it finds them."""
    source = rows_of(context, _delay(node)[0]).source[rows]
    return rows.start + np.flatnonzero(source >= 0), source[source >= 0]
