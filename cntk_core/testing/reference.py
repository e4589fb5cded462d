"""ReferenceEngine: a plan computed with NumPy in double precision, slowly and obviously. The oracle of every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import NetworkError
from cntk_core.interfaces.engine import ExecutionEngine
from cntk_core.interfaces.layout import IntArray, SequenceLayout
from cntk_core.interfaces.learner import UpdateRule
from cntk_core.interfaces.reader import Minibatch, StreamData
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.delays import fill_outside, keep_tail, rows_of, shift_of
from cntk_core.ops.expression import ArrayMath
from cntk_core.ops.framing import dense, run_forward, run_gradient
from cntk_core.ops.layouts import frame_layout
from cntk_core.ops.op import OpContext
from cntk_core.ops.shapes import Shape, elements, longest_axes, with_lengths
from cntk_core.plan.lengths import check_lengths
from cntk_core.plan.plan import (
    GradientStep,
    Loop,
    LoopGradient,
    Plan,
    is_open,
    makes_axis_by_values,
)
from cntk_core.plan.program import PlanProgram
from cntk_core.training.store import ParameterStore

Array = NDArray[np.float64]


class ReferenceEngine(ExecutionEngine):
    """Interprets a plan node by node, in float64 whatever the precision of the parameter store is."""

    requires_api = "1.0"

    def compile(
        self, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
    ) -> ReferenceProgram:
        """Make a program of a plan."""
        return ReferenceProgram(plan, store, rule, seed)


class ReferenceProgram(PlanProgram):
    """A plan with the values of its last run, by node."""

    def __init__(self, plan: Plan, store: ParameterStore, rule: UpdateRule | None, seed: int) -> None:
        super().__init__(plan, seed)
        self.store = store
        self.rule = rule
        self._values: dict[Node, Array] = {}
        self._contexts: dict[Any, OpContext] = {}
        self._columns: dict[Node, IntArray] = {}
        if rule is not None:
            store.add_slots(rule.slots)

    def evaluate(self, minibatch: Minibatch) -> None:
        """Compute all roots."""
        self._forward(minibatch, training=False)

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Compute all roots and the gradients of the trained parameters; these go to the store.

        Raises:
            NetworkError: the plan has no criterion.
        """
        self.check_training()
        self._forward(minibatch, training=True)
        assert self.plan.criterion is not None
        gradients: dict[Node, Array] = {self.plan.criterion: np.ones_like(self._values[self.plan.criterion])}
        for step in self.plan.gradients:
            if isinstance(step, LoopGradient):
                self._backward_loop(step, gradients)
            else:
                self._backward(step, gradients)
        for parameter in self.plan.trained:
            self.store.gradient(parameter)[...] = gradients.get(parameter, 0.0)
        for parameter, inputs in self.plan.sparse.items():
            touched = self.store.touched(parameter, elements(inputs[0].known_shape))
            for node in inputs:
                touched[self._columns[node]] = True
        self.step += 1

    def update(self, scalars: Sequence[Mapping[str, float]]) -> None:
        """Apply the rule to each trained parameter; with a sparse gradient only to the rows that it has come to.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        if self.rule is None:
            raise NetworkError("the program was compiled without an update rule")
        for parameter, numbers in zip(self.plan.trained, scalars, strict=True):
            views = {slot.name: self.store.slot(slot.name, parameter) for slot in self.rule.slots}
            value, gradient = self.store.value(parameter), self.store.gradient(parameter)
            rows: Any = ...
            if parameter in self.plan.sparse and not self.rule.everywhere:
                count = elements(self.plan.sparse[parameter][0].known_shape)
                rows = self.store.take_touched(parameter, count)
                value, gradient = value.reshape(count, -1), gradient.reshape(count, -1)
                views = {name: view.reshape(count, -1) for name, view in views.items()}
            slots = {name: _double(view[rows]) for name, view in views.items()}
            arrays = ArrayMath(np), _double(value[rows]), _double(gradient[rows]), slots
            means = _means_of(self.rule, *arrays, numbers)
            new_value, new_slots = self.rule.expression(*arrays, {**numbers, **means})
            value[rows] = new_value
            for name, view in views.items():
                view[rows] = new_slots[name]

    def fetch(self, node: Node) -> Array | None:
        """Return a root's value of the last run, None if there was no run."""
        return self._values.get(node)

    def _forward(self, minibatch: Minibatch, *, training: bool) -> None:
        self._values = {}
        self._contexts = {}
        self._read_inputs(minibatch)
        for parameter in self.plan.parameters:
            assert isinstance(parameter, Parameter)
            self._values[parameter] = _double(self.store.value(parameter))
        for node in self.plan.network:
            if node.value is not None and not isinstance(node, Parameter):
                self._values[node] = _double(node.value)
        for step in self.plan.steps:
            if any(is_open(child) for child in step.reads):
                check_lengths(step.nodes, self.axes.longest())
            if isinstance(step, Loop):
                self._compute_loop(step, training)
                continue
            for node in step.nodes:
                context = self._contexts[node] = self.make_context(node, training=training)
                self._values[node] = self._result(node, [self._values[child] for child in node.inputs], context)
                if makes_axis_by_values(node):
                    self.axes.make(node, context.new_layout)
        if training:
            self._keep_updates()
        for node in self.scalars:
            self.totals[node.name] += float(self._values[node].reshape(-1)[0])

    def _keep_updates(self) -> None:
        """Write what ops changed in their inputs (running statistics) back to the store."""
        for node in (node for step in self.plan.steps for node in step.nodes):
            for child in (node.inputs[index] for index in node.op.updates if index < len(node.inputs)):
                if isinstance(child, Parameter):
                    self.store.value(child)[...] = self._values[child]

    def _read_inputs(self, minibatch: Minibatch) -> None:
        for node, data in self.axes.take(minibatch).items():
            if node.sparse:
                self._columns[node] = _occurring(data)
            rows = _double(dense(data.data))
            self._values[node] = rows.reshape(rows.shape[0], *node.known_shape)

    def _result(self, node: Node, inputs: Sequence[Array], context: OpContext) -> Array:
        return np.array(run_forward(node.op, np, inputs, node.attributes, context))

    # -- loops --------------------------------------------------------------------------------------------

    def _compute_loop(self, loop: Loop, training: bool) -> None:
        axis = loop.nodes[0].axis
        frames = self.axes.frames[axis]
        for node in loop.nodes:
            self._values[node] = np.zeros((frames, *self._shape(node)))
            self._contexts[node] = self.make_context(node, training=training)
            self._contexts[node].random = _always(self._contexts[node].random())
        for delay in loop.delays:
            initial = [self._values[child] for child in delay.inputs[1:]]
            fill_outside(self._values[delay], initial, self._contexts[delay], *_delay(delay))
        for rows in _time_steps(self.axes.layouts[axis], loop.direction):
            for node in loop.nodes:
                if node in loop.delays:
                    here, source = _delayed(node, self._contexts[node], rows)
                    self._values[node][here] = self._values[node.inputs[0]][source]
                else:
                    context = self._contexts[node, rows.start] = self._step_context(node, rows)
                    inputs = [self._rows(child, self._values[child], rows) for child in node.inputs]
                    self._values[node][rows] = self._result(node, inputs, context)
        for delay in loop.delays:
            value, *initial = (self._values[child] for child in delay.inputs)
            keep_tail(value, initial, self._contexts[delay], *_delay(delay))

    def _shape(self, node: Node) -> Shape:
        """The sample shape of a node in this minibatch."""
        return (
            with_lengths(node.known_shape, self.axes.longest()) if longest_axes(node.known_shape) else node.known_shape
        )

    def _step_context(self, node: Node, rows: slice) -> OpContext:
        layout = frame_layout(rows.stop - rows.start)
        return attrs.evolve(self._contexts[node], frames=rows.stop - rows.start, layout=layout, saved={})

    def _rows(self, node: Node, value: Array, rows: slice) -> Array:
        return value[rows] if node.framed else value

    def _backward_loop(self, step: LoopGradient, gradients: dict[Node, Array]) -> None:
        for target in step.targets:
            gradients.setdefault(target.node, np.zeros_like(self._values[target.node]))
        layout = self._contexts[step.loop.nodes[0]].layout
        for rows in _time_steps(layout, -step.loop.direction):
            for part in step.steps:
                (first, *_) = part.step.nodes
                if first in step.loop.delays:
                    here, source = _delayed(first, self._contexts[first], rows)
                    np.add.at(gradients[first.inputs[0]], source, gradients[first][here])
                    continue
                arriving = {node: gradients[node][rows] for node in part.sources}
                leaving = self._gradients_of(part, arriving, rows)
                for node, change in leaving.items():
                    self._rows(node, gradients[node], rows)[...] += change

    def _backward(self, step: GradientStep, gradients: dict[Node, Array]) -> None:
        arriving = {node: gradients[node] for node in step.sources if node in gradients}
        for node, change in self._gradients_of(step, arriving, None).items():
            gradients[node] = gradients[node] + change if node in gradients else np.array(change)

    def _gradients_of(self, step: GradientStep, arriving: dict[Node, Array], rows: slice | None) -> dict[Node, Array]:
        """Gradients that leave a step, for all frames or for the rows of one time step."""
        inside = set(step.step.nodes)
        targets = {target.node for target in step.targets}
        leaving: dict[Node, Array] = {}

        def value(node: Node) -> Array:
            return self._values[node] if rows is None else self._rows(node, self._values[node], rows)

        for node in reversed(step.step.nodes):
            if node not in arriving:
                continue
            results = run_gradient(
                node.op,
                np,
                arriving[node],
                value(node),
                [value(child) for child in node.inputs],
                node.attributes,
                self._contexts[node] if rows is None else self._contexts[node, rows.start],
                [node.op.flows_to(index) and child in inside | targets for index, child in enumerate(node.inputs)],
            )
            for child, result in zip(node.inputs, results, strict=True):
                if result is not None:
                    place = arriving if child in inside else leaving
                    place[child] = place[child] + result if child in place else np.array(result)
        return leaving


