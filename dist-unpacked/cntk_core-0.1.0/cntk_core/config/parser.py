"""``key=value``: how the items of a block become entries (docs/original-rules.md#keys-and-values)."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from cntk_core.config.lexer import CLOSING, OPENING, block_contents, matching_brace, split_items
from cntk_core.config.source import SourceText
from cntk_core.errors import ConfigError, Location

_KEY_END = re.compile(r'[=\[{("]')


@attrs.frozen(eq=False)
class Entry:
    """One key of a section with its unparsed value.

    Attributes:
        key: As it was written first.
        where: Place of the key (of the last assignment, which is the one in force).
        value: Without surrounding quotation marks and blanks; a block has its braces.
    """

    key: str
    where: Location
    value: SourceText

    @property
    def content(self) -> None:
        """There is nothing but the text."""


def parse_entries(
    source: SourceText,
    expand: Callable[[SourceText], SourceText] | None = None,
    warnings: list[str] | None = None,
) -> dict[str, Entry]:
    """Return the entries of a block by lower-case key, in the order in which the keys appear first.

    Args:
        source: The text of a block, with or without its outer braces.
        expand: Fills in the variables of an item whose key has one (``$common$`` may stand for several assignments).
        warnings: Gets a line for each closing bracket that closes nothing; those are legal and have no meaning.

    Raises:
        ConfigError: Braces do not match, a value or a key is missing.
    """
    entries: dict[str, Entry] = {}
    after_arguments = False
    for item in split_items(source, ";"):
        piece = source.slice(item.start, item.end)
        if expand is not None and "$" in _key_of(piece):
            for entry in parse_entries(expand(piece)).values():
                insert_entry(entries, entry)
            continue
        piece = _skip_stray_braces(piece, warnings)
        if not piece.text.strip():
            continue
        definition = after_arguments and piece.text.startswith("=")
        after_arguments = False
        if definition:
            continue  # the body of `name(arguments) = ...`, which only network descriptions understand
        parsed = _read_entry(piece)
        insert_entry(entries, parsed)
        after_arguments = parsed.value.text.startswith("(")
    return entries


def insert_entry(entries: dict[str, Entry], entry: Entry) -> None:
    """Add an entry: a block is appended to a block of the same key, anything else replaces what was there."""
    name = entry.key.lower()
    old = entries.get(name)
    if old is None:
        entries[name] = entry
    elif entry.value.text.startswith("[") and old.value.text.startswith(("[", "{")):
        entries[name] = Entry(old.key, old.where, SourceText.join((old.value, entry.value), " "))
    else:
        entries[name] = Entry(old.key, entry.where, entry.value)


def _key_of(piece: SourceText) -> str:
    return _KEY_END.split(piece.text, maxsplit=1)[0]


def _skip_stray_braces(piece: SourceText, warnings: list[str] | None) -> SourceText:
    start = 0
    while piece.text[start : start + 1] and piece.text[start] in CLOSING + " \t":
        if warnings is not None and piece.text[start] in CLOSING:
            warnings.append(f"{piece.locate(start)}: this '{piece.text[start]}' closes nothing")
        start += 1
    return piece.slice(start, len(piece.text)) if start else piece


def _read_entry(piece: SourceText) -> Entry:
    text = piece.text
    where = piece.where
    found = _KEY_END.search(text)
    if found is None:
        return Entry(text.strip(" \t"), where, SourceText("true", (0,), (where,)))
    key = text[: found.start()].strip(" \t")
    if not key:
        raise ConfigError(f"a name is missing before '{found.group()}'", where=where, hint="Write name=value.")
    start = found.start() + (found.group() == "=")
    while text[start : start + 1] in (" ", "\t"):
        start += 1
    if start >= len(text):
        raise ConfigError(
            f"no value is given for '{key}'",
            where=where,
            hint=f'Write {key}="" for an empty text. The bracket of a block stands on the same line as its name.',
        )
    return Entry(key, where, _value(piece, start))


def _value(source: SourceText, start: int) -> SourceText:
    opener = source.text[start]
    if opener not in OPENING:
        return source.slice(start, len(source.text)).strip()
    close = matching_brace(source, start)
    if opener == '"':
        return source.slice(start + 1, close).strip()
    return source.slice(start, close + 1)


@attrs.frozen
class Element:
    """One element of an array and how many times it stands there."""

    value: SourceText
    count: int


_REPEATED = re.compile(r"([^*]*)\*[ \t]*([0-9]+)[ \t]*", re.DOTALL)
_LARGEST_COUNT = 10**9


def parse_elements(source: SourceText) -> list[Element]:
    """Return the elements of ``a*2:b:c``, ``(a:b)`` or ``(|a|b)``.

    An element that begins with a brace or is quoted is not repeated. ``a*b`` where ``b`` is no count is text.

    Raises:
        ConfigError: Braces do not match, or a repeat count is 0 or absurdly large.
    """
    elements = []
    for item in split_items(source, ":"):
        piece = source.slice(item.start, item.end).strip()
        repeated = None if item.quoted or piece.text[:1] in tuple(OPENING) else _REPEATED.fullmatch(piece.text)
        if repeated is None:
            elements.append(Element(piece, 1))
            continue
        digits = repeated.group(2).lstrip("0")
        if not digits or len(digits) > len(str(_LARGEST_COUNT)) or int(digits) > _LARGEST_COUNT:
            raise ConfigError(
                f"'{piece.text}' repeats its value {repeated.group(2)[:20]} times",
                where=piece.locate(repeated.start(2)),
                hint=f"A count is a whole number from 1 to {_LARGEST_COUNT}.",
            )
        elements.append(Element(piece.slice(0, repeated.end(1)).strip(), int(digits)))
    return elements


def is_block(source: SourceText) -> bool:
    """Tell whether a value is ``[...]`` or ``{...}`` (or several of them in a row)."""
    return source.text.startswith(("[", "{")) and block_contents(source) is not None
