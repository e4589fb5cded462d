"""ReferenceEngine: a plan computed with NumPy in double precision, slowly and obviously. The oracle of every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError, NetworkError, did_you_mean
from cntk_core.interfaces.engine import ExecutionEngine, Program
from cntk_core.interfaces.layout import SequenceLayout
from cntk_core.interfaces.learner import UpdateRule
from cntk_core.interfaces.reader import Minibatch
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.expression import ArrayMath
from cntk_core.ops.framing import dense, run_forward, run_gradient
from cntk_core.ops.op import OpContext
from cntk_core.ops.random import random_stream
from cntk_core.ops.shapes import elements
from cntk_core.plan.plan import GradientStep, Plan
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


@attrs.frozen
class _Frames:
    """The rows of a dynamic axis in one minibatch."""

    count: int
    layout: SequenceLayout | None


class ReferenceProgram(Program):
    """A plan with the values of its last run, by node."""

    def __init__(self, plan: Plan, store: ParameterStore, rule: UpdateRule | None, seed: int) -> None:
        self.plan = plan
        self.store = store
        self.rule = rule
        self.seed = seed
        self.step = 0
        self.settings: dict[str, float] = {}
        self._place = {node: index for index, node in enumerate(plan.network)}
        self._roots = {node.name.lower(): node for node in plan.roots}
        self._values: dict[Node, Array] = {}
        self._contexts: dict[Node, OpContext] = {}
        self._totals: dict[str, float] = {node.name: 0.0 for node in plan.roots if _is_scalar(node)}
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
        if self.plan.criterion is None:
            raise NetworkError("the plan has no gradients: it was made without a criterion")
        self._forward(minibatch, training=True)
        gradients: dict[Node, Array] = {self.plan.criterion: np.ones_like(self._values[self.plan.criterion])}
        for step in self.plan.gradients:
            self._backward(step, gradients)
        for parameter in self.plan.trained:
            self.store.gradient(parameter)[...] = gradients.get(parameter, 0.0)
        self.step += 1

    def update(self, scalars: Sequence[Mapping[str, float]]) -> None:
        """Apply the rule to each trained parameter.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        if self.rule is None:
            raise NetworkError("the program was compiled without an update rule")
        for parameter, numbers in zip(self.plan.trained, scalars, strict=True):
            views = {slot.name: self.store.slot(slot.name, parameter) for slot in self.rule.slots}
            value, gradient = self.store.value(parameter), self.store.gradient(parameter)
            new_value, new_slots = self.rule.expression(
                ArrayMath(np), _double(value), _double(gradient), {n: _double(v) for n, v in views.items()}, numbers
            )
            value[...] = new_value
            for name, view in views.items():
                view[...] = new_slots[name]

    def value(self, name: str) -> Array:
        """Return a copy of a root's value after the last run.

        Raises:
            NetworkError: the plan has no such root, or nothing has been computed yet.
        """
        node = self._roots.get(name.lower())
        if node is None:
            guess = did_you_mean(name, [root.name for root in self.plan.roots])
            raise NetworkError(f"the plan has no root '{name}'{guess}")
        if node not in self._values:
            raise NetworkError(f"the root '{node.name}' has not been computed yet")
        return self._values[node].copy()

    def read_totals(self) -> Mapping[str, float]:
        """Return the sums of the scalar roots since the last call, and set them to zero."""
        totals = dict(self._totals)
        self._totals = dict.fromkeys(totals, 0.0)
        return totals

    def _forward(self, minibatch: Minibatch, *, training: bool) -> None:
        self._values = {}
        self._contexts = {}
        axes = self._read_inputs(minibatch)
        for parameter in self.plan.parameters:
            assert isinstance(parameter, Parameter)
            self._values[parameter] = _double(self.store.value(parameter))
        for node in self.plan.network:
            if node.value is not None and not isinstance(node, Parameter):
                self._values[node] = _double(node.value)
        for step in self.plan.steps:
            for node in step.nodes:
                self._compute(node, axes, training)
        if training:
            self._keep_updates()
        for name in self._totals:
            self._totals[name] += float(self._values[self._roots[name.lower()]].reshape(-1)[0])

    def _keep_updates(self) -> None:
        """Write what ops changed in their inputs (running statistics) back to the store."""
        for node in (node for step in self.plan.steps for node in step.nodes):
            for child in (node.inputs[index] for index in node.op.updates if index < len(node.inputs)):
                if isinstance(child, Parameter):
                    self.store.value(child)[...] = self._values[child]

    def _read_inputs(self, minibatch: Minibatch) -> dict[str, _Frames]:
        streams = {name.lower(): data for name, data in minibatch.streams.items()}
        axes: dict[str, _Frames] = {}
        for node in self.plan.inputs:
            data = streams.get(node.name.lower())
            if data is None:
                known = ", ".join(minibatch.streams)
                raise DataError(f"the minibatch has no stream for the input '{node.name}'", hint=f"Streams: {known}")
            rows = _double(dense(data.data))
            self._values[node] = rows.reshape(rows.shape[0], *node.known_shape)
            axes[node.axis] = _Frames(rows.shape[0], data.layout)
        return axes

    def _compute(self, node: Node, axes: Mapping[str, _Frames], training: bool) -> None:
        framed = tuple(bool(child.framed) for child in node.inputs)
        frames = self._frames_of(node, axes)
        context = OpContext(
            framed=framed,
            frames=frames.count,
            training=training,
            layout=frames.layout,
            random=lambda: random_stream(self.seed, self._place[node], self.step),
            settings=self.settings,
        )
        inputs = [self._values[child] for child in node.inputs]
        self._contexts[node] = context
        self._values[node] = np.array(run_forward(node.op, np, inputs, node.attributes, context))

    def _frames_of(self, node: Node, axes: Mapping[str, _Frames]) -> _Frames:
        for child in node.inputs:
            if child.framed:
                same_axis = axes.get(child.axis)
                layout = same_axis.layout if same_axis is not None else None
                return _Frames(self._values[child].shape[0], layout)
        return _Frames(1, None)

    def _backward(self, step: GradientStep, gradients: dict[Node, Array]) -> None:
        wanted = {*step.step.nodes, *(target.node for target in step.targets)}
        for node in reversed(step.step.nodes):
            if node not in gradients:
                continue
            needs = [node.op.flows_to(index) and child in wanted for index, child in enumerate(node.inputs)]
            results = run_gradient(
                node.op,
                np,
                gradients[node],
                self._values[node],
                [self._values[child] for child in node.inputs],
                node.attributes,
                self._contexts[node],
                needs,
            )
            for child, result in zip(node.inputs, results, strict=True):
                if result is not None:
                    gradients[child] = gradients[child] + result if child in gradients else np.array(result)


def _is_scalar(node: Node) -> bool:
    return not node.framed and elements(node.known_shape) == 1 and not isinstance(node, Input | Parameter)


def _double(value: Any) -> Array:
    return np.array(value, dtype=np.float64)
