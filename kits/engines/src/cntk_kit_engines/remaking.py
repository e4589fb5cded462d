"""How a program is pickled and copied: by what it was compiled of, to be compiled again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from cntk_core.contract.engine import ExecutionEngine, Program, ProgramState
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import UnsupportedError
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Loop, Plan

MadeOf = tuple[ExecutionEngine, ParameterStore, UpdateRule | None, int]
"""Engine, store, rule and seed."""


@attrs.frozen(eq=False)
class Remains:
    """What a pickle has of a program."""

    engine: type[ExecutionEngine]
    options: Any
    network: Network
    roots: tuple[str, ...]
    criterion: str | None
    learn: tuple[str, ...]
    by: tuple[str, ...]
    fuse: bool
    parameters: tuple[str, ...]
    numbers: Mapping[str, Any]
    rule: UpdateRule | None
    seed: int
    step: int
    settings: Mapping[str, float]
    state: ProgramState | None


def remains_of(program: Program, made_of: MadeOf) -> tuple[Callable[[Remains], Program], tuple[Remains]]:
    """Return how a program is pickled.

    Raises:
        UnsupportedError: its rule cannot be pickled.
    """
    engine, store, rule, seed = made_of
    try:
        pickle.dumps(rule)
    except (pickle.PicklingError, AttributeError, TypeError):  # a function of no module, or something inside
        raise UnsupportedError(
            "a program cannot be pickled with an update rule that pickles cannot hold",
            hint="A learner's class has to stand in a module, and its options in pickles.",
        ) from None
    plan = program.plan
    return remade, (
        Remains(
            type(engine),
            engine.settings,
            plan.network,
            tuple(node.name for node in plan.roots),
            plan.criterion.name if plan.criterion is not None else None,
            tuple(parameter.name for parameter in plan.trained) if plan.training else (),
            tuple(node.name for node in plan.by),
            is_fused(plan),
            tuple(parameter.name for parameter in store.parameters),
            store.snapshot(),
            rule,
            seed,
            program.step,
            dict(program.settings),
            program.state(),
        ),
    )


def remade(remains: Remains) -> Program:
    """Compile a program again."""
    network = remains.network
    roots = [network[name] for name in remains.roots]
    criterion = network[remains.criterion] if remains.criterion is not None else None
    parameters = [node for name in remains.parameters if isinstance(node := network[name], Parameter)]
    store = ParameterStore(parameters, network.dtype)
    learn = [network[name] for name in remains.learn] or None
    by = [network[name] for name in remains.by]
    plan = make_plan(network, roots, criterion, learn=learn, by=by, fuse=remains.fuse)
    engine = remains.engine(remains.options)
    program = engine.compile(plan, store, remains.rule, seed=remains.seed)
    store.restore(remains.numbers)
    program.begin_epoch(0, remains.settings)
    program.step = remains.step
    if remains.state is not None:
        program.restore(remains.state)
    return program


def is_fused(plan: Plan) -> bool:
    """Whether a plan computes several nodes in one pass."""
    steps = (each for step in plan.steps for each in (step.steps if isinstance(step, Loop) else (step,)))
    return any(len(step.nodes) > 1 for step in steps)