def _occurring(stream: StreamData) -> IntArray:
    """The elements of a sparse input that a minibatch has, zeros included that the data name."""
    data: Any = stream.data
    return np.unique(data.indices if stream.sparse else data.reshape(len(data), -1).nonzero()[1])


def _always(generator: np.random.Generator) -> Callable[[], np.random.Generator]:
    """One stream for all time steps of a loop, so that they differ."""
    return lambda: generator


def _delay(node: Node) -> tuple[int, float]:
    """How many steps back a delay reads, and what stands before the first step."""
    shift = shift_of(node.op.name, node.attributes.time_step)
    return shift, node.attributes.default_hidden_activation


def _delayed(node: Node, context: OpContext, rows: slice) -> tuple[IntArray, IntArray]:
    """The rows of a time step that a delay finds in this minibatch, and where it finds them."""
    source = rows_of(context, _delay(node)[0]).source[rows]
    return rows.start + np.flatnonzero(source >= 0), source[source >= 0]


def _time_steps(layout: SequenceLayout | None, direction: int) -> Iterator[slice]:
    """The rows of each time step, in the order of a loop."""
    assert layout is not None, "a loop needs the sequences of its minibatch"
    for start, count in list(zip(layout.start.tolist(), layout.alive.tolist(), strict=True))[::direction]:
        yield slice(start, start + count)


def _means_of(
    rule: UpdateRule, m: Any, value: Array, gradient: Array, slots: Mapping[str, Array], numbers: Mapping[str, float]
) -> dict[str, float]:
    """The means over a parameter that a rule needs. Of no element at all, nobody will use them."""
    if rule.mean_expression is None:
        return {}
    found = rule.mean_expression(m, value, gradient, slots, numbers)
    return {name: float(np.mean(array)) if value.size else 1.0 for name, array in found.items()}


def _double(value: Any) -> Array:
    return np.array(value, dtype=np.float64)
