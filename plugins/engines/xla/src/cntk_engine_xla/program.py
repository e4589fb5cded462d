"""XlaProgram: runs the units of a plan, compiled functions and steps that the host computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import attrs
import jax
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, Minibatch, Node, Parameter, ParameterStore, Plan, StreamData, UpdateRule
from cntk_core.api.engines import (
    Interpreter,
    PlanProgram,
    ProgramState,
    check_axes,
    is_total,
    row_count,
    sparse_inputs,
    sparse_matrix,
)
from cntk_engine_xla import host_units
from cntk_engine_xla.calls import Caller, Scalars
from cntk_engine_xla.device_parameters import DeviceParameters
from cntk_engine_xla.execution_state import ExecutionState
from cntk_engine_xla.inputs import Feed, entries
from cntk_engine_xla.sizes import Sizes
from cntk_engine_xla.table import OWN, Lowerings
from cntk_engine_xla.totals import Totals
from cntk_engine_xla.units import Unit, timed_axes, units_of, update_unit
from cntk_engine_xla.update import updates_rows
from cntk_engine_xla.value_cache import ValueCache


@attrs.frozen(eq=False)
class Mode:
    """One way to run a plan.

    Attributes:
        units: in order, each with what calls its functions; None if the host computes it.
        training: whether it trains.
        updates: whether it updates the parameters.
    """

    units: tuple[tuple[Unit, Caller | None], ...]
    training: bool
    updates: bool


class XlaProgram(PlanProgram):
    """A plan compiled by XLA.

    Args:
        plan: what to compute.
        store: the parameters; their precision is the program's.
        rule: the update, for training.
        seed: keys the random streams.
        lowerings: how nodes become XLA.

    Attributes:
        compilations: how many functions were compiled so far.
    """

    def __init__(
        self, plan: Plan, store: ParameterStore, rule: UpdateRule | None, seed: int, lowerings: Lowerings = OWN
    ) -> None:
        lowered = [step for step in plan.steps if lowerings.reach(step)]
        inside = {node for step in lowered for node in step.nodes}
        hosted_nodes = {node for step in plan.steps for node in step.nodes if node not in inside}
        self._sums = Totals([node for node in plan.roots if is_total(node)], hosted_nodes)
        super().__init__(plan, seed)
        self.store = store
        self.rule = rule
        sizes = Sizes(self.axes, timed_axes(lowered, lowerings))
        values, gradients = (
            ValueCache(store.dtype, sizes.of, repeat=True),
            ValueCache(store.dtype, sizes.of, repeat=False),
        )
        self._state = ExecutionState(
            program=self,
            rule=rule,
            dtype=store.dtype,
            sizes=sizes,
            parameters=DeviceParameters(plan, store, rule),
            totals=self._sums,
            values=values,
            gradients=gradients,
            interpreter=Interpreter(self, values, gradients, store.dtype),
            sparse=sparse_inputs(plan.steps, plan.roots),
            lowerings=lowerings,
        )
        self._modes: dict[str, Mode] = {}
        self._ways_back: dict[bool, tuple[Mode, Mode]] = {}
        self._way_back: Mode | None = None
        self._matrices: dict[Input, Any] = {}
        self._with_matrix = self._state.sparse | {node for inputs in plan.sparse.values() for node in inputs}
        dense = [node for node in plan.inputs if node not in self._state.sparse]
        self._feeds = {node: Feed(node, store.dtype, self._state.staging) for node in dense}
        self._ran = False
        self._double = jax.enable_x64(True)
        found = [(node, lowerings.of(node)) for step in plan.steps for node in step.nodes]
        self._checks = {node: each.check for node, each in found if each is not None and each.check is not None}

    @property
    def compilations(self) -> int:
        """How many functions were compiled so far."""
        modes = [*self._modes.values(), *(mode for both in self._ways_back.values() for mode in both)]
        callers = (caller for mode in modes for _, caller in mode.units)
        return sum(len(caller.functions) for caller in callers if caller is not None)

    # -- the interface of programs ------------------------------------------------------------------------

    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part."""
        self._run(self._mode("evaluate"), minibatch)

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward; the gradients are in the store afterwards.

        Raises:
            NetworkError: the plan has no criterion.
        """
        self.check_training()
        self._run(self._mode("gradients"), minibatch)
        self._store_gradients()
        self.step += 1

    def _store_gradients(self) -> None:
        for parameter in self.plan.trained:
            found = self._state.gradients.get(parameter)
            self.store.gradient(parameter)[...] = 0.0 if found is None else found
        for parameter, rows in self._occurring().items():
            touched = self.store.touched(parameter, len(rows))
            touched |= rows

    def run_forward(self, minibatch: Minibatch, *, training: bool) -> None:
        """Run the forward part."""
        if training not in self._ways_back:
            units = self._units_of(gradients=True, training=training, apart=True)
            forward = self._mode_of([unit for unit in units if not unit.backward], training=training)
            self._ways_back[training] = forward, self._mode_of([u for u in units if u.backward], training=training)
        mode, self._way_back = self._ways_back[training]
        self._run(mode, minibatch)

    def run_backward(self, seeds: Mapping[Node, NDArray[Any]]) -> None:
        """Run the backward part."""
        mode, state = self._way_back, self._state
        assert mode is not None
        state.gradients.clear()
        for node, seed in seeds.items():
            state.gradients[node] = np.array(seed, state.dtype)
        self.step -= mode.training  # what is drawn again is drawn as it was
        try:
            with self._double:
                if not state.parameters.here:  # another program has computed since
                    state.parameters.borrow()
                self._compute(mode)
        finally:
            self.step += mode.training
        self._store_gradients()

    def fetch_gradient(self, node: Node) -> NDArray[Any] | None:
        """Return the gradient by a node, None if none has come there."""
        return self._state.gradients.get(node)

    def update(self, scalars: Sequence[Scalars]) -> None:
        """Apply the rule with the gradients in the store.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        rule = self.needed_rule(self.rule)
        if not self.plan.trained:
            return
        with self._double:
            if not self._state.parameters.here:
                self._state.parameters.borrow()
            gradients = [np.array(self.store.gradient(parameter)) for parameter in self.plan.trained]
            touched = []
            for parameter in updates_rows(self.plan, rule):
                count = row_count(self.plan, parameter)
                rows = np.zeros(count, bool)
                rows[self.store.take_touched(parameter, count)] = True
                touched.append(rows)
            ((_, caller),) = self._mode("update").units
            assert caller is not None
            caller(gradients, scalars, touched)

    def train_step(self, minibatch: Minibatch, scalars: Sequence[Scalars]) -> None:
        """Do a whole step; the gradients are not in the store.

        Raises:
            NetworkError: the plan has no criterion, or the program was compiled without a rule.
        """
        mode = self._modes.get("train")
        if mode is None:
            self.check_training()
            self.needed_rule(self.rule)
            mode = self._mode("train")
        self._run(mode, minibatch, scalars)
        self.step += 1

    def fetch(self, node: Node) -> NDArray[Any] | None:
        """Return a root's value of the last run, None if there was no run."""
        if not self._ran:
            return None
        if node in self._state.values:
            return self._state.values[node]
        return self.store.value(node) if isinstance(node, Parameter) else node.value

    def memory(self) -> int:
        """Bytes that the program keeps on the device."""
        return self._state.parameters.nbytes

    def remarks(self) -> Sequence[str]:
        """Say how many functions were compiled."""
        count = self.compilations
        return [f"XLA compiled {count} function{'' if count == 1 else 's'} for the minibatches of this training."]

    @property
    def totals(self) -> dict[str, float]:
        """The sums of the scalar roots; they are on the device until somebody asks."""
        return self._sums.read()

    @totals.setter
    def totals(self, totals: Mapping[str, float]) -> None:
        self._sums.write(totals)

    def state(self) -> ProgramState:
        """Return what goes on from one minibatch to the next."""
        found = super().state()
        carried = {
            node: {name: np.asarray(kept) for name, kept in each.items()} for node, each in found.carried.items()
        }
        return ProgramState(carried, found.totals)

    # -- a run --------------------------------------------------------------------------------------------

    def _mode(self, name: str) -> Mode:
        mode = self._modes.get(name)
        if mode is None:
            if name == "update":
                units: tuple[Unit, ...] = (update_unit(self.plan),)
            else:
                updates = name == "train" and bool(self.plan.trained)
                units = self._units_of(gradients=name != "evaluate", update=updates)
            mode = self._modes[name] = self._mode_of(units, training=name != "evaluate")
        return mode

    def _units_of(self, **wanted: bool) -> tuple[Unit, ...]:
        """Cut the plan; whoever wants to know what each step takes gets a function for each."""
        return units_of(self.plan, lowerings=self._state.lowerings, single=self.told is not None, **wanted)

    def _mode_of(self, units: Sequence[Unit], *, training: bool) -> Mode:
        callers = (None if unit.hosted else Caller(self._state, unit, training=training) for unit in units)
        return Mode(tuple(zip(units, callers, strict=True)), training, any(unit.update for unit in units))

    def _run(self, mode: Mode, minibatch: Minibatch, scalars: Sequence[Scalars] = ()) -> None:
        state = self._state
        # Scoped, so that nobody else's arrays in this process become double.
        with self._double:
            streams = self.axes.take(minibatch)
            state.clear()
            self._take(streams)
            if not state.parameters.here:
                state.parameters.borrow()
            if not mode.training:
                self._check()
            self._compute(mode, scalars)
        self._ran = True

    def _compute(self, mode: Mode, scalars: Sequence[Scalars] = ()) -> None:
        state = self._state
        touched = self._touched() if mode.updates and self.plan.sparse else ()
        for unit, caller in mode.units:
            begin = perf_counter_ns() if self.told is not None else 0
            if unit.meetings and all(axis in self.axes.layouts for axis in unit.axes):
                check_axes(unit.meetings, self.axes.layouts)
            if caller is None:
                host_units.compute(state, unit, training=mode.training)
            else:
                gradients = [state.gradients.take(node) for node in unit.arrives] if unit.arrives else ()
                caller(gradients, scalars, touched)
            if self.told is not None:
                state.staging.wait()
                self.told(unit.steps[0] if unit.steps else None, begin, perf_counter_ns())

    def _take(self, streams: Mapping[Input, StreamData]) -> None:
        """Take in a minibatch."""
        state = self._state
        sizes, device = state.sizes, state.values.device
        sizes.begin()
        state.staging.begin()
        for node, stream in streams.items():
            rows = sizes.rows(node.axis) if node.framed else 1
            if node in self._with_matrix:
                self._take_matrix(node, stream, rows)
            if node not in state.sparse:
                found = self._feeds[node].take(stream, rows)
                device[node] = found if node.framed else found[0]

    def _take_matrix(self, node: Input, stream: StreamData, rows: int) -> None:
        """Take in a stream, perhaps an array, as a sparse matrix."""
        matrix: Any = sparse_matrix(node, stream, self._state.dtype)
        self._matrices[node] = matrix
        if node in self._state.sparse:
            self._state.values[node] = matrix
            self._state.values.put_beside(node, entries(matrix, rows))

    def _occurring(self) -> dict[Parameter, NDArray[np.bool_]]:
        """The rows of parameters with sparse gradients that the minibatch has come to."""
        found = {}
        for parameter, inputs in self.plan.sparse.items():
            rows = np.zeros(row_count(self.plan, parameter), bool)
            for node in inputs:
                rows[self._matrices[node].indices] = True
            found[parameter] = rows
        return found

    def _touched(self) -> list[NDArray[np.bool_]]:
        occurring = self._occurring()
        return [occurring[parameter] for parameter in updates_rows(self.plan, self.needed_rule(self.rule))]

    def _check(self) -> None:
        """Make sure that all nodes can be evaluated, as long as they ask for it."""
        for node, check in list(self._checks.items()):
            if check(node, partial(self._input, node)):
                del self._checks[node]

    def _input(self, node: Node, place: int) -> NDArray[Any]:
        return np.asarray(self._state.value(node.inputs[place]))
