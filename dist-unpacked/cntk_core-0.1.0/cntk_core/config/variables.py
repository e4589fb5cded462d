"""``$name$``: filling in variables (docs/original-rules.md#variables)."""

from __future__ import annotations

import re
from collections.abc import Callable

from cntk_core.config.source import SourceText
from cntk_core.errors import ConfigError, Location

# A dollar that no letter follows is text and takes the next character with it, so `$$` is text, too.
_REFERENCE = re.compile(r"\$[^A-Za-z_\n]|\$([A-Za-z_][^\s$,/<>?;':\"\[\]{}\\|!@#%^&*()+=~`]*)\$")
_MAX_INSERTED = 1_000_000


def substitute(source: SourceText, find: Callable[[str, Location], SourceText]) -> SourceText:
    """Return the text with each ``$name$`` replaced by ``find(name, place)``.

    Raises:
        ConfigError: A variable's value has several lines, or more than a million characters come in.
    """
    if "$" not in source.text:
        return source
    parts: list[SourceText] = []
    position = 0
    inserted = 0
    for found in _REFERENCE.finditer(source.text):
        name = found.group(1)
        if name is None:
            continue
        where = source.locate(found.start())
        value = find(name, where)
        _check_lines(name, value, where)
        inserted += len(value.text)
        if inserted > _MAX_INSERTED:
            raise ConfigError(
                f"the text grows too long when ${name}$ is filled in",
                where=where,
                hint=f"At most {_MAX_INSERTED} characters may come from variables.",
            )
        parts += (source.slice(position, found.start()), value)
        position = found.end()
    return SourceText.join([*parts, source.slice(position, len(source.text))])


def _check_lines(name: str, value: SourceText, where: Location) -> None:
    if "\n" in value.text:
        raise ConfigError(
            f"the value of ${name}$ has several lines",
            where=where,
            hint=f"Write it in one line ({value.where}), separated with ';'.",
        )
