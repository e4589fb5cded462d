"""ReferenceEngine: a plan computed with NumPy in double precision, slowly and obviously. The oracle of every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import NetworkError
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.expression import ArrayMath
from cntk_core.ops.language.framing import dense
from cntk_core.ops.language.shapes import elements
from cntk_core.plan.plan import (
    Plan,
)
from cntk_core.records.layout import IntArray
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_engines.compiling import compiles
from cntk_kit_engines.interpreter import Interpreter
from cntk_kit_engines.program import PlanProgram

Array = NDArray[np.float64]


class ReferenceEngine(ExecutionEngine):
    """Interprets a plan node by node, in float64 whatever the precision of the parameter store is."""

    requires_api = "1.0"

    @compiles
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
        self._gradients: dict[Node, Array] = {}
        self._interpreter = Interpreter(self, self._values, self._gradients, np.float64)
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
        self._gradients.clear()
        self._gradients[self.plan.criterion] = np.ones_like(self._values[self.plan.criterion])
        for step in self.plan.gradients:
            self._interpreter.compute_gradients(step)
        self._store_gradients()
        self.step += 1

    def run_forward(self, minibatch: Minibatch, *, training: bool) -> None:
        """Compute all roots; everything is kept."""
        self._forward(minibatch, training=training)

    def run_backward(self, seeds: Mapping[Node, Array]) -> None:
        """Compute the gradients from those of the roots."""
        self._gradients.clear()
        self._gradients.update({node: _double(seed) for node, seed in seeds.items()})
        for step in self.plan.gradients:
            self._interpreter.compute_gradients(step)
        self._store_gradients()

    def fetch_gradient(self, node: Node) -> Array | None:
        """Return the gradient by a node, None if none has come there."""
        return self._gradients.get(node)

    def _store_gradients(self) -> None:
        for parameter in self.plan.trained:
            self.store.gradient(parameter)[...] = self._gradients.get(parameter, 0.0)
        for parameter, inputs in self.plan.sparse.items():
            touched = self.store.touched(parameter, elements(inputs[0].known_shape))
            for node in inputs:
                touched[self._columns[node]] = True

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
            # NumPy's numbers, which can be divided by zero as those of all engines can.
            known = {name: np.float64(number) for name, number in {**numbers, **means}.items()}
            new_value, new_slots = self.rule.expression(*arrays, known)
            value[rows] = new_value
            for name, view in views.items():
                view[rows] = new_slots[name]

    def fetch(self, node: Node) -> Array | None:
        """Return a root's value of the last run, None if there was no run."""
        return self._values.get(node)

    def _forward(self, minibatch: Minibatch, *, training: bool) -> None:
        self._values.clear()
        self._interpreter.contexts.clear()
        self._read_inputs(minibatch)
        for parameter in self.plan.parameters:
            assert isinstance(parameter, Parameter)
            self._values[parameter] = _double(self.store.value(parameter))
        for node in self.plan.network:
            if node.value is not None and not isinstance(node, Parameter):
                self._values[node] = _double(node.value)
        for step in self.plan.steps:
            self._interpreter.compute(step, training=training)
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
            self._values[node] = rows.reshape(*rows.shape[: int(bool(node.framed))], *node.known_shape)


def _occurring(stream: StreamData) -> IntArray:
    """The elements of a sparse input that a minibatch has, zeros included that the data name."""
    data: Any = stream.data
    return np.unique(data.indices if stream.sparse else data.reshape(len(data), -1).nonzero()[1])


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
