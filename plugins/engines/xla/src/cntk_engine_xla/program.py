"""XlaProgram: runs the units of a plan, compiled functions and steps that the host computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    GradientStep,
    Input,
    Interpreter,
    LoopGradient,
    Minibatch,
    NetworkError,
    Node,
    Parameter,
    ParameterStore,
    Plan,
    PlanProgram,
    ProgramState,
    StreamData,
    UpdateRule,
    check_axes,
    check_statistics,
    sparse_inputs,
)
from cntk_engine_xla.buckets import bucket
from cntk_engine_xla.functions import UnitFunction
from cntk_engine_xla.inputs import entries, sparse_matrix, take
from cntk_engine_xla.layouts import sequences_bucket, slots_bucket, time_steps
from cntk_engine_xla.lowering import Array, axis_around, stream_behind
from cntk_engine_xla.residence import Residence
from cntk_engine_xla.shelf import Shelf
from cntk_engine_xla.table import is_lowered, lowering_of
from cntk_engine_xla.units import Unit, nodes_of, timed_axes, units_of, update_unit
from cntk_engine_xla.update import numbers_of, rows_of, updates_rows

Scalars = Mapping[str, float]


@attrs.frozen(eq=False)
class Mode:
    """One way to run a plan: its units, and whether it trains."""

    units: tuple[Unit, ...]
    training: bool


class XlaProgram(PlanProgram):
    """A plan compiled by XLA.

    Args:
        plan: what to compute.
        store: the parameters; their precision is the program's.
        rule: the update, for training.
        seed: keys the random streams.

    Attributes:
        compilations: how many functions were compiled so far.
    """

    def __init__(self, plan: Plan, store: ParameterStore, rule: UpdateRule | None, seed: int) -> None:
        self._sums: Any = None
        hosted = {node for step in plan.steps if not is_lowered(step, frozenset()) for node in step.nodes}
        self._hosted_sums = {node.name: 0.0 for node in plan.roots if node in hosted}
        super().__init__(plan, seed)
        self.store = store
        self.rule = rule
        self._dtype = store.dtype
        self._timed = timed_axes(step for step in plan.steps if is_lowered(step, frozenset()))
        self._rows: dict[str, int] = {}
        self._residence = Residence(plan, store, rule)
        self._modes: dict[str, Mode] = {}
        self._functions: dict[tuple[Any, ...], Any] = {}
        self._values = Shelf(store.dtype, self._frames_of, repeat=True)
        self._gradients = Shelf(store.dtype, self._frames_of, repeat=False)
        self._saved: dict[Node, Any] = {}
        self._interpreter = Interpreter(self, self._values, self._gradients, store.dtype)
        self._sparse = sparse_inputs(plan.steps, plan.roots)
        self._matrices: dict[Input, Any] = {}
        self._ran = False
        self._place_of = {node: index for index, node in enumerate(self.scalars)}
        self._random = tuple(node for step in plan.steps for node in step.nodes if _draws(node))
        self._counted = [node for step in plan.steps for node in step.nodes if _has_count(node)]
        self._constants: dict[Node, Array] = {}
        self._counts: dict[str, tuple[int, Array]] = {}
        self._numbers: tuple[list[list[float]], Array] | None = None

    @property
    def compilations(self) -> int:
        """How many functions were compiled so far."""
        return len(self._functions)

    # -- the interface of programs ------------------------------------------------------------------------

    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part."""
        self._run("evaluate", minibatch)

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward; the gradients are in the store afterwards.

        Raises:
            NetworkError: the plan has no criterion.
        """
        self.check_training()
        self._run("gradients", minibatch)
        for parameter in self.plan.trained:
            found = self._gradients.get(parameter)
            self.store.gradient(parameter)[...] = 0.0 if found is None else found
        for parameter, rows in self._occurring().items():
            touched = self.store.touched(parameter, len(rows))
            touched |= rows
        self.step += 1

    def update(self, scalars: Sequence[Scalars]) -> None:
        """Apply the rule with the gradients in the store.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        rule = self._rule()
        if not self.plan.trained:
            return
        import jax

        with jax.enable_x64(True):
            self._residence.borrow()
            unit = self._mode("update").units[0]
            gradients = [np.array(self.store.gradient(parameter)) for parameter in self.plan.trained]
            touched = []
            for parameter in updates_rows(self.plan, rule):
                count = rows_of(self.plan, parameter)
                rows = np.zeros(count, bool)
                rows[self.store.take_touched(parameter, count)] = True
                touched.append(rows)
            self._call(unit, gradients, scalars, touched, training=True)

    def train_step(self, minibatch: Minibatch, scalars: Sequence[Scalars]) -> None:
        """Do a whole step; the gradients are not in the store.

        Raises:
            NetworkError: the plan has no criterion, or the program was compiled without a rule.
        """
        self.check_training()
        self._rule()
        self._run("train" if self.plan.trained else "gradients", minibatch, scalars)
        self.step += 1

    def fetch(self, node: Node) -> NDArray[Any] | None:
        """Return a root's value of the last run, None if there was no run."""
        return self._values[node] if self._ran else None

    def memory(self) -> int:
        """Bytes that the program keeps on the device."""
        return self._residence.nbytes

    def remarks(self) -> Sequence[str]:
        """Say how many functions were compiled."""
        count = self.compilations
        return [f"XLA compiled {count} function{'' if count == 1 else 's'} for the minibatches of this training."]

    @property
    def totals(self) -> dict[str, float]:
        """The sums of the scalar roots; they are on the device until somebody asks."""
        sums = dict(zip(self.scalars, np.asarray(self._sums).tolist(), strict=True))
        return {node.name: self._hosted_sums.get(node.name, number) for node, number in sums.items()}

    @totals.setter
    def totals(self, totals: Mapping[str, float]) -> None:
        self._sums = np.array([totals[node.name] for node in self.scalars], np.float64)
        self._hosted_sums = {name: totals[name] for name in self._hosted_sums if name in totals}

    def state(self) -> ProgramState:
        """Return what goes on from one minibatch to the next."""
        found = super().state()
        carried = {
            node: {name: np.asarray(kept) for name, kept in each.items()} for node, each in found.carried.items()
        }
        return ProgramState(carried, found.totals)

    def _rule(self) -> UpdateRule:
        if self.rule is None:
            raise NetworkError("the program was compiled without an update rule")
        return self.rule

    # -- a run --------------------------------------------------------------------------------------------

    def _mode(self, name: str) -> Mode:
        mode = self._modes.get(name)
        if mode is None:
            if name == "update":
                units: tuple[Unit, ...] = (update_unit(self.plan),)
            else:
                units = units_of(self.plan, gradients=name != "evaluate", update=name == "train")
            mode = self._modes[name] = Mode(units, name != "evaluate")
        return mode

    def _frames_of(self, node: Node) -> tuple[int, int]:
        return self.axes.frames[node.axis], self._rows_of(node.axis)

    def _rows_of(self, axis: str) -> int:
        """The rows of a dynamic axis in this minibatch, padding included."""
        if axis not in self._rows:
            layout, loops = self.axes.layouts[axis], axis in self._timed
            sequences = loops or layout.steps > 1
            frames = self.axes.frames[axis]
            self._rows[axis] = sequences_bucket(layout, loops=loops) if sequences else bucket(frames)
        return self._rows[axis]

    def _run(self, name: str, minibatch: Minibatch, scalars: Sequence[Scalars] = ()) -> None:
        import jax

        mode = self._mode(name)
        # Scoped, so that nobody else's arrays in this process become double.
        with jax.enable_x64(True):
            self._take(self.axes.take(minibatch))
            self._residence.borrow()
            if isinstance(self._sums, np.ndarray):
                self._sums = jax.numpy.array(self._sums)  # a copy: it will be written over
            if not mode.training:
                self._check_statistics()
            touched = self._touched() if name == "train" else ()
            for unit in mode.units:
                if unit.meetings and all(axis in self.axes.layouts for axis in unit.axes):
                    check_axes(unit.meetings, self.axes.layouts)
                if unit.hosted:
                    self._compute(unit, training=mode.training)
                else:
                    gradients = [self._gradients.take(node) for node in unit.arrives]
                    self._call(unit, gradients, scalars, touched, training=mode.training)
        self._ran = True

    def _take(self, streams: Mapping[Input, StreamData]) -> None:
        """Take in a minibatch, and forget the one before."""
        for shelf in (self._values, self._gradients):
            shelf.clear()
        self._saved.clear()
        self._rows.clear()
        self._interpreter.contexts.clear()
        needed = {node for inputs in self.plan.sparse.values() for node in inputs}
        for node, stream in streams.items():
            rows = self._frames_of(node)[1]
            if node in self._sparse or node in needed:
                self._matrices[node] = sparse_matrix(node, stream, self._dtype)
            if node in self._sparse:
                self._values[node] = self._matrices[node]
                self._values.put_beside(node, entries(self._matrices[node], rows))
            else:
                self._values.put(node, take(node, stream, self._dtype, rows))

    def _occurring(self) -> dict[Parameter, NDArray[np.bool_]]:
        """The rows of parameters with sparse gradients that the minibatch has come to."""
        found = {}
        for parameter, inputs in self.plan.sparse.items():
            rows = np.zeros(rows_of(self.plan, parameter), bool)
            for node in inputs:
                rows[self._matrices[node].indices] = True
            found[parameter] = rows
        return found

    def _touched(self) -> list[NDArray[np.bool_]]:
        occurring = self._occurring()
        return [occurring[parameter] for parameter in updates_rows(self.plan, self._rule())]

    def _check_statistics(self) -> None:
        """Make sure that batch normalization has running statistics; once they are counted, they stay."""
        for node in list(self._counted):
            count, variance = (self._value(node.inputs[place]) for place in (5, 4))
            number = float(np.asarray(count).reshape(-1)[0])
            check_statistics(number, np.asarray(variance))
            if number:
                self._counted.remove(node)

    def _value(self, node: Node) -> Array:
        """What a compiled function reads of a node."""
        if isinstance(node, Parameter):
            return self._residence.values[node]
        if node.value is None or isinstance(node, Input):
            return self._values.take(node)
        if node not in self._constants:
            import jax.numpy as jnp

            self._constants[node] = jnp.array(node.value.reshape(node.known_shape), self._dtype)
        return self._constants[node]

    # -- compiled units -----------------------------------------------------------------------------------

    def _call(
        self,
        unit: Unit,
        gradients: Sequence[Array],
        scalars: Sequence[Scalars],
        touched: Sequence[Array],
        *,
        training: bool,
    ) -> None:
        sizes = {axis: self._rows_of(axis) for axis in unit.axes}
        layouts = {axis: self.axes.layouts[axis] for axis in unit.timed}
        slots = {axis: slots_bucket(layout.slots) for axis, layout in layouts.items()}
        drawn, draws = self._draw(unit, training=training)
        own = set(unit.writes)
        sums = {node: place for node, place in self._place_of.items() if node in own}
        function = self._function(unit, sizes, slots, drawn, draws, sums, training=training)
        residence, trained = self._residence, self.plan.trained if unit.update else ()
        reads = [None if unit.update and node in trained else self._value(node) for node in unit.reads]
        donated: dict[str, Any] = {
            "values": [residence.values[parameter] for parameter in trained],
            "slots": [residence.slots[parameter] for parameter in trained],
        }
        if sums:
            donated["sums"] = self._sums
        given = {
            "values": reads,
            "gradients": list(gradients),
            "saved": [self._saved.get(node, {}) for node in unit.takes],
            "counts": {axis: self._count_of(axis) for axis in unit.axes},
            "steps": {axis: time_steps(layout, sizes[axis]) for axis, layout in layouts.items()},
            "draws": draws,
            "numbers": self._numbers_of(scalars) if unit.update else (),
            "touched": list(touched) if unit.update else [],
        }
        results = function(donated, given)
        for node, array in zip(unit.writes, results["values"], strict=True):
            self._values.put(node, array)
        for node, array in zip(unit.leaves, results["gradients"], strict=True):
            self._gradients.put(node, array)
        self._saved.update(zip(unit.keeps, results["saved"], strict=True))
        self._sums = results.get("sums", self._sums)
        self._keep(unit, drawn, results["kept"])
        residence.change(dict(zip(unit.updated, results["updated"], strict=True)), {})
        if unit.update:
            residence.change(
                dict(zip(trained, results["trained"], strict=True)), dict(zip(trained, results["slots"], strict=True))
            )

    def _keep(self, unit: Unit, drawn: Sequence[Node], kept: Sequence[Array | None]) -> None:
        """Keep for the next minibatch what the nodes that a unit computes want to."""
        inside = {node for step in unit.forward for node in step.nodes}
        for node, array in zip(drawn, kept, strict=True):
            lowering = lowering_of(node)
            if node in inside and lowering is not None and lowering.keep is not None:
                lowering.keep(self.make_context(node, training=False), array)

    def _count_of(self, axis: str) -> Array:
        """How many frames a dynamic axis has, on the device; it stays there while it does not change."""
        frames = self.axes.frames[axis]
        found = self._counts.get(axis)
        if found is None or found[0] != frames:
            import jax.numpy as jnp

            found = self._counts[axis] = frames, jnp.array(frames, np.int64)
        return found[1]

    def _numbers_of(self, scalars: Sequence[Scalars]) -> Array:
        """The numbers of a step on the device; they stay there while they do not change."""
        numbers = numbers_of(self._rule(), scalars)
        if self._numbers is None or numbers != self._numbers[0]:
            import jax.numpy as jnp

            self._numbers = numbers, jnp.array(numbers, np.float64)
        return self._numbers[1]

    def _function(
        self,
        unit: Unit,
        sizes: Mapping[str, int],
        slots: Mapping[str, int],
        drawn: tuple[Node, ...],
        draws: list[Any],
        sums: Mapping[Node, int],
        *,
        training: bool,
    ) -> Any:
        import jax

        entries_of = tuple(len(self._values.take(node)[0]) for node in unit.reads if node in self._sparse)
        leaves, tree = jax.tree.flatten(draws)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        key = (unit, *sizes.values(), *slots.values(), drawn, tree, shapes, entries_of)
        found = self._functions.get(key)
        if found is None:
            function = UnitFunction(
                self.plan, unit, self.rule, self._dtype, training, dict(sizes), slots, sums, drawn, self._sparse
            )
            found = self._functions[key] = jax.jit(function, donate_argnums=0)
        return found

    def _draw(self, unit: Unit, *, training: bool) -> tuple[tuple[Node, ...], list[Any]]:
        """Get what the nodes that a unit computes, or whose gradients it computes, need of the host."""
        if not self._random:
            return (), []
        inside = {node for step in unit.steps for node in nodes_of(step)}
        found: dict[Node, Any] = {}
        for node in self._random:
            if node not in inside:
                continue
            context = self.make_context(node, training=training)
            axis = axis_around(node)
            rows = 1 if axis is None else self._rows_of(axis)
            shape = (self.axes.frames[node.axis], *node.known_shape) if node.framed else node.known_shape
            lowering = lowering_of(node)
            assert lowering is not None
            assert lowering.draw is not None
            if lowering.looks:
                looked = {index: self._values[stream_behind(node.inputs[index])] for index in lowering.looks}
                context.saved["looked"] = looked
            drawn = lowering.draw(context, node, shape, rows)
            if drawn is not None:
                found[node] = drawn
        return tuple(found), list(found.values())

    # -- units of the host --------------------------------------------------------------------------------

    def _compute(self, unit: Unit, *, training: bool) -> None:
        """Interpret a step, on arrays without padding."""
        (step,) = unit.steps
        values, gradients = self._values, self._gradients
        for node in unit.reads:
            if node not in values:
                values[node] = np.array(self._value(node))
        if isinstance(step, GradientStep | LoopGradient):
            criterion = self.plan.criterion
            if unit.seeds and criterion is not None:
                gradients[criterion] = np.ones_like(values[criterion])
            self._interpreter.compute_gradients(step)
            for target in step.targets:
                gradients.changed(target.node)
            return
        self._interpreter.compute(step, training=training)
        for node in step.writes:
            if node in self._place_of:
                self._hosted_sums[node.name] += float(values[node].reshape(-1)[0])
        if training and unit.updated:
            import jax.numpy as jnp

            self._residence.change({parameter: jnp.array(values[parameter]) for parameter in unit.updated}, {})


def _draws(node: Node) -> bool:
    """Whether a node that is computed on the device needs something of the host."""
    lowering = lowering_of(node)
    return lowering is not None and lowering.draw is not None


def _has_count(node: Node) -> bool:
    """Whether a node is a batch normalization that counts its samples."""
    return node.op.name == "BatchNormalization" and len(node.inputs) > 5 and lowering_of(node) is not None
