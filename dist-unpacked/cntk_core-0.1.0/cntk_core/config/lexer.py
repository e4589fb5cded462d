"""Braces and separators: how a text falls into items.

The rules are those of the original's configuration parser (docs/original-rules.md#items-and-braces): items end at a
newline, a comma or one more separator (``;`` in sections, ``:`` in arrays); a pair of braces or quotation marks keeps
what is inside together; an item that is nothing but a brace pair is entered, and may begin with a separator of its own.
"""

from __future__ import annotations

import re
from functools import cache

import attrs

from cntk_core.config.source import SourceText
from cntk_core.errors import ConfigError

OPENING = '[{("'
CLOSING = ']})"'

_BRACE = re.compile(r'[\[\]{}()"]')
_CUSTOM_SEPARATORS = "`~!@$%^&*_-+|:;,?."
_PATH_STARTS = ("..", ".\\", "./", "\\\\")
# Not separators: a number with a sign or a leading point, and a $variable$.
_VALUE_START = re.compile(r"[-+.]\d|[-+]\.\d|\$[A-Za-z_][^\s$,/<>?;':\"\[\]{}\\|!@#%^&*()+=~`]*\$")
_KEY_AT_MARGIN = re.compile(r"^([A-Za-z_]\w*)[ \t]*=", re.MULTILINE)


@attrs.frozen
class Item:
    """One item: the characters from ``start`` to before ``end``; ``quoted`` if quotation marks stood around them."""

    start: int
    end: int
    quoted: bool = False


def matching_brace(source: SourceText, start: int) -> int:
    """Return the offset of the brace that closes the one at ``start``.

    Inside quotation marks only the closing mark counts.

    Raises:
        ConfigError: A closing brace of another kind comes first, or none at all.
    """
    text = source.text
    open_braces = [start]
    position = start + 1
    while True:
        opener = text[open_braces[-1]]
        closer = CLOSING[OPENING.index(opener)]
        if opener == '"':
            found = text.find('"', position)
        else:
            match = _BRACE.search(text, position)
            found = match.start() if match else -1
        if found < 0:
            raise _unclosed(source, open_braces[-1], closer)
        if text[found] == closer:
            open_braces.pop()
            if not open_braces:
                return found
        elif text[found] in OPENING:
            open_braces.append(found)
        else:
            raise ConfigError(
                f"'{text[found]}' does not match the '{opener}' at {source.locate(open_braces[-1])}",
                where=source.locate(found),
                hint=f"Close that bracket with '{closer}' first, or remove this '{text[found]}'.",
            )
        position = found + 1


def _unclosed(source: SourceText, opener: int, closer: str) -> ConfigError:
    brace = source.text[opener]
    if brace == '"':
        return ConfigError(
            "no closing '\"' for this quotation mark",
            where=source.locate(opener),
            hint="Add a '\"' where the text ends.",
        )
    hint = f"Add a '{closer}' where the block ends."
    suspect = _key_at_margin(source, opener)
    if suspect is not None:
        name = suspect.group(1)
        hint += f" '{name}' at {source.locate(suspect.start())} stands at the left margin inside it: missing before?"
    return ConfigError(f"no closing '{closer}' for this '{brace}'", where=source.locate(opener), hint=hint)


def _key_at_margin(source: SourceText, opener: int) -> re.Match[str] | None:
    """Find the first unindented ``key=`` in a block whose own first line is indented: the block ended before it."""
    line_end = source.text.find("\n", opener)
    if line_end < 0 or source.text[line_end + 1 : line_end + 2] not in (" ", "\t"):
        return None
    found = _KEY_AT_MARGIN.search(source.text, line_end)
    same_file = found is not None and source.locate(found.start()).file == source.locate(opener).file
    return found if same_file else None


def custom_separator(text: str, position: int) -> str | None:
    """Return the separator that a block declares right after its opening brace, if it does."""
    if position >= len(text) or text[position] not in _CUSTOM_SEPARATORS:
        return None
    if text.startswith(_PATH_STARTS, position) or _VALUE_START.match(text, position):
        return None
    return text[position]


def split_items(source: SourceText, separator: str) -> list[Item]:
    """Return the items of a block.

    Args:
        source: The block, with or without its outer braces; several blocks one after the other count as one.
        separator: What separates items besides newline and comma.

    Raises:
        ConfigError: Braces do not match.
    """
    text = source.text
    items: list[Item] = []
    skipped = ",\r\n \t" + separator
    limit = len(text)
    inside = False
    position = 0
    while position < len(text):
        if position >= limit:
            # The closing brace of the block that was entered.
            inside, position, limit = False, limit + 1, len(text)
            skipped = ",\r\n \t" + separator
        elif text[position] in skipped:
            position += 1
        elif text[position] in OPENING:
            end = matching_brace(source, position)
            if not inside:
                inside, limit, position = True, end, position + 1
                custom = custom_separator(text, position)
                if custom is not None:
                    skipped = ",\r\n \t" + custom
                    position += 1
            elif text[position] == '"':
                items.append(Item(position + 1, min(end, limit), quoted=True))
                position = end + 1
            else:
                items.append(Item(position, min(end + 1, limit)))
                position = end + 1
        else:
            end = _end_of_word(source, position, limit, skipped)
            items.append(Item(position, end))
            position = end
    return items


def _end_of_word(source: SourceText, start: int, limit: int, skipped: str) -> int:
    """Return where an item ends: at a separator, or after the first brace pair in it."""
    found = _stops(skipped).search(source.text, start, limit)
    if found is None:
        return limit
    if found.group() in OPENING:
        return min(matching_brace(source, found.start()) + 1, limit)
    return found.start()


@cache
def _stops(skipped: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(skipped.replace(' ', '').replace(chr(9), '') + OPENING)}]")


def block_contents(source: SourceText) -> SourceText | None:
    """Return what stands between the braces of ``[...]`` or ``{...}``; of several blocks in a row, all of it.

    Returns ``None`` for text that is not a block.
    """
    text = source.text
    parts: list[SourceText] = []
    position = 0
    while position < len(text):
        if text[position] in " \t\r\n":
            position += 1
            continue
        if text[position] not in "[{":
            return None
        end = matching_brace(source, position)
        parts.append(source.slice(position + 1, end))
        position = end + 1
    return SourceText.join(parts, "\n") if parts else None
