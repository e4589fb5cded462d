"""The update of parameters whose gradients are in the store, or whose rows alone are updated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cntk_core.api import Parameter, Plan
from cntk_core.api.engines import row_count
from cntk_engine_cpu.update import Numbers, Scalars, Update, runs_of


def rows_alone(plan: Plan, update: Update) -> tuple[Parameter, ...]:
    """The parameters of which an update changes only the rows that occur."""
    return () if update.rule.everywhere else tuple(plan.sparse)


def passes(
    plan: Plan, update: Update, parameters: Sequence[Parameter], place: Mapping[Parameter, int]
) -> Callable[[Sequence[Numbers]], None]:
    """The whole rule over some parameters: as few passes as their numbers allow."""
    by_rows = [parameter for parameter in rows_alone(plan, update) if parameter in parameters]
    parameters = [parameter for parameter in parameters if parameter not in by_rows]
    touched = [_touched_rows(plan, update, parameter, place[parameter]) for parameter in by_rows]
    # A mean goes over one parameter, so that a rule with means never runs over several together.
    alike = not update.rule.means
    together = [update.bind(first, end) for first, end in runs_of(update.store, parameters)] if alike else []
    single = [(place[parameter], update.bind(*update.store.range(parameter))) for parameter in parameters]

    def run(numbers: Sequence[Numbers]) -> None:
        for update_rows in touched:
            update_rows(numbers)
        if not single:
            return
        first = numbers[single[0][0]]
        if alike and all(numbers[index] is first or numbers[index] == first for index, _ in single):
            for apply in together:
                apply(first)
        else:
            for index, apply in single:
                apply(numbers[index])

    return run


def _touched_rows(plan: Plan, update: Update, parameter: Parameter, index: int) -> Callable[[Sequence[Numbers]], None]:
    """The rule over the rows of a parameter that its gradient in the store has come to."""
    count = row_count(plan, parameter)
    apply = update.bind_rows(parameter, count)

    def run(numbers: Sequence[Numbers]) -> None:
        rows = update.store.take_touched(parameter, count)
        apply(rows, update.store.gradient(parameter).reshape(count, -1)[rows], numbers[index])

    return run


def whole_update(site_plan: Plan, update: Update) -> Callable[[Sequence[Scalars]], None]:
    """The update of all trained parameters with the gradients in the store."""
    place = {parameter: index for index, parameter in enumerate(site_plan.trained)}
    apply = passes(site_plan, update, site_plan.trained, place)

    def run(scalars: Sequence[Scalars]) -> None:
        apply(update.numbers(scalars))

    return run
