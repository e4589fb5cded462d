"""From a plan and several learners to programs: one computes the gradients, each learner has its update."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.learner import Learner, UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import UnsupportedError
from cntk_core.network.node import Parameter
from cntk_core.plan.plan import Plan
from cntk_core.training.loop.learner_group import LearnerGroup
from cntk_core.training.loop.update import compose_update
from cntk_core.training.settings import SGDSettings


@attrs.frozen(eq=False)
class OwnLearner:
    """A learner that is given some of a plan's parameters.

    Attributes:
        learner, settings: its rule and what stands around it.
        parameters: those that it updates.
        mean: it sees the mean of the gradient.
    """

    learner: Learner
    settings: SGDSettings
    parameters: Sequence[Parameter]
    mean: bool = False


def compile_learners(
    engine: ExecutionEngine, plan: Plan, store: ParameterStore, learners: Sequence[OwnLearner], *, seed: int = 0
) -> tuple[Program, tuple[LearnerGroup, ...]]:
    """Compile a plan for training.

    One learner is compiled into the program; several get programs that update and compute nothing else.

    Raises:
        UnsupportedError: learners have slots of one name with different first values.
    """
    rules = [compose_update(one.learner, one.settings, mean=one.mean) for one in learners]
    _check_slots(rules)
    for rule in rules:
        store.add_slots(rule.slots)
    if len(learners) == 1:
        (own,), (rule,) = learners, rules
        program = compile_plan(engine, plan, store, rule, seed=seed)
        return program, (LearnerGroup(own.learner, own.settings, program, plan.trained, mean=own.mean),)
    groups = []
    for number, (own, rule) in enumerate(zip(learners, rules, strict=True)):
        part = _update_alone(plan, own.parameters)
        program = compile_plan(engine, part, store, rule, seed=seed)
        groups.append(LearnerGroup(own.learner, own.settings, program, part.trained, {}, own.mean, f"{number}."))
    return compile_plan(engine, plan, store, seed=seed), tuple(groups)


def _check_slots(rules: Sequence[UpdateRule]) -> None:
    initial: dict[str, float] = {}
    for slot in (slot for rule in rules for slot in rule.slots):
        if initial.setdefault(slot.name, slot.initial) != slot.initial:
            raise UnsupportedError(
                f"two learners have a slot '{slot.name}' that begins with different values",
                hint="Give each of them a trainer of its own.",
            )


def _update_alone(plan: Plan, parameters: Sequence[Parameter]) -> Plan:
    """Return the plan of an update of some parameters, which computes nothing."""
    chosen = set(parameters)
    trained = tuple(parameter for parameter in plan.trained if parameter in chosen)
    return attrs.evolve(
        plan,
        roots=(),
        criterion=None,
        inputs=(),
        parameters=trained,
        trained=trained,
        steps=(),
        gradients=(),
        buffers=(),
        value_buffer={},
        gradient_buffer={},
        sparse={parameter: inputs for parameter, inputs in plan.sparse.items() if parameter in trained},
        open_values=(),
        open_gradients=(),
    )
