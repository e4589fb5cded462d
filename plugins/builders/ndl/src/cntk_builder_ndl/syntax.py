"""What a network description says, before macros are expanded and names are looked up."""

from __future__ import annotations

import attrs

from cntk_core.api import Location


@attrs.frozen
class Number:
    """A number; ``text`` is how it was written."""

    value: float
    text: str
    where: Location


@attrs.frozen
class Text:
    """A text in quotation marks."""

    text: str
    where: Location


@attrs.frozen
class Name:
    """A word: the name of something, with dots for members (``L1.BFF.W``), or the value of an option (``gaussian``)."""

    text: str
    where: Location


@attrs.frozen
class Array:
    """``{a, b}`` or ``(a:b)``."""

    items: tuple[Expression, ...]
    where: Location


@attrs.frozen
class Option:
    """``name=value`` among the arguments of a call."""

    name: str
    value: Expression
    where: Location


@attrs.frozen
class Call:
    """``Function(a, b, option=value)``."""

    function: str
    arguments: tuple[Expression, ...]
    options: tuple[Option, ...]
    where: Location


Expression = Number | Text | Name | Array | Call


@attrs.frozen
class Assignment:
    """``name = value``; the name is empty for a call that stands alone in a macro."""

    name: str
    value: Expression
    where: Location


@attrs.frozen
class MacroDefinition:
    """``M(a, b) { ... }`` and its other forms."""

    name: str
    parameters: tuple[Name, ...]
    body: tuple[Statement, ...]
    where: Location


Statement = Assignment | MacroDefinition
