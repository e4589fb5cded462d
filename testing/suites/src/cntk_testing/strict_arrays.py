"""Arrays of a module that is none of NumPy's, to find what an op that is pure over ``xp`` must not do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class ImpureError(AssertionError):
    """An op does something to an array that a compiler could not follow or another module's arrays do not bear."""


class StrictArray:
    """An array that knows only arrays of its kind and numbers.

    Args:
        array: what it stands for.
        writable: whether elements may be written.
    """

    __array_ufunc__ = None  # NumPy gives up on operators with it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Any, writable: bool) -> None:
        self.plain = np.asarray(array)
        self._writable = writable

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to become an array of NumPy's."""
        raise ImpureError("it makes an array of NumPy's of an array of xp's")

    def __bool__(self) -> bool:
        raise ImpureError("it asks whether an array is true (if, and, or, while): use xp.where")

    def __float__(self) -> float:
        raise ImpureError("it makes a number of an array (float, int, item)")

    __int__ = __index__ = item = tolist = __float__

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, key: Any) -> StrictArray:
        return StrictArray(self.plain[_plain(key)], self._writable)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self._writable:
            raise ImpureError('it writes into an array: make a new one, or say in_place="gradient"')
        self.plain[_plain(key)] = _plain(value)

    def __neg__(self) -> StrictArray:
        return StrictArray(-self.plain, self._writable)

    def __invert__(self) -> StrictArray:
        return StrictArray(~self.plain, self._writable)

    def __abs__(self) -> StrictArray:
        return StrictArray(abs(self.plain), self._writable)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # no interface of NumPy's, by which it would make one of its arrays
            raise AttributeError(name)
        found = getattr(self.plain, name)
        return _wrapped(found, self._writable) if callable(found) or isinstance(found, np.ndarray) else found


def _define_operators() -> None:
    for name in _ARITHMETIC + _COMPARISONS:
        function = getattr(operator, f"__{name}__")

        def compute(self: StrictArray, other: Any, function: Any = function) -> StrictArray:
            return StrictArray(function(self.plain, _plain(other)), self._writable)

        def reversed_(self: StrictArray, other: Any, function: Any = function) -> StrictArray:
            return StrictArray(function(_plain(other), self.plain), self._writable)

        def in_place(self: StrictArray, other: Any, function: Any = function) -> StrictArray:
            found = function(self.plain, _plain(other))
            if not self._writable:
                return StrictArray(found, False)
            self.plain[...] = found
            return self

        setattr(StrictArray, f"__{name}__", compute)
        if name in _ARITHMETIC:
            setattr(StrictArray, f"__r{name}__", reversed_)
            setattr(StrictArray, f"__i{name}__", in_place)


_define_operators()


class StrictModule:
    """A module like NumPy whose functions take and give :class:`StrictArray`."""

    __name__ = "strict"

    def __init__(self, *, writable: bool) -> None:
        self._writable = writable

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return found if isinstance(found, type) or not callable(found) else _wrapped(found, self._writable)

    def array_of(self, array: Any) -> StrictArray:
        """Return an array of this module."""
        return StrictArray(array, self._writable)


def _wrapped(found: Any, writable: bool) -> Any:
    if isinstance(found, np.ndarray | np.generic):
        return StrictArray(found, writable)
    if isinstance(found, tuple | list):
        return type(found)(_wrapped(each, writable) for each in found)
    if not callable(found):
        return found
    function: Callable[..., Any] = found

    def call(*args: Any, **kwargs: Any) -> Any:
        plain = function(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})
        return _wrapped(plain, writable)

    return call


def _plain(value: Any) -> Any:
    """What a function of NumPy's takes for a value."""
    if isinstance(value, StrictArray):
        return value.plain
    if isinstance(value, np.ndarray) and value.ndim:
        raise ImpureError("it mixes in an array of NumPy's: make arrays with xp")
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    return value
