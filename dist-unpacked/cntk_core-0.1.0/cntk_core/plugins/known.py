"""Which wheel of ours has a component that is not installed.

The names are data, ``known.json`` beside this module, which ``tools/wheels.py`` writes from the wheels' project files.
It is read when a name is first looked for that no installed wheel has.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

import attrs


@attrs.frozen
class Wheel:
    """A wheel of this project.

    Attributes:
        name: distribution name.
        extra: the extra that most people need with it; empty for none.
        released: False while it is planned only.
    """

    name: str
    extra: str = ""
    released: bool = True

    @property
    def requirement(self) -> str:
        """What ``pip install`` is given, as a shell takes it."""
        return f'"{self.name}[{self.extra}]"' if self.extra else self.name

    @property
    def pip_line(self) -> str:
        """The command that installs it."""
        return f"pip install {self.requirement}"


def known(group: str) -> dict[str, tuple[str, Wheel]]:
    """What wheels of ours offer in an entry-point group such as ``cntk.readers``.

    Returns:
        lower-case name to the name as CNTK spells it and its wheel; always the same object for a group.
    """
    return _tables().setdefault(group, {})


def wheel_names() -> frozenset[str]:
    """The names of all wheels of ours that offer anything."""
    return frozenset(row["name"] for row in _rows())


@functools.cache
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(resources.files(__package__).joinpath("known.json").read_text(encoding="utf-8")))


@functools.cache
def _tables() -> dict[str, dict[str, tuple[str, Wheel]]]:
    tables: dict[str, dict[str, tuple[str, Wheel]]] = {}
    for row in _rows():
        wheel = Wheel(row["name"], row["extra"], row["released"])
        for group, names in row["offers"].items():
            tables.setdefault(group, {}).update({name.casefold(): (name, wheel) for name in names})
    return tables
