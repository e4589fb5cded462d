"""What the core library defines, with examples: the file ``library/definitions.txt`` as records."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import attrs

RESULT = "  ->  "
"""Stands between an example and what it gives."""


@attrs.frozen
class Definition:
    """A definition of the library.

    Attributes:
        name: the whole name, such as ``BS.Loop.IsFirst``.
        parameters: parameters with defaults as they are written after the name; empty for values and for aliases.
        meaning: what it means, in a sentence or two.
        example: members of a network description, or ``network (...)``: an expression that gives one.
        result: the shape of node ``z`` in brackets, the value of ``v``, or ``nodes`` with the names of some.
        section: the title it stands under.
    """

    name: str
    parameters: str
    meaning: str
    example: str
    result: str
    section: str


def definitions() -> tuple[Definition, ...]:
    """Return all definitions in the order of the file."""
    text = files("cntk_builder_brainscript").joinpath("library/definitions.txt").read_text(encoding="utf-8")
    return tuple(_read(line for line in text.splitlines() if line and not line.startswith("#")))


def _read(lines: Iterator[str]) -> Iterator[Definition]:
    section = ""
    for line in lines:
        if line.startswith("= "):
            section = line.removeprefix("= ")
            continue
        name, _, parameters = line.partition(" ")
        meaning = next(lines).strip()
        example, _, result = next(lines).strip().partition(RESULT)
        yield Definition(name, parameters, meaning, example, result, section)
