"""Addresses of files elsewhere, such as ``s3://bucket/data.ctf``, in the values of a recipe.

A value that is one is read as the path of a copy here. Who makes the copies lies above this room, and is told to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from cntk_core.config.source import SourceText
from cntk_core.errors import Location

Bring = Callable[[str, Location | None], str]

_IN_ARRAY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s:;,*\"'()\[\]{}]+")
_bring: list[Bring] = []


def copies_by(bring: Bring) -> None:
    """Have something make the copies: it gets an address and its place, and returns the path of the copy."""
    _bring[:] = [bring]


def as_path(text: str, where: Location | None = None) -> str:
    """Return the path of the copy of an address; any other text as it is."""
    # A path in the folder of copies is absolute. Only of an address with both slashes a recipe says that it is one.
    return _bring[0](text, where) if _bring and ("://" in text or os.path.isabs(text)) else text


def with_paths(text: SourceText) -> SourceText:
    """Return the text of an array with a path in place of each address: addresses have colons, too."""
    if not _bring or "://" not in text.text:
        return text
    parts, at = [], 0
    for found in _IN_ARRAY.finditer(text.text):
        start, at_end = found.span()
        path = SourceText(_bring[0](found[0], text.locate(start)), (0,), (text.locate(start),))
        parts += [text.slice(at, start), path]
        at = at_end
    return SourceText.join([*parts, text.slice(at, len(text.text))])
