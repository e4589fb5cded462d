"""Entries whose values come from another language, such as BrainScript, and are found when something asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs

from cntk_core.config.source import SourceText
from cntk_core.errors import CntkError, Location

if TYPE_CHECKING:
    from cntk_core.config.parser import Entry


@attrs.frozen(eq=False)
class Content:
    """What a value is.

    Attributes:
        text: the value as the configuration language writes it; of a section only brackets.
        entries: of a section: its entries by lower-case key.
        elements: of an array: its elements.
        other: of anything that has no place in a recipe: a few words for it, such as ``a function``.
        description: what the builder is given if this describes a network; it is the builder's own.
    """

    text: SourceText
    entries: Mapping[str, Entry | EvaluatedEntry] | None = None
    elements: tuple[Content, ...] | None = None
    other: str = ""
    description: object = None

    @classmethod
    def of_text(cls, text: str, where: Location) -> Content:
        """Return a text, a number or a truth value as it stands in a recipe."""
        return cls(SourceText(text, (0,), (where,)))

    @classmethod
    def of_section(cls, entries: Mapping[str, Entry | EvaluatedEntry], where: Location) -> Content:
        """Return a section."""
        return cls(SourceText("[ ]", (0,), (where,)), entries=entries)

    @classmethod
    def of_array(cls, elements: tuple[Content, ...], where: Location) -> Content:
        """Return an array."""
        return cls(SourceText(":".join(e.text.text for e in elements), (0,), (where,)), elements=elements)

    @classmethod
    def of_other(cls, words: str, where: Location) -> Content:
        """Return what is no value of a recipe."""
        return cls(SourceText(f"({words})", (0,), (where,)), other=words)

    @classmethod
    def of_network(cls, description: object, where: Location) -> Content:
        """Return the description of a network."""
        return cls(SourceText("(a network)", (0,), (where,)), description=description)


@attrs.define(eq=False)
class EvaluatedEntry:
    """One key of a section; the value is found at the first look.

    Attributes:
        key: as messages call it.
        where: the place of the key.
    """

    key: str
    where: Location
    _find: Callable[[], Content]
    _found: Content | None = attrs.field(default=None, init=False)

    @property
    def content(self) -> Content:
        """The value. Raises CntkError if it cannot be evaluated."""
        if self._found is None:
            self._found = self._find()
        return self._found

    @property
    def value(self) -> SourceText:
        """The value as a text. Raises CntkError if it cannot be evaluated."""
        return self.content.text


def shown(content: Content) -> str:
    """Return a value for a listing, with all that is in it."""
    if content.entries is None:
        return content.text.text
    return f"[{'; '.join(f'{entry.key}={shown_entry(entry)}' for entry in content.entries.values())}]"


def shown_entry(entry: Entry | EvaluatedEntry) -> str:
    """Return the value of an entry for a listing; instead of one that cannot be evaluated, the reason."""
    if not isinstance(entry, EvaluatedEntry):
        return entry.value.text
    try:
        return shown(entry.content)
    except CntkError as error:
        return f"({error.message})"
