"""StepProgram and StepEngine: a whole engine over NumPy, of which an author replaces the parts that can be faster.

A program goes through the steps of its plan one by one. What nobody has replaced an :class:`Interpreter` computes, so
that from the first day all ops, loops, streams and learners are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.kernel import Kernel
from cntk_core.ops.language.expression import ArrayMath
from cntk_core.ops.language.framing import dense
from cntk_core.ops.language.op import Op
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Plan, Step
from cntk_core.records.minibatch import Minibatch
from cntk_kit_engines.compiling import compiles
from cntk_kit_engines.interpreter import Interpreter, NodeKernel
from cntk_kit_engines.kernels import tables
from cntk_kit_engines.plan_values import constants_of, mark_rows, row_count
from cntk_kit_engines.program import PlanProgram
from cntk_kit_engines.streams import check_size, sparse_matrix

Array = NDArray[Any]


class StepProgram(PlanProgram):
    """A plan with the values of the last minibatch, and with gradients, by node.

    An engine of its own overrides :meth:`run_step` and :meth:`run_gradient_step` for what it computes in another way.

    Args:
        plan: what to compute.
        store: the parameters.
        rule: the update, for training.
        seed: keys the random streams.
        kernels: of ops, in the order in which they are asked.
        dtype: precision of what is computed; None is that of the store.

    Attributes:
        dtype: precision of what is computed.
        values: by node, ``(frames, *shape)`` or ``shape``. Parameters are views of the store where that has the same
            precision.
        gradients: by node, in the shape of the value.
        interpreter: computes any step on ``values`` and ``gradients``.
    """

    def __init__(
        self,
        plan: Plan,
        store: ParameterStore,
        rule: UpdateRule | None = None,
        seed: int = 0,
        *,
        kernels: Mapping[Op, Sequence[NodeKernel]] | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(plan, seed)
        self.store, self.rule = store, rule
        self.dtype = np.dtype(store.dtype if dtype is None else dtype)
        self.values: dict[Node, Array] = {}
        self.gradients: dict[Node, Array] = {}
        self.interpreter = Interpreter(self, self.values, self.gradients, self.dtype, kernels)
        self._constants = constants_of(plan, self.dtype)
        self._columns: dict[Node, NDArray[np.intp]] = {}
        if rule is not None:
            store.add_slots(rule.slots)

    # -- what an engine replaces --------------------------------------------------------------------------

    def run_step(self, step: Step | Loop, *, training: bool) -> None:
        """Compute a step or a loop: put the values that it writes into ``values``."""
        self.interpreter.compute(step, training=training)

    def run_gradient_step(self, step: GradientStep | LoopGradient) -> None:
        """Compute the gradients that leave a step or a loop: add them to those in ``gradients``."""
        self.interpreter.compute_gradients(step)

    # -- the interface of programs ------------------------------------------------------------------------

    def evaluate(self, minibatch: Minibatch) -> None:
        """Compute all roots."""
        self.run_forward(minibatch, training=False)

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Compute all roots, and the gradients of the trained parameters into the store.

        Raises:
            NetworkError: the plan has no criterion.
        """
        self.check_training()
        self.run_forward(minibatch, training=True)
        criterion = self.plan.criterion
        assert criterion is not None
        self.run_backward({criterion: np.ones_like(self.values[criterion])})
        self.step += 1

    def run_forward(self, minibatch: Minibatch, *, training: bool) -> None:
        """Compute all values, and keep them."""
        self.values.clear()
        self.interpreter.contexts.clear()
        self.values.update(self._constants)
        for node in self.plan.parameters:
            assert isinstance(node, Parameter)
            self.values[node] = self.store.value(node).astype(self.dtype, copy=False)
        self._read_inputs(minibatch)
        for step in self.plan.steps:
            self.run_step(step, training=training)
        if training and self.dtype != self.store.dtype:
            self._keep_updates()
        for node in self.scalars:
            self.totals[node.name] += float(self.values[node].reshape(-1)[0])

    def run_backward(self, seeds: Mapping[Node, Array]) -> None:
        """Let gradients flow from those of roots, of the shapes of their values, to the store."""
        self.gradients.clear()
        self.gradients.update((node, np.array(seed, self.dtype)) for node, seed in seeds.items())
        for step in self.plan.gradients:
            self.run_gradient_step(step)
        for parameter in self.plan.trained:
            self.store.gradient(parameter)[...] = self.gradients.get(parameter, 0.0)
        mark_rows(self.plan, self.store, self._columns)

    def fetch(self, node: Node) -> Array | None:
        """Return a root's value ``(frames, *shape)`` of the last run, None if there was no run."""
        return self.values.get(node)

    def fetch_gradient(self, node: Node) -> Array | None:
        """Return the gradient by a node, of the shape of its value; None if none has come there."""
        return self.gradients.get(node)

    def memory(self) -> int:
        """Bytes of the values and gradients of the last minibatch."""
        return sum(array.nbytes for each in (self.values, self.gradients) for array in each.values())

    def update(self, scalars: Sequence[Mapping[str, float]]) -> None:
        """Apply the rule in double precision; with a sparse gradient only to the rows that it has come to.

        Raises:
            NetworkError: the program was compiled without a rule.
        """
        rule = self.needed_rule(self.rule)
        for parameter, numbers in zip(self.plan.trained, scalars, strict=True):
            arrays = [self.store.value(parameter), self.store.gradient(parameter)]
            arrays += [self.store.slot(slot.name, parameter) for slot in rule.slots]
            rows: Any = ...
            if parameter in self.plan.sparse and not rule.everywhere:
                count = row_count(self.plan, parameter)
                rows = self.store.take_touched(parameter, count)
                arrays = [array.reshape(count, -1) for array in arrays]
            value, gradient, *parts = (array[rows].astype(np.float64) for array in arrays)
            named = {slot.name: part for slot, part in zip(rule.slots, parts, strict=True)}
            new, slots = self._updated(rule, value, gradient, named, numbers)
            for array, changed in zip((arrays[0], *arrays[2:]), (new, *slots.values()), strict=True):
                array[rows] = changed

    # -----------------------------------------------------------------------------------------------------

    def _updated(
        self,
        rule: UpdateRule,
        value: Array,
        gradient: Array,
        slots: Mapping[str, Array],
        numbers: Mapping[str, float],
    ) -> tuple[Array, dict[str, Array]]:
        """The new value and slots, these in their order."""
        m, known = ArrayMath(np), dict(numbers)
        if rule.mean_expression is not None:
            found = rule.mean_expression(m, value, gradient, slots, numbers)
            # Of no element at all, nobody will use it.
            known |= {name: float(np.mean(array)) if value.size else 1.0 for name, array in found.items()}
        # NumPy's numbers, which can be divided by zero as those of all engines can.
        exact = {name: np.float64(number) for name, number in known.items()}
        new, changed = rule.expression(m, value, gradient, slots, exact)
        return new, {name: changed[name] for name in slots}

    def _keep_updates(self) -> None:
        """Write what ops changed in copies of parameters (running statistics) to the store."""
        for node in (node for step in self.plan.steps for node in step.nodes):
            for child in (node.inputs[index] for index in node.op.updates if index < len(node.inputs)):
                if isinstance(child, Parameter):
                    self.store.value(child)[...] = self.values[child]

    def _read_inputs(self, minibatch: Minibatch) -> None:
        occurring = {node for inputs in self.plan.sparse.values() for node in inputs}
        for node, stream in self.axes.take(minibatch).items():
            check_size(node, stream)
            if node in occurring:
                self._columns[node] = np.unique(sparse_matrix(node, stream, self.dtype).indices)
            rows = dense(stream.data).astype(self.dtype, copy=True)
            self.values[node] = rows.reshape(*rows.shape[: int(bool(node.framed))], *node.known_shape)


class StepEngine(ExecutionEngine):
    """An engine whose programs go through a plan step by step, with kernels of its own for some ops.

    Attributes:
        own: its kernels, of which each has the functions of a :class:`NodeKernel`; those of other wheels are asked
            first.
        program: the class of its programs.
        dtype: precision of what it computes; None is that of the parameters.
    """

    own: ClassVar[Sequence[Kernel]] = ()
    program: ClassVar[type[StepProgram]] = StepProgram
    dtype: ClassVar[Any] = None

    @compiles
    def compile(
        self, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
    ) -> StepProgram:
        """Make a program.

        Raises:
            PluginError: a kernel has a setting; programs of this kind know none.
        """
        kernels = tables(self.kernels, self.own, NodeKernel)
        return self.program(plan, store, rule, seed, kernels=kernels, dtype=self.dtype)
