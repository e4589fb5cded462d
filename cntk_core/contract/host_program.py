"""HostProgram: an engine's program, and around it what is done on the host after a minibatch.

That is what no engine has to know: updates in Python (:class:`~cntk_core.contract.user_learner.UserLearner`), and the
assignments of ``Assign``. The numbers are looked at and changed in the store, which fetches them from where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine, Program, ProgramState
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.user_learner import ParameterUpdate, context_of
from cntk_core.plan.plan import Plan, assignments
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch


def compile_plan(
    engine: ExecutionEngine, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
) -> Program:
    """Make a program as the engine does, with assignments and an update in Python around it if there are some."""
    on_host = rule is not None and rule.on_host is not None
    if not on_host and not assignments(plan):
        return engine.compile(plan, store, rule, seed=seed)
    return HostProgram(engine.compile(plan, store, None if on_host else rule, seed=seed), store, rule)


class HostProgram(Program):
    """A program with assignments, or with an update in Python.

    Assignments are done when a minibatch has been evaluated, or its gradients have been computed, and before the
    update; all values are those of before, and of two to the same parameter the later one in the plan counts.
    """

    def __init__(self, inner: Program, store: ParameterStore, rule: UpdateRule | None) -> None:
        self.inner = inner
        self.store = store
        self.rule = rule
        self.plan = inner.plan
        self._assigned = assignments(inner.plan)
        if rule is not None:
            store.add_slots(rule.slots)

    @property
    def settings(self) -> dict[str, float]:
        """Numbers that training changes from outside, by name."""
        return self.inner.settings

    @settings.setter
    def settings(self, settings: dict[str, float]) -> None:
        self.inner.settings = settings

    @property
    def step(self) -> int:
        """The epoch, times 2**32, plus the computations of gradients in it."""
        return self.inner.step

    @step.setter
    def step(self, step: int) -> None:
        self.inner.step = step

    def begin_epoch(
        self, epoch: int, settings: Mapping[str, float] | None = None, *, minibatches_done: int = 0
    ) -> None:
        """Start an epoch."""
        self.inner.begin_epoch(epoch, settings, minibatches_done=minibatches_done)

    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part, and assign."""
        self.inner.evaluate(minibatch)
        self._assign()

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward, and assign."""
        self.inner.compute_gradients(minibatch)
        self._assign()

    def forward(self, minibatch: Minibatch, *, training: bool = True) -> None:
        """Run the forward part, and keep what gradients need."""
        self.inner.forward(minibatch, training=training)

    def backward(self, seeds: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Let gradients flow back, and assign."""
        self.inner.backward(seeds)
        self._assign()

    def gradient(self, name: str) -> NDArray[Any]:
        """Return a copy of the gradient by a node of ``plan.by``."""
        return self.inner.gradient(name)

    def update(self, scalars: Sequence[Mapping[str, float]]) -> None:
        """Apply the rule with the gradients in the store."""
        if self.rule is None or self.rule.on_host is None:
            self.inner.update(scalars)
            return
        store, names = self.store, [slot.name for slot in self.rule.slots]
        updates = [
            ParameterUpdate(
                parameter.name,
                store.value(parameter),
                store.gradient(parameter),
                {name: store.slot(name, parameter) for name in names},
                context_of(numbers, store.state, store.dtype.name),
            )
            for parameter, numbers in zip(self.plan.trained, scalars, strict=True)
        ]
        self.rule.on_host(updates, scalars)

    def _assign(self) -> None:
        values = [self.inner.value(node.name) for node in self._assigned.values()]
        for parameter, value in zip(self._assigned, values, strict=True):
            self.store.value(parameter)[...] = value

    def value(self, name: str) -> NDArray[Any]:
        """Return a copy of a root's value after the last run."""
        return self.inner.value(name)

    def layout(self, name: str) -> SequenceLayout:
        """Return the sequences of a root's dynamic axis in the last run."""
        return self.inner.layout(name)

    def read_totals(self) -> Mapping[str, float]:
        """Return the sums of the scalar roots since the last call, and set them to zero."""
        return self.inner.read_totals()

    def state(self) -> ProgramState | None:
        """Return what goes on from one minibatch to the next."""
        return self.inner.state()

    def restore(self, state: ProgramState) -> None:
        """Go on from such a state."""
        self.inner.restore(state)

    def memory(self) -> int:
        """Bytes that the engine's program holds."""
        return self.inner.memory()

    def remarks(self) -> Sequence[str]:
        """Lines for the log when training has ended."""
        return self.inner.remarks()
