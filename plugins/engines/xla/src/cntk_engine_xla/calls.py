"""Calls of compiled functions: one for each unit of a plan and each arrangement of a minibatch.

A step of a small network takes less time than a few hundred lines of Python, which find nothing of their own in the
caches of the processor after each matrix product. What does not differ from the minibatch before is therefore kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import jax
import numpy as np

from cntk_core.api import Input, Node, Parameter, SequenceLayout
from cntk_engine_xla.execution_state import ExecutionState
from cntk_engine_xla.functions import UnitFunction
from cntk_engine_xla.layouts import TimeSteps
from cntk_engine_xla.lowering import Array, axis_around, stream_behind
from cntk_engine_xla.transfers import on_device
from cntk_engine_xla.units import Unit, nodes_of

Scalars = Mapping[str, float]


@attrs.frozen(eq=False)
class Arrangement:
    """What a call needs to know of the layouts of a minibatch.

    Attributes:
        layouts: of the axes of the unit.
        sizes, slots: rows of these, and parallel sequences of those with loops, padding included.
        counts: frames of the axes, on the device.
        steps: time steps of those with loops.
        function: what is called, if that depends on nothing else.
    """

    layouts: list[SequenceLayout]
    sizes: tuple[int, ...]
    slots: tuple[int, ...]
    counts: tuple[Array, ...]
    steps: tuple[TimeSteps, ...]
    function: Any = None


class Caller:
    """Calls the functions of a unit; what it needs to know of the unit is found once.

    Args:
        state: where it reads and writes.
        unit: a compiled one.
        training: whether the program trains.

    Attributes:
        functions: those that were compiled so far.
    """

    def __init__(self, state: ExecutionState, unit: Unit, *, training: bool) -> None:
        self._state = state
        self._unit = unit
        self._training = training
        plan = state.program.plan
        self.functions: dict[tuple[Any, ...], Any] = {}
        own = set(unit.writes)
        self._sums = {node: place for node, place in state.totals.places.items() if node in own}
        trained = frozenset(plan.trained) if unit.update else frozenset()
        needed = [(place, node) for place, node in enumerate(unit.reads) if node not in trained]
        self._varying = [(place, node) for place, node in needed if not _is_constant(node)]
        self._constant = [(place, node) for place, node in needed if _is_constant(node)]
        self._constants: list[Array | None] | None = None
        self._sparse = tuple(node for node in unit.reads if node in state.sparse)
        inside = {node for step in unit.steps for node in nodes_of(step)}
        self._random = tuple(node for step in plan.steps for node in step.nodes if node in inside and self._draws(node))
        self._computed = frozenset(node for step in unit.forward for node in step.nodes)
        self._arranged: Arrangement | None = None
        self._names = state.rule.scalars if state.rule is not None else ()
        self._numbers: tuple[list[Scalars], Array] | None = None

    def __call__(self, gradients: Sequence[Array], scalars: Sequence[Scalars], touched: Sequence[Array]) -> None:
        """Compute the unit.

        Args:
            gradients: that arrive.
            scalars: the numbers of the step, one mapping for each trained parameter, for a unit with the update.
            touched: the rows that change, for the parameters of which not all do.
        """
        state, unit = self._state, self._unit
        parameters, totals, update = state.parameters, state.totals, unit.update
        arranged = self._arrangement()
        drawn: tuple[Node, ...] = ()
        draws: Sequence[Any] = ()
        function = arranged.function
        if function is None:
            drawn, draws = self._draw()
            function = self._function(arranged, drawn, draws)
        trained, slots, sums, values, leaving, saved, updated, kept = function(
            parameters.trained if update else (),
            parameters.slots if update else (),
            totals.lend() if self._sums else None,
            self._reads(),
            gradients,
            [state.saved.get(node, {}) for node in unit.takes] if unit.takes else (),
            arranged.counts,
            arranged.steps,
            draws,
            self._numbers_of(scalars) if update else None,
            touched,
        )
        results = values or leaving or updated or trained
        if results:
            state.staging.marks.append(results[0] if len(results) == 1 else min(results, key=_size))
        if updated:
            parameters.change(dict(zip(unit.updated, updated, strict=True)))
        if update:
            parameters.update(trained, slots)
        if self._sums:
            totals.array = sums
        state.values.put_all(unit.writes, values)
        if leaving:
            state.gradients.put_all(unit.leaves, leaving)
        if saved:
            state.saved.update(zip(unit.keeps, saved, strict=True))
        if drawn:
            self._keep(drawn, kept)

    def _reads(self) -> list[Array | None]:
        """What the function reads; None for what it gets by other ways."""
        state = self._state
        if self._constants is None:
            self._constants = [None] * len(self._unit.reads)
            for place, node in self._constant:
                self._constants[place] = state.value(node)
        found, device = self._constants.copy(), state.values.device
        for place, node in self._varying:
            found[place] = device[node] if node in device else state.value(node)
        return found

    def _arrangement(self) -> Arrangement:
        """The arrangement of this minibatch, often that of the one before."""
        state, unit = self._state, self._unit
        layouts = list(map(state.program.axes.layouts.__getitem__, unit.axes))
        found = self._arranged
        # Layouts never change; one that is kept here is equal to itself only.
        if found is None or layouts != found.layouts:
            sizes = state.sizes
            found = Arrangement(
                layouts,
                tuple(map(sizes.rows, unit.axes)),
                tuple(map(sizes.slots, unit.timed)),
                tuple(map(sizes.count, unit.axes)),
                tuple(map(sizes.steps, unit.timed)),
            )
            if not self._random and not self._sparse:
                found = attrs.evolve(found, function=self._function(found, (), ()))
            self._arranged = found
        return found

    def _function(self, arranged: Arrangement, drawn: tuple[Node, ...], draws: Sequence[Any]) -> Any:
        """The function for an arrangement, and for what was drawn."""
        state, unit = self._state, self._unit
        entries = tuple(len(state.values.take(node)[0]) for node in self._sparse)
        key = (arranged.sizes, arranged.slots, entries, drawn, _shapes(draws) if draws else ())
        found = self.functions.get(key)
        if found is None:
            function = UnitFunction(
                state.program.plan,
                unit,
                state.rule,
                state.dtype,
                self._training,
                dict(zip(unit.axes, arranged.sizes, strict=True)),
                dict(zip(unit.timed, arranged.slots, strict=True)),
                self._sums,
                drawn,
                state.sparse,
                state.lowerings,
            )
            found = self.functions[key] = jax.jit(function, donate_argnums=(0, 1, 2))
        return found

    def _numbers_of(self, scalars: Sequence[Scalars]) -> Array:
        """The numbers of a step on the device; they stay there while they do not change."""
        if self._numbers is None or list(scalars) != self._numbers[0]:
            numbers = [[each[name] for name in self._names] for each in scalars]
            # The caller may change his mappings.
            self._numbers = [dict(each) for each in scalars], on_device(numbers, np.float64)
        return self._numbers[1]

    def _draws(self, node: Node) -> bool:
        """Whether a node that is computed on the device needs something of the host."""
        lowering = self._state.lowerings.of(node)
        return lowering is not None and lowering.draw is not None

    def _draw(self) -> tuple[tuple[Node, ...], list[Any]]:
        """Get what the nodes that the unit computes, or whose gradients it computes, need of the host."""
        found: dict[Node, Any] = {}
        for node in self._random:
            state, axis = self._state, axis_around(node)
            context = state.program.make_context(node, training=self._training)
            rows = 1 if axis is None else state.sizes.rows(axis)
            shape = (state.program.axes.frames[node.axis], *node.known_shape) if node.framed else node.known_shape
            lowering = state.lowerings.at(node)
            assert lowering.draw is not None
            if lowering.looks:
                looked = {index: state.values[stream_behind(node.inputs[index])] for index in lowering.looks}
                context.saved["looked"] = looked
            drawn = lowering.draw(context, node, shape, rows)
            if drawn is not None:
                found[node] = drawn
        return tuple(found), list(found.values())

    def _keep(self, drawn: Sequence[Node], kept: Sequence[Array | None]) -> None:
        """Keep for the next minibatch what the nodes that the unit computes want to."""
        for node, array in zip(drawn, kept, strict=True):
            keep = self._state.lowerings.at(node).keep
            if node in self._computed and keep is not None:
                keep(self._state.program.make_context(node, training=False), array)


def _is_constant(node: Node) -> bool:
    return node.value is not None and not isinstance(node, Input | Parameter)


def _size(array: Array) -> int:
    return int(array.nbytes)


def _shapes(draws: Sequence[Any]) -> tuple[Any, ...]:
    leaves, tree = jax.tree.flatten(list(draws))
    return tree, *((leaf.shape, leaf.dtype) for leaf in leaves)
