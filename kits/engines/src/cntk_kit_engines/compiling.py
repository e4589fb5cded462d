"""What every engine's ``compile`` has to do beside its own work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.plan.plan import Plan
from cntk_kit_engines.any_size import AnySizeProgram, has_free_inputs
from cntk_kit_engines.program import PlanProgram
from cntk_kit_engines.timing import followed

P = TypeVar("P", bound=Program)


def compiles(make: Callable[..., P]) -> Callable[..., P]:
    """Make a method that compiles plans the ``compile`` of an engine, a decorator.

    Plans whose inputs have free dimensions then get a program for each size, and the programs can be pickled and
    copied: they are compiled again, on a store of their own with the same numbers.
    """

    @functools.wraps(make)
    def compile_any(
        engine: ExecutionEngine,
        plan: Plan,
        store: ParameterStore,
        rule: UpdateRule | None = None,
        *,
        seed: int = 0,
    ) -> Any:
        def make_one(sized: Plan) -> Program:
            one = make(engine, sized, store, rule, seed=seed)
            followed(one)
            return one

        program = AnySizeProgram(make_one, plan) if has_free_inputs(plan) else make_one(plan)
        if isinstance(program, PlanProgram | AnySizeProgram):
            program.made_of = engine, store, rule, seed
        return program

    return compile_any
