"""Tokens of BrainScript, with ``include`` done (docs/original-rules.md#brainscript-tokens)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import attrs

from cntk_core.api import BuildError, CntkError, Location
from cntk_core.api.builders import SourceText

Kind = Literal["number", "text", "name", "keyword", "mark", "end"]

Include = Callable[[str, Location], SourceText]
"""Finds the text of ``include "path"``: (path, place) -> text. Raises CntkError if there is none."""

KEYWORDS = frozenset({"include", "new", "with", "true", "false", "if", "then", "else", "array"})

_MAX_INCLUDES = 1000

_TOKEN = re.compile(
    r"""
    (?P<blank>[\s\u00a0\u2028\ufeff]+ | \#[^\n]* | //[^\n]* | /\*.*?\*/)
  | (?P<number>0[xX][0-9a-fA-F]+ | (?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<text>"[^"]*" | '[^']*')
  | (?P<open>/\* | ["'])
  | (?P<mark>\[\| | \|\] | \*\* | \.\* | \|\| | && | << | >> | == | >= | != | <= | => | \.\. | [][=;,(){}+\-*/%!<>:.])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Token:
    """One token: its kind, its text (of a text without quotation marks), its place.

    ``first`` tells whether nothing but blanks and comments stands before it on its line.
    """

    __slots__ = ("first", "kind", "offset", "source", "text")

    def __init__(self, kind: Kind, text: str, source: SourceText, offset: int, first: bool) -> None:
        self.kind = kind
        self.text = text
        self.source = source
        self.offset = offset
        self.first = first

    @property
    def where(self) -> Location:
        """The place of the first character."""
        return self.source.locate(self.offset)

    def describe(self) -> str:
        """Return what a message calls it."""
        if self.kind == "end":
            return "the end of the text"
        shown = self.text if len(self.text) <= 30 else self.text[:27] + "..."
        return f"the text '{shown}'" if self.kind == "text" else f"'{shown}'"


@attrs.define
class Lexer:
    """Cuts texts into tokens; mistakes are collected in ``errors``.

    Attributes:
        include: finds included texts; without it ``include`` is an error.
        errors: what was wrong, in the order of the text.
    """

    include: Include | None = None
    errors: list[CntkError] = attrs.field(factory=list)
    _including: list[str] = attrs.field(factory=list)
    _included: int = 0

    def tokens(self, source: SourceText) -> list[Token]:
        """Return the tokens of a text and of the texts that it includes, ending in one of kind ``end``."""
        found: list[Token] = []
        self._read(source, found)
        found.append(Token("end", "", source, len(source.text), True))
        return found

    def _read(self, source: SourceText, found: list[Token]) -> None:
        first = True
        including = False
        for match in _TOKEN.finditer(source.text):
            kind, text, offset = match.lastgroup, match.group(), match.start()
            if kind == "blank":
                first = first or "\n" in text
                continue
            if kind == "open":
                self._unclosed(source, offset, text)
                break
            if kind == "other":
                self._unexpected(source, offset, text)
                first = False
                continue
            if kind == "text":
                text = text[1:-1]
                if including:
                    self._splice(text, source.locate(offset), found)
                    including, first = False, True
                    continue
            elif kind == "name" and text in KEYWORDS:
                kind = "keyword"
            if including:
                self._no_path(source, offset)
                including = False
            if kind == "keyword" and text == "include":
                including = True
            else:
                found.append(Token(kind, text, source, offset, first))  # type: ignore[arg-type] # a group's name
            first = False
        if including:
            self._no_path(source, len(source.text))

    def _splice(self, path: str, where: Location, found: list[Token]) -> None:
        self._included += 1
        try:
            if self.include is None:
                raise BuildError(f"include '{path}' is not possible here", where=where)
            if path in self._including:
                cycle = " -> ".join([*self._including[self._including.index(path) :], path])
                raise BuildError(f"'{path}' includes itself", where=where, hint=cycle)
            if self._included > _MAX_INCLUDES:
                raise BuildError(f"more than {_MAX_INCLUDES} files are included", where=where)
            text = self.include(path, where)
        except CntkError as error:
            self.errors.append(error)
            return
        self._including.append(path)
        self._read(text, found)
        self._including.pop()

    def _no_path(self, source: SourceText, offset: int) -> None:
        where = source.locate(offset)
        self.errors.append(
            BuildError("include needs the path of a file", where=where, hint='Written: include "file.bs"')
        )

    def _unclosed(self, source: SourceText, offset: int, text: str) -> None:
        where = source.locate(offset)
        if text == "/*":
            self.errors.append(BuildError("this comment has no end", where=where, hint="It ends with */."))
        else:
            hint = f"It ends with {text}; there is no other way to write {text} into it than the other kind of mark."
            self.errors.append(BuildError("this text has no closing quotation mark", where=where, hint=hint))

    def _unexpected(self, source: SourceText, offset: int, text: str) -> None:
        hint = "Variables such as $name$ are filled in outside of BrainScript." if text == "$" else None
        shown = text if text.isprintable() else f"U+{ord(text):04X}"
        where = source.locate(offset)
        if not self.errors or self.errors[-1].where is None or self.errors[-1].where.line != where.line:
            self.errors.append(BuildError(f"unexpected character '{shown}'", where=where, hint=hint))
