"""HostProgram: an engine's program, and around it what is done on the host after a minibatch.

That is what no engine has to know: updates in Python (:class:`~cntk_core.contract.user_learner.UserLearner`), and the
assignments of ``Assign``. The numbers are looked at and changed in the store, which fetches them from where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.user_learner import ParameterUpdate, context_of
from cntk_core.network.node import Parameter
from cntk_core.plan.plan import Plan, assignments
from cntk_core.records.minibatch import Minibatch


def compile_plan(
    engine: ExecutionEngine, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
) -> Program:
    """Make a program as the engine does, with assignments and an update in Python around it if there are some."""
    on_host = rule is not None and rule.on_host is not None
    if not on_host and not assignments(plan):
        return engine.compile(plan, store, rule, seed=seed)
    return HostProgram(engine.compile(plan, store, None if on_host else rule, seed=seed), store, rule)


def _forwarded(name: str) -> Any:
    """A method that the engine's program does."""

    def call(self: HostProgram, *given: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*given, **named)

    return call


def _shared(name: str) -> Any:
    """An attribute of the engine's program."""
    return property(lambda self: getattr(self.inner, name), lambda self, value: setattr(self.inner, name, value))


class HostProgram(Program):
    """A program with assignments, or with an update in Python; all else is the engine's.

    Assignments are done when a minibatch has been evaluated, or its gradients have been computed, and before the
    update; all values are those of before, and of two to the same parameter the later one in the plan counts.
    """

    settings = _shared("settings")
    step = _shared("step")
    begin_epoch = _forwarded("begin_epoch")
    forward = _forwarded("forward")
    gradient = _forwarded("gradient")
    value = _forwarded("value")
    layout = _forwarded("layout")
    read_totals = _forwarded("read_totals")
    state = _forwarded("state")
    restore = _forwarded("restore")
    memory = _forwarded("memory")
    remarks = _forwarded("remarks")

    def __init__(self, inner: Program, store: ParameterStore, rule: UpdateRule | None) -> None:
        self.inner = inner
        self.store = store
        self.rule = rule
        self.plan = inner.plan
        self._assigned = assignments(inner.plan)
        if rule is not None and rule.on_host is not None:
            store.add_slots(rule.slots)

    def __reduce__(self) -> Any:
        names = [parameter.name for parameter in self.store.parameters]
        return _made_again, (self.inner, names, self.rule, self.store.snapshot())

    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part, and assign."""
        self.inner.evaluate(minibatch)
        self._assign()

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward, and assign."""
        self.inner.compute_gradients(minibatch)
        self._assign()

    def backward(self, seeds: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Let gradients flow back, and assign."""
        self.inner.backward(seeds)
        self._assign()

    def _assign(self) -> None:
        values = [self.inner.value(node.name) for node in self._assigned.values()]
        for parameter, value in zip(self._assigned, values, strict=True):
            self.store.value(parameter)[...] = value

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
                context_of(numbers, store.dtype.name),
            )
            for parameter, numbers in zip(self.plan.trained, scalars, strict=True)
        ]
        self.rule.on_host(updates, scalars)


def _made_again(
    inner: Program, names: Sequence[str], rule: UpdateRule | None, numbers: Mapping[str, NDArray[Any]]
) -> HostProgram:
    """Put the host's part around a program that was pickled, on the parameters that it has been given there."""
    network = inner.plan.network
    parameters = [node for name in names if isinstance(node := network[name], Parameter)]
    made = HostProgram(inner, ParameterStore.of(parameters, network.dtype), rule)
    made.store.restore(numbers)
    return made
