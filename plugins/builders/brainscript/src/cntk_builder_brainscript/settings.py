"""What a ``new ... [ ]`` expression was given: members of its record, read as the kind that is wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import attrs

from cntk_builder_brainscript.values import BSArray, describe
from cntk_core.api import BuildError, Location, Node

_T = TypeVar("_T")
MAX_DIMENSION = 2**40


@attrs.frozen
class TensorShape:
    """The value of ``new TensorShape [ dims = ... ]``: dimensions in CNTK's order."""

    dims: tuple[int, ...]


@attrs.frozen
class Vector:
    """The value of ``new BoolVector`` and its kin: whole numbers or truth values."""

    items: tuple[object, ...]


@attrs.frozen
class Settings:
    """The members that an object is made of.

    Attributes:
        find: name to evaluated value, None if there is no member of that name.
        owner: what is made, for messages: ``Convolution 'z.c'``.
        where: the place of the expression, for messages.
    """

    find: Callable[[str], object | None]
    owner: str
    where: Location

    def error(self, name: str, wanted: str, value: object) -> BuildError:
        """Return the error for a member of a wrong kind."""
        return BuildError(f"'{name}' of {self.owner} must be {wanted}, not {describe(value)}", where=self.where)

    def missing(self, name: str) -> BuildError:
        """Return the error for a member that is not there."""
        return BuildError(f"{self.owner} needs '{name}'", where=self.where)

    def required(self, name: str) -> object:
        """Return a value that must be there."""
        value = self.find(name)
        if value is None:
            raise self.missing(name)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text."""
        return self._typed(name, default, str, "a text")

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return a truth value."""
        return self._typed(name, default, bool, "true or false")

    def _typed(self, name: str, default: _T | None, kind: type[_T], wanted: str) -> _T:
        value = self.find(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.missing(name)
        if not isinstance(value, kind):
            raise self.error(name, wanted, value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number."""
        value = self.find(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.missing(name)
        return to_number(value, lambda wanted: self.error(name, wanted, value))

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number."""
        value = self.find(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.missing(name)
        return to_whole(value, lambda wanted: self.error(name, wanted, value))

    def dims(self, name: str) -> tuple[int, ...]:
        """Return dimensions in CNTK's order, of a TensorShape, a number or an array of numbers."""
        value = self.required(name)
        dims = self.wholes(name)
        if any(not 0 <= dim <= MAX_DIMENSION for dim in dims):
            raise self.error(name, "dimensions (0 is one that is inferred)", value)
        return dims

    def wholes(self, name: str) -> tuple[int, ...]:
        """Return whole numbers, of a TensorShape, a vector, a number or an array."""
        value = self.required(name)
        if isinstance(value, TensorShape):
            return value.dims
        return tuple(to_whole(item, lambda wanted: self.error(name, wanted, value)) for item in flatten(value))

    def flags(self, name: str) -> tuple[bool, ...]:
        """Return truth values, of a vector, one value or an array."""
        value = self.required(name)
        items = tuple(flatten(value))
        if not all(isinstance(item, bool) for item in items):
            raise self.error(name, "true or false, or an array of them", value)
        return tuple(bool(item) for item in items)

    def nodes(self, name: str) -> list[Node]:
        """Return the nodes of a member that is a node or an array of them; none if it is not there."""
        value = self.find(name)
        found: list[Node] = []
        for item in flatten(value) if value is not None else ():
            if not isinstance(item, Node):
                raise self.error(name, "a node or an array of nodes", item)
            found.append(item)
        return found


def flatten(value: object) -> Iterator[object]:
    """Yield the elements of an array and of the arrays in it; anything else is its only element."""
    if isinstance(value, Vector):
        yield from value.items
    elif isinstance(value, TensorShape):
        yield from value.dims
    elif isinstance(value, BSArray):
        for item in value.values():
            yield from flatten(item)
    else:
        yield value


def to_number(value: object, fail: Callable[[str], BuildError]) -> float:
    """Return a value as a number, or raise what ``fail`` makes of the words for what was wanted."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise fail("a number")
    return float(value)


def to_whole(value: object, fail: Callable[[str], BuildError]) -> int:
    """Return a value as a whole number, or raise what ``fail`` makes of the words for what was wanted."""
    number = to_number(value, fail)
    if not math.isfinite(number) or number != math.floor(number):
        raise fail("a whole number")
    return int(number)
