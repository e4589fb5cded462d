"""What is looked at while functions compute: values that are no numbers, sizes, sums, whole values."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk._graph import run
from cntk._graph.errors import GraphError
from cntk._graph.primitive import (
    COMBINE,
    DROPOUT,
    FREQUENCY,
    NUMBERS,
    RANDOM,
    SAMPLE,
    USER,
    Primitive,
    postorder,
    preorder,
)  # fmt: skip

_ASSIGN = NUMBERS["Assign"]
_SIZES, _SUMS, _VALUES = 1, 1000, 1_000_000
"""Levels from which on sizes, sums of absolute values, and all numbers are told."""


@attrs.define
class _Settings:
    checked: bool = False
    level: int = 0
    told: set[str] = attrs.field(factory=set)


_SETTINGS = _Settings()


def set_checked_mode(enable: bool) -> None:
    """Say whether values and gradients that are no numbers (NaN) are an error, where they come up first.

    A trainer looks at its loss and gradients before it learns of them, so that parameters stay as they are.
    """
    _SETTINGS.checked = bool(enable)
    _begin()


def set_computation_network_trace_level(level: int) -> None:
    """Say how much functions tell on the standard error while they compute.

    Args:
        level: 0 nothing; 1 operations and shapes, once; 1000 the sum of the absolute values of each, each time;
            1000000 all numbers. Everything is computed once more for the last two.
    """
    _SETTINGS.level = int(level)
    _SETTINGS.told.clear()
    _begin()


def set_node_timing(enable: bool) -> None:
    """Do nothing: :func:`start_profiler` and ``cntk explain --time`` measure times of nodes whenever they are asked."""


def _begin() -> None:
    run.look_on(_Watch() if _SETTINGS.checked or _SETTINGS.level >= _SIZES else None)


class _Watch:
    """Looks at values and gradients. What users wrote, draws or assigns is not computed once more."""

    def values(self, given: Mapping[Any, Any], found: Mapping[Any, Any]) -> None:
        """Tell of functions, and look for values that are no numbers.

        Raises:
            GraphError: there are some; says what made them first.
        """
        functions = _functions(found)
        for one in functions:
            if one.uid not in _SETTINGS.told and _SETTINGS.level >= _SIZES:
                _SETTINGS.told.add(one.uid)
                _tell(f"Validating --> {_words(one)}")
        invalid = _SETTINGS.checked and any(_is_invalid(_dense(value)) for value in found.values())
        if not (invalid or _SETTINGS.level >= _SUMS):
            return
        if _may_be_repeated(functions):
            known = _values([output for one in functions for output in one.outputs], given)
        else:
            known = {each: _dense(value) for each, value in found.items()}
        for one in functions:
            _look_at(one, [array for output in one.outputs for array in known.get(output, [])])

    def gradients(self, root: Any, found: Mapping[Any, Any]) -> None:
        """Look for gradients that are no numbers.

        Raises:
            GraphError: there are some; says by what.
        """
        for each, value in found.items() if _SETTINGS.checked else ():
            if _is_invalid(_dense(value)):
                raise GraphError(f"{root._owner.called} operation unexpectedly produced NaN gradients on {each}.")

    def ahead(self, root: Any, given: Mapping[Any, Any], by: Sequence[Any]) -> None:
        """Look at a loss and its gradients before something is learned of them.

        Raises:
            GraphError: some are no numbers.
        """
        from cntk._graph.evaluating import evaluate, gradients
        from cntk.ops import combine

        if not _may_be_repeated(_functions([root])):
            return
        function = combine([root])
        own = {each: given[each] for each in function.arguments}
        wanted = [each for each in by if each in function.parameters]
        if _SETTINGS.checked and wanted:
            gradients(function, own, wanted, None, None, as_numpy=True)
        else:
            evaluate([root], own, as_numpy=True)


def _functions(variables: Iterable[Any]) -> list[Primitive]:
    """Return the functions that compute variables, each behind what it reads."""
    owners = [each._owner for each in variables if each._owner is not None]
    return [one for one in reversed(preorder(owners)) if one.number not in (COMBINE, RANDOM, SAMPLE, FREQUENCY)]


def _may_be_repeated(functions: list[Primitive]) -> bool:
    return not any(one.number in (USER, RANDOM, DROPOUT, SAMPLE, FREQUENCY, _ASSIGN) for one in postorder(functions))


def _values(variables: list[Any], given: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    from cntk._graph.evaluating import evaluate

    with run.looked_away():
        found = evaluate(list(dict.fromkeys(variables)), given, as_numpy=True)
    return {each: _dense(value) for each, value in found.items()}


def _dense(value: Any) -> list[Any]:
    several = value if isinstance(value, list) else [value]
    return [np.asarray(each.toarray() if hasattr(each, "toarray") else each) for each in several]


def _is_invalid(arrays: list[Any]) -> bool:
    return any(np.isnan(each).any() for each in arrays)


def _look_at(one: Primitive, arrays: list[Any]) -> None:
    if _SETTINGS.level >= _SUMS:
        _tell(f"Dump --> {_words(one)}")
        if _SETTINGS.level >= _VALUES:
            for number in np.concatenate([each.ravel() for each in arrays]).tolist():
                _tell(f"{number:15.10f}")
        else:
            _tell(f"  absSum: {sum(float(np.abs(each, dtype=np.float64).sum()) for each in arrays):f}")
    if _SETTINGS.checked and _is_invalid(arrays):
        raise GraphError(f"{one.uid} {one.called} operation unexpectedly produced NaN values.")


def _words(one: Primitive) -> str:
    """Return a function as the original: ``Times25 = Times (Parameter5, Input3) : [2 x 4], [4 x *] -> [2 x *]``."""
    reads, makes = ([_size(each) for each in several] for several in (one.inputs, one.outputs))
    return f"{one.uid} = {one.called} ({', '.join(map(_name, one.inputs))}) : {', '.join(reads)} -> {', '.join(makes)}"


def _name(variable: Any) -> str:
    return str(variable.uid if variable._owner is None else variable._owner.uid)


def _size(variable: Any) -> str:
    """Return sizes as the original has them: in its order, and ``*`` for samples."""
    dims = [str(dim) for dim in reversed(variable.shape)] + ["*"] * bool(variable._axes)
    return f"[{' x '.join(dims)}]"


def _tell(line: str) -> None:
    print(line, file=sys.stderr)
