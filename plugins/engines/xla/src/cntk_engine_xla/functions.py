"""The function of a unit: traced once for each size of its dynamic axes, with donated parameters and slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from cntk_core.api import GradientStep, Loop, LoopGradient, Node, Plan, Step, UpdateRule
from cntk_engine_xla import update
from cntk_engine_xla.loops import compute_loop, compute_loop_gradients
from cntk_engine_xla.lowering import Array, SparseRows, Trace, element_count
from cntk_engine_xla.table import lowering_of
from cntk_engine_xla.units import Unit


@attrs.frozen(eq=False)
class UnitFunction:
    """What is compiled: called with ``donated`` and ``given`` arrays, returns a dictionary of arrays.

    Donated are, for a unit with the update, ``values`` and ``slots`` of the trained parameters, and the sums of the
    scalar roots. Given are what the unit reads, in its order: ``values``, ``gradients``, ``saved``; and ``counts`` of
    frames and time ``steps`` by axis, ``draws`` by place in ``drawn``, the ``numbers`` of the step, and ``touched`` rows.

    Attributes:
        plan: of the program.
        unit: what to compute.
        rule: of the update.
        dtype: of the program.
        training: whether it trains.
        sizes: rows of the dynamic axes, padding included.
        slots: parallel sequences of the dynamic axes with loops, padding included.
        sums: the scalar roots that the unit computes, with their places in the sums.
        drawn: the nodes for which the host has drawn.
        sparse: the inputs that are sparse.
    """

    plan: Plan
    unit: Unit
    rule: UpdateRule | None
    dtype: Any
    training: bool
    sizes: Mapping[str, int]
    slots: Mapping[str, int]
    sums: Mapping[Node, int]
    drawn: tuple[Node, ...]
    sparse: frozenset[Node]

    def __call__(self, donated: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the unit."""
        unit, plan = self.unit, self.plan
        trace = self._trace(donated, given)
        for step in unit.forward:
            if isinstance(step, Loop):
                compute_loop(trace, step, compute)
            else:
                compute(trace, step)
        criterion = plan.criterion
        if unit.seeds and criterion is not None:
            trace.gradients[criterion] = _seed(trace, criterion)
        for place, back in enumerate(unit.backward):
            if isinstance(back, LoopGradient):
                needed = unit.looked_at(place + 1, self.plan.trained)
                compute_loop_gradients(trace, back, needed, compute_gradients)
            else:
                compute_gradients(trace, back)
        results: dict[str, Any] = {
            "values": [trace.values[node] for node in unit.writes],
            "gradients": [_gradient(trace, node) for node in unit.leaves],
            "saved": [trace.context(node).saved for node in unit.keeps],
            "updated": [trace.updates[parameter] for parameter in unit.updated],
            "kept": [trace.kept.get(node) for node in self.drawn],
        }
        if self.sums:
            total = donated["sums"]
            for node, place in self.sums.items():
                total = total.at[place].add(trace.values[node].reshape(()).astype(total.dtype))
            results["sums"] = total
        if unit.update:
            results["trained"], results["slots"] = self._updated(trace, donated, given)
        return results

    def _trace(self, donated: Mapping[str, Any], given: Mapping[str, Any]) -> Trace:
        unit = self.unit
        values = dict(zip(unit.reads, given["values"], strict=True))
        for node in values:
            if node in self.sparse:
                row, column, data = values[node]
                values[node] = SparseRows(row, column, data, self.sizes[node.axis], element_count(node))
        if unit.update:
            values.update(zip(self.plan.trained, donated["values"], strict=True))
        trace = Trace(
            dtype=self.dtype,
            training=self.training,
            sizes=self.sizes,
            counts=given["counts"],
            values=values,
            gradients=dict(zip(unit.arrives, given["gradients"], strict=True)),
            draws=dict(zip(self.drawn, given["draws"], strict=True)),
            steps=given["steps"],
            slots=self.slots,
        )
        for node, saved in zip(unit.takes, given["saved"], strict=True):
            trace.context(node).saved = dict(saved)
        return trace

    def _updated(
        self, trace: Trace, donated: Mapping[str, Any], given: Mapping[str, Any]
    ) -> tuple[list[Array], list[tuple[Array, ...]]]:
        assert self.rule is not None
        touched = dict(zip(update.updates_rows(self.plan, self.rule), given["touched"], strict=True))
        values, slots = [], []
        for index, parameter in enumerate(self.plan.trained):
            value, others = update.apply(
                self.rule,
                donated["values"][index],
                _gradient(trace, parameter),
                donated["slots"][index],
                given["numbers"][index],
                touched.get(parameter),
            )
            values.append(value)
            slots.append(others)
        return values, slots


def _seed(trace: Trace, criterion: Node) -> Array:
    """The gradient of the criterion by itself; one by frame counts as the sum over its frames."""
    import jax.numpy as jnp

    ones = jnp.ones(trace.shape(criterion), trace.dtype)
    return trace.masked(ones, criterion.axis) if criterion.framed else ones


def _gradient(trace: Trace, node: Node) -> Array:
    """The gradient of a node; zeros if none has arrived."""
    import jax.numpy as jnp

    found = trace.gradients.get(node)
    shape = trace.shape(node)
    return jnp.zeros(shape, trace.dtype) if found is None else found.astype(trace.dtype).reshape(shape)


def _inputs(trace: Trace, node: Node) -> list[Array]:
    lowering = lowering_of(node)
    assert lowering is not None
    values = [trace.value(child) for child in node.inputs]
    return [
        value if index in lowering.takes_sparse else trace.dense(child, value)
        for index, (child, value) in enumerate(zip(node.inputs, values, strict=True))
    ]


def compute(trace: Trace, step: Step) -> None:
    """Compute the values of a step."""
    for node in step.nodes:
        lowering = lowering_of(node)
        assert lowering is not None
        value = lowering.forward(trace, node, _inputs(trace, node))
        trace.values[node] = value.astype(trace.dtype).reshape(trace.shape(node))


def compute_gradients(trace: Trace, step: GradientStep) -> None:
    """Add the gradients that leave a step to those that are there."""
    inside = set(step.step.nodes) | {target.node for target in step.targets}
    gradients = trace.gradients
    for node in reversed(step.step.nodes):
        if node not in gradients:
            continue
        needs = [node.op.flows_to(index) and child in inside for index, child in enumerate(node.inputs)]
        if not any(needs):
            continue
        lowering = lowering_of(node)
        if lowering is None or lowering.gradient is None:
            continue
        results = lowering.gradient(trace, node, gradients[node], _inputs(trace, node), needs)
        for child, result, needed in zip(node.inputs, results, needs, strict=True):
            if result is not None and needed:
                gradients[child] = gradients[child] + result if child in gradients else result
