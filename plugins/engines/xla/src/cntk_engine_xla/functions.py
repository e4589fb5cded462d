"""The function of a unit: traced once for each size of its dynamic axes, with donated parameters and slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import jax.numpy as jnp

from cntk_core.api import Node, Plan, UpdateRule
from cntk_core.api.engines import GradientStep, Loop, LoopGradient, Step
from cntk_engine_xla import update
from cntk_engine_xla.layouts import TimeSteps
from cntk_engine_xla.loops import compute_loop, compute_loop_gradients
from cntk_engine_xla.lowering import Array, SparseRows, Trace, element_count
from cntk_engine_xla.table import Lowerings
from cntk_engine_xla.units import Unit


@attrs.frozen(eq=False)
class UnitFunction:
    """What is compiled.

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
        lowerings: how nodes become XLA.
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
    lowerings: Lowerings

    def __call__(
        self,
        trained: tuple[Array, ...],
        slots: tuple[tuple[Array, ...], ...],
        sums: Array | None,
        reads: Sequence[Array | None],
        gradients: Sequence[Array],
        saved: Sequence[Mapping[str, Any]],
        counts: Sequence[Array],
        steps: Sequence[TimeSteps],
        draws: Sequence[Any],
        numbers: Array | None,
        touched: Sequence[Array],
    ) -> tuple[Any, ...]:
        """Compute the unit. What it returns of the first three arguments may be written over them.

        Args:
            trained: values of the trained parameters, for a unit with the update.
            slots: of each of these.
            sums: of the scalar roots, for a unit that computes some.
            reads: values that the unit reads; None for trained parameters, where they are given.
            gradients: that arrive.
            saved: what the contexts of the nodes hold that the unit takes over.
            counts: frames of each axis of the unit.
            steps: time steps of each axis with loops.
            draws: what the host drew, for each node that it drew for.
            numbers: of the update, float64 ``(parameters, names)``.
            touched: rows that change, for each parameter of which not all do.

        Returns:
            The new values, slots and sums; then, each in the order of the unit: values that others need, gradients that
            leave, what contexts keep, parameters that ops have changed, and what the nodes that were drawn for keep for
            the next minibatch.
        """
        unit = self.unit
        values = dict(zip(unit.reads, reads, strict=True))
        if unit.update:
            values.update(zip(self.plan.trained, trained, strict=True))
        trace = Trace(
            dtype=self.dtype,
            training=self.training,
            sizes=self.sizes,
            counts=dict(zip(unit.axes, counts, strict=True)),
            values={node: self._rows(node, value) for node, value in values.items()},
            lowerings=self.lowerings,
            gradients=dict(zip(unit.arrives, gradients, strict=True)),
            draws=dict(zip(self.drawn, draws, strict=True)),
            steps=dict(zip(unit.timed, steps, strict=True)),
            slots=self.slots,
        )
        for node, kept in zip(unit.takes, saved, strict=True):
            trace.context(node).saved = dict(kept)
        self._compute(trace)
        if unit.update:
            trained, slots = self._updated(trace, trained, slots, numbers, touched)
        return (
            trained,
            slots,
            self._summed(trace, sums),
            [trace.values[node] for node in unit.writes],
            [_gradient(trace, node) for node in unit.leaves],
            [trace.context(node).saved for node in unit.keeps],
            [trace.updates[parameter] for parameter in unit.updated],
            [trace.kept.get(node) for node in self.drawn],
        )

    def _rows(self, node: Node, value: Any) -> Any:
        """The value of a node as ops take it."""
        if node not in self.sparse:
            return value
        row, column, data = value
        return SparseRows(row, column, data, self.sizes[node.axis], element_count(node))

    def _compute(self, trace: Trace) -> None:
        """Compute the steps of the unit, forward and backward."""
        unit, criterion = self.unit, self.plan.criterion
        for step in unit.forward:
            if isinstance(step, Loop):
                compute_loop(trace, step, compute)
            else:
                compute(trace, step)
        if unit.seeds and criterion is not None:
            trace.gradients[criterion] = _seed(trace, criterion)
        for place, back in enumerate(unit.backward):
            if isinstance(back, LoopGradient):
                needed = unit.looked_at(place + 1, self.plan.trained)
                compute_loop_gradients(trace, back, needed, compute_gradients)
            else:
                compute_gradients(trace, back)

    def _summed(self, trace: Trace, sums: Array | None) -> Array | None:
        """The sums with the scalar roots that the unit computes."""
        if sums is None:
            return None
        added = [jnp.zeros((), sums.dtype)] * sums.shape[0]
        for node, place in self.sums.items():
            added[place] = trace.values[node].reshape(()).astype(sums.dtype)
        return sums + jnp.stack(added)

    def _updated(
        self,
        trace: Trace,
        trained: Sequence[Array],
        slots: Sequence[Sequence[Array]],
        numbers: Array | None,
        touched: Sequence[Array],
    ) -> tuple[tuple[Array, ...], tuple[tuple[Array, ...], ...]]:
        """New values and slots of the trained parameters."""
        assert self.rule is not None
        assert numbers is not None
        rows = dict(zip(update.updates_rows(self.plan, self.rule), touched, strict=True))
        results = [
            update.apply(self.rule, value, _gradient(trace, parameter), own, numbers[place], rows.get(parameter))
            for place, (parameter, value, own) in enumerate(zip(self.plan.trained, trained, slots, strict=True))
        ]
        return tuple(value for value, _ in results), tuple(own for _, own in results)


def _seed(trace: Trace, criterion: Node) -> Array:
    """The gradient of the criterion by itself; one by frame counts as the sum over its frames."""
    ones = jnp.ones(trace.shape(criterion), trace.dtype)
    return trace.masked(ones, criterion.axis) if criterion.framed else ones


def _gradient(trace: Trace, node: Node) -> Array:
    """The gradient of a node; zeros if none has arrived."""
    found = trace.gradients.get(node)
    shape = trace.shape(node)
    return jnp.zeros(shape, trace.dtype) if found is None else found.astype(trace.dtype).reshape(shape)


def _inputs(trace: Trace, node: Node) -> list[Array]:
    lowering = trace.lowerings.at(node)
    values = [trace.value(child) for child in node.inputs]
    return [
        value if index in lowering.takes_sparse else trace.dense(child, value)
        for index, (child, value) in enumerate(zip(node.inputs, values, strict=True))
    ]


def compute(trace: Trace, step: Step) -> None:
    """Compute the values of a step."""
    for node in step.nodes:
        value = trace.lowerings.at(node).forward(trace, node, _inputs(trace, node))
        trace.values[node] = value.astype(trace.dtype).reshape(trace.shape(node))


def compute_gradients(trace: Trace, step: GradientStep) -> None:
    """Add the gradients that leave a step to those that are there."""
    members, targets = set(step.step.nodes), {target.node for target in step.targets}
    gradients = trace.gradients
    # What flows inside stays inside: another gradient step of the same nodes begins with the same sources.
    inner = {node: gradients[node] for node in step.sources if node in gradients}
    for node in reversed(step.step.nodes):
        if node not in inner:
            continue
        needs = [
            node.op.flows_to(index) and (child in members or child in targets)
            for index, child in enumerate(node.inputs)
        ]
        if not any(needs):
            continue
        back = trace.lowerings.at(node).gradient
        if back is None:
            continue
        results = back(trace, node, inner[node], _inputs(trace, node), needs)
        for child, result, needed in zip(node.inputs, results, needs, strict=True):
            if result is not None and needed:
                place = inner if child in members else gradients
                place[child] = place[child] + result if child in place else result
