"""The expression tree of BrainScript: what the parser makes and the evaluator walks.

Every expression knows the text that it was written in and the offset there, so that its place is worked out only
when an error needs it. The tree is immutable and shared: one parsed library serves every network of a process.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from cntk_core.api import Location
from cntk_core.api.builders import SourceText

LIBRARY = "<library>"
"""File names of library texts begin with this; errors point past such places, at the text that called them."""


@attrs.frozen(eq=False)
class Expression:
    """Base of all expressions: the text that it stands in and the offset of its first character."""

    source: SourceText = attrs.field(repr=False)
    offset: int

    @property
    def where(self) -> Location:
        """The place in the recipe or library."""
        return self.source.locate(self.offset)


@attrs.frozen(eq=False)
class Literal(Expression):
    """A number, a text or a truth value."""

    value: float | str | bool


@attrs.frozen(eq=False)
class Identifier(Expression):
    """A name, looked up in the enclosing records from inside out."""

    name: str


@attrs.frozen(eq=False)
class Member(Expression):
    """``record.name``; the place is that of the name."""

    record: Expression
    name: str


@attrs.frozen(eq=False)
class Index(Expression):
    """``array[index]``."""

    array: Expression
    index: Expression


@attrs.frozen(eq=False)
class Unary(Expression):
    """``+x``, ``-x`` or ``!x``."""

    operator: str
    operand: Expression


@attrs.frozen(eq=False)
class Infix(Expression):
    """``left operator right``; the place is that of the operator."""

    operator: str
    left: Expression
    right: Expression


@attrs.frozen(eq=False)
class Conditional(Expression):
    """``if condition then positive else negative``."""

    condition: Expression
    positive: Expression
    negative: Expression


@attrs.frozen(eq=False)
class New(Expression):
    """``new Kind record``."""

    kind: str
    record: Expression


@attrs.frozen(eq=False)
class Argument:
    """A named argument of a call or an optional parameter of a function: where its name stands, and its value."""

    offset: int
    value: Expression


@attrs.frozen(eq=False)
class Call(Expression):
    """``function (a, b, name = c)``, with either kind of brackets; the place is that of the function's name."""

    function: Expression
    arguments: tuple[Expression, ...]
    named: Mapping[str, Argument]


@attrs.frozen(eq=False)
class Function(Expression):
    """``x => body`` or ``name (a, b, option = default) = body``; ``name`` is empty for the former."""

    name: str
    parameters: tuple[str, ...]
    optional: Mapping[str, Argument]
    body: Expression


@attrs.frozen(eq=False)
class RecordMember:
    """One member of a record: where its name stands, and its value."""

    source: SourceText = attrs.field(repr=False)
    offset: int
    value: Expression

    @property
    def where(self) -> Location:
        """The place of the member's name."""
        return self.source.locate(self.offset)


@attrs.frozen(eq=False)
class RecordLiteral(Expression):
    """``[ a = 1 ; b = 2 ]``, also with braces; a whole text of members is one, too."""

    members: Mapping[str, RecordMember]


@attrs.frozen(eq=False)
class ArrayLiteral(Expression):
    """``a : b : c`` (``joins``: elements that are arrays are taken apart) or ``[| a ; b ; c |]`` (they are kept)."""

    items: tuple[Expression, ...]
    joins: bool


@attrs.frozen(eq=False)
class ArrayRange(Expression):
    """``array[first..last] (function)`` or ``name[i : first..last] = value``."""

    first: Expression
    last: Expression
    function: Expression


@attrs.frozen(eq=False)
class Element(Expression):
    """One element of an :class:`ArrayRange`: its function applied to a given index."""

    function: Expression
    index: float
