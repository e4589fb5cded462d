"""Communicators, aggregations and strategies of other wheels, whose results are looked at before anybody uses them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.parallel import Communicator, GradientAggregation, Message, Parallelizer, Pending, StepCounts
from cntk_core.errors import WrongResult, shown
from cntk_core.plugins.precedence import is_first_party

T = TypeVar("T", bound=Communicator | GradientAggregation | Parallelizer)

Array = NDArray[Any]

Rule = Callable[[Any, tuple[Any, ...], Any], str]
"""``(part, arguments, result) -> what it should have been``; empty if the result can be used."""

_CHECKED = "_is_checked"
"""Variable of a part that is looked at already."""

_SLACK = 1e-11
"""By how much sums of float64 numbers may differ, which may be added in any order."""


def with_checks(part: T) -> T:
    """Return a part of parallel training; those of its methods that give something do so only if it can be used.

    Args:
        part: one of this project's wheels stays as it is.

    Raises:
        WrongResult: it was made without its base class; later, a method gives something else than it should.
    """
    if is_first_party(type(part).__module__.partition(".")[0]) or _CHECKED in vars(part):
        return part
    kind = next(kind for kind in _RULES if isinstance(part, kind))
    if not hasattr(part, _MADE[kind]):
        raise WrongResult(type(part).__init__, "does not call super().__init__()")
    rules = _RULES[kind]
    vars(part)[_CHECKED] = True
    background = part.background if isinstance(part, Communicator) else None
    for name, rule in rules.items():
        setattr(part, name, _checked(part, getattr(part, name), rule))
    if isinstance(part, Communicator):
        part.background = _with_checked_work(part.background, background)  # type: ignore[method-assign]
    if isinstance(part, GradientAggregation):
        part.aggregate = _with_sums(part.aggregate)  # type: ignore[method-assign]
    return part


def _checked(part: Any, method: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        result = method(*arguments, **named)
        wanted = rule(part, (*arguments, *named.values()), result)
        if wanted:
            raise WrongResult(method, f"returned {shown(result)}, {wanted}")
        return with_checks(result) if isinstance(result, Communicator) and result is not part else result

    return call


def _with_checked_work(background: Callable[..., Any], method: object) -> Callable[..., Any]:
    """Return what calls the ``method`` of a plugin, whose work gets a communicator that is looked at, too."""

    @functools.wraps(background)
    def call(work: Callable[[Communicator], Any]) -> Any:
        def checked(communicator: Communicator) -> Any:
            if not isinstance(communicator, Communicator):
                raise WrongResult(method, f"gave the work {shown(communicator)}, not a communicator")
            return work(with_checks(communicator))

        return background(checked)

    return call


def _with_sums(aggregate: Callable[[Array, Array, Communicator], object]) -> Callable[..., None]:
    """Return an aggregation's method that refuses to have spoilt any number of the header.

    Three numbers more ride along: 1, whose sum is the number of ranks, a weighted sum of the numbers, which has to be
    that of their sums, and how large they are. So nothing else is sent, and wrong sums that are the same on all ranks
    are noticed, too.
    """

    @functools.wraps(aggregate)
    def call(gradients: Array, header: Array, communicator: Communicator) -> None:
        longer = np.concatenate([header, [1.0, _weighted(header), np.abs(header).sum()]])
        result = aggregate(gradients, longer, communicator)
        wrong = _in_place(None, (gradients, longer), result) or _not_summed(longer, communicator.size)
        if wrong:
            raise WrongResult(aggregate, f"returned {shown(result)}, {wrong}")
        header[...] = longer[: len(header)]

    return call


def _weighted(numbers: Array) -> float:
    """A sum in which no two numbers have the same weight."""
    with np.errstate(invalid="ignore"):  # of criteria that are infinite
        return float(numbers @ np.linspace(1.0, 2.0, len(numbers)))


def _not_summed(longer: Array, ranks: int) -> str:
    """What is wrong with the sums that an aggregation gave; those of criteria may be infinite, or no numbers."""
    sums, (count, weighted, size) = longer[:-3], longer[-3:]
    if not np.isfinite(sums[:1]).all():
        return "and no samples in the header"
    is_sum = not np.isfinite(sums).all() or abs(_weighted(sums) - weighted) <= _SLACK * size < np.inf
    return "" if count == ranks and is_sum else "and numbers in the header that are not the sums over all ranks"


def _in_place(part: Any, arguments: tuple[Any, ...], result: Any) -> str:
    given = result if isinstance(result, tuple | list) else () if result is None else (result,)
    others = [one for one in given if not any(one is argument for argument in arguments)]
    return "but the sums belong into the arrays that it is given" if others else ""


def _of_each_rank(part: Any, arguments: tuple[Any, ...], result: Any) -> str:
    sound = isinstance(result, list | tuple) and all(hasattr(one, "shape") for one in result)
    return "" if sound and len(result) == part.size else f"not a list of {part.size} arrays, one of each rank"


def _of_kind(kind: type, what: str, *, none: bool = False) -> Rule:
    def rule(part: Any, arguments: tuple[Any, ...], result: Any) -> str:
        return "" if isinstance(result, kind) or (none and result is None) else f"not {what}"

    return rule


def _arrays(part: Any, arguments: tuple[Any, ...], result: Any) -> str:
    sound = isinstance(result, Mapping) and all(hasattr(one, "shape") for one in result.values())
    return "" if sound else "not a dict of arrays"


_RULES: Mapping[type, Mapping[str, Rule]] = {
    Communicator: {
        "allreduce": _in_place,
        "allgather": _of_each_rank,
        "alltoall": _of_each_rank,
        "split": _of_kind(Communicator, "a communicator"),
        "background": _of_kind(Pending, "a Pending"),
        "regroup": _of_kind(Communicator, "a communicator or None", none=True),
        "receive": _of_kind(Message, "a Message"),
        "poll": _of_kind(Message, "a Message or None", none=True),
        "now": _of_kind(float | int, "seconds"),  # type: ignore[arg-type]
    },
    GradientAggregation: {"state": _arrays},
    Parallelizer: {
        "reduce": _of_kind(StepCounts, "the StepCounts of all ranks"),
        "describe": _of_kind(str, "a text"),
        "state": _arrays,
    },
}

_MADE: Mapping[type, str] = {Communicator: "watch", GradientAggregation: "settings", Parallelizer: "aggregations"}
"""What the constructors of the base classes set."""
