"""Data that a program gives to a trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cntk._graph.feeding import to_core
from cntk._graph.pieces import packed
from cntk.core import Value
from cntk.internal import sanitize_var_map
from cntk.io import MinibatchData


def arguments_of(given: Any, variables: Sequence[Any]) -> dict[Any, Any]:
    """Return data by variable; without data nothing.

    Args:
        given: data by variable or name, a tuple in the order of the variables, or the data of the only one; a pair of
            data by variable and a list that says of each sequence whether it begins here.
        variables: what the functions take.

    Raises:
        ValueError: something has no data, or data are for nothing.
    """
    if given is None or (isinstance(given, Mapping | tuple | list) and not given):
        return {}
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Mapping):
        return sanitize_var_map(variables, given)
    if not isinstance(given, Mapping):
        several = given if isinstance(given, tuple) and len(variables) > 1 else (given,)
        if len(several) != len(variables):
            raise ValueError(f"there are {len(variables)} arguments, but data for {len(several)}")
        return dict(zip(variables, several, strict=True))
    named = {each.name: each for each in variables if each.name}
    found: dict[Any, Any] = {}
    for key, data in given.items():
        variable = named.get(key) if isinstance(key, str) else getattr(key, "output", key)
        if variable is None or variable not in variables:
            raise ValueError(f"there are data for '{key}', which is no argument")
        found[variable] = data
    missing = [str(each) for each in variables if each not in found]
    if missing:
        raise ValueError(f"there are no data for {', '.join(missing)}")
    return found


def feeds_of(given: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return data by variable as the core takes them.

    Raises:
        ValueError: they do not fit.
    """
    return {variable: _feed(variable, data) for variable, data in given.items()}


def _feed(variable: Any, data: Any) -> Any:
    if isinstance(data, MinibatchData):
        return data.for_variable(variable)
    if isinstance(data, Value) and variable.dynamic_axes:
        if data._starts is not None:
            return packed(variable, data.for_variable(variable), data._starts)
        return to_core(variable, data.for_variable(variable))
    return to_core(variable, data)


class Known:
    """Knows the form of the arrays of the last minibatch, if the core took them as they were.

    What fits them need not be looked at again: most minibatches are as those before. No array is kept.
    """

    def __init__(self) -> None:
        self._form: list[tuple[Any, np.dtype[Any], tuple[int, ...]]] = []

    def note(self, given: Mapping[Any, Any], taken: Mapping[Any, Any]) -> None:
        """Note what was given, and what :func:`feeds_of` has made of it."""
        plain = all(type(data) is np.ndarray and taken[variable] is data for variable, data in given.items())
        self._form = [(variable, data.dtype, data.shape) for variable, data in given.items()] if plain else []

    def fits(self, arguments: Any) -> bool:
        """Whether these are plain arrays, for the same variables, of the types and shapes of those before."""
        if type(arguments) is not dict or not arguments or len(arguments) != len(self._form):
            return False
        for variable, dtype, shape in self._form:
            data = arguments.get(variable)
            if type(data) is not np.ndarray or data.dtype != dtype or data.shape != shape:
                return False
        return True


def sweep_ends(given: Mapping[Any, Any]) -> bool | None:
    """Return whether a sweep ends in a minibatch of a source; None of other data."""
    found = [data.end_of_sweep for data in given.values() if isinstance(data, MinibatchData)]
    return any(found) if found else None
