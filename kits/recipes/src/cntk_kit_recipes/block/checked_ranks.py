"""Communicators, aggregations and strategies of other wheels, whose results are looked at before anybody uses them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from cntk_core.contract.parallel import Communicator, GradientAggregation, Message, Parallelizer, Pending, StepCounts
from cntk_core.errors import WrongResult, shown
from cntk_core.plugins.precedence import is_first_party

T = TypeVar("T", bound=Communicator | GradientAggregation | Parallelizer)

Rule = Callable[[Any, tuple[Any, ...], Any], str]
"""``(part, arguments, result) -> what it should have been``; empty if the result can be used."""


def with_checks(part: T) -> T:
    """Return a part of parallel training; those of its methods that give something do so only if it can be used.

    Args:
        part: one of this project's wheels stays as it is.

    Raises:
        WrongResult: it was made without its base class; later, a method gives something else than it should.
    """
    if is_first_party(type(part).__module__.partition(".")[0]):
        return part
    if isinstance(part, Communicator) and not hasattr(part, "watch"):
        raise WrongResult(type(part).__init__, "does not call super().__init__()")
    rules = next(rules for kind, rules in _RULES.items() if isinstance(part, kind))
    for name, rule in rules.items():
        setattr(part, name, _checked(part, getattr(part, name), rule))
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


def _in_place(part: Any, arguments: tuple[Any, ...], result: Any) -> str:
    given = result if isinstance(result, tuple | list) else () if result is None else (result,)
    others = [one for one in given if not any(one is argument for argument in arguments)]
    return "but the sums belong into the arrays that it is given" if others else ""


def _sums(part: Any, arguments: tuple[Any, ...], result: Any) -> str:
    samples = arguments[1].reshape(-1)[:1] if len(arguments) > 1 else np.ones(1)
    return _in_place(part, arguments, result) or ("" if np.isfinite(samples).all() else "and no samples in the header")


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
        "receive": _of_kind(Message, "a Message"),
        "poll": _of_kind(Message, "a Message or None", none=True),
        "now": _of_kind(float | int, "seconds"),  # type: ignore[arg-type]
    },
    GradientAggregation: {"aggregate": _sums, "state": _arrays},
    Parallelizer: {
        "reduce": _of_kind(StepCounts, "the StepCounts of all ranks"),
        "describe": _of_kind(str, "a text"),
        "state": _arrays,
    },
}
