"""The members of the record after ``new``, with default values and with errors that name what is made of them."""

from __future__ import annotations

from typing import TypeVar, cast

import attrs

from cntk_builder_brainscript.values import Record
from cntk_core.api import BuildError, Location, Node

_T = TypeVar("_T")
MAX_DIMENSION = 2**40


@attrs.frozen
class Settings:
    """The members that an object is made of. Members of the records around count too, such as a function's arguments.

    Attributes:
        record: the record.
        owner: what is made, for messages: ``Convolution 'z.c'``.
        where: the place of the expression.
    """

    record: Record
    owner: str
    where: Location

    def missing(self, name: str) -> BuildError:
        """Return the error for a member that is not there."""
        return BuildError(f"{self.owner} needs '{name}'", where=self.where)

    def has(self, name: str) -> bool:
        """Whether there is such a member."""
        return self.record.find(name) is not None

    def _or_default(self, name: str, default: _T | None) -> _T | None:
        if self.has(name):
            return None
        if default is None:
            raise self.missing(name)
        return default

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text. Raises BuildError if it is another kind of value, or missing without a default."""
        given = self._or_default(name, default)
        return self.record.text(name) if given is None else given

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return a truth value. Raises as :meth:`text` does."""
        given = self._or_default(name, default)
        return self.record.boolean(name) if given is None else given

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number. Raises as :meth:`text` does."""
        given = self._or_default(name, default)
        return self.record.number(name) if given is None else given

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number. Raises as :meth:`text` does."""
        given = self._or_default(name, default)
        return self.record.integer(name) if given is None else given

    def wholes(self, name: str) -> tuple[int, ...]:
        """Return whole numbers, of a shape, a number or an array. Raises as :meth:`text` does."""
        self._or_default(name, None)
        return self.record.integers(name)

    def flags(self, name: str) -> tuple[bool, ...]:
        """Return truth values, of a vector, one value or an array. Raises as :meth:`text` does."""
        self._or_default(name, None)
        return self.record.booleans(name)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return numbers, of one or of an array. Raises as :meth:`text` does."""
        self._or_default(name, None)
        items = self.record.flat(name)
        for item in items:
            if type(item) is not float:
                raise self.record.wrong(name, "numbers", item)
        return tuple(cast(float, item) for item in items)

    def dims(self, name: str) -> tuple[int, ...]:
        """Return dimensions in CNTK's order. Raises BuildError as :meth:`text` does, and for what is no dimension."""
        dims = self.wholes(name)
        for dim in dims:
            if not 0 <= dim <= MAX_DIMENSION:
                raise self.record.wrong(name, "dimensions (0 is one to be inferred)", float(dim))
        return dims

    def nodes(self, name: str) -> list[Node]:
        """Return the nodes of a member that is a node or an array of them; none if it is not there.

        Raises BuildError if an element is something else.
        """
        found: list[Node] = []
        for item in self.record.flat(name) if self.has(name) else ():
            if not isinstance(item, Node):
                raise self.record.wrong(name, "a node or an array of nodes", item)
            found.append(item)
        return found
