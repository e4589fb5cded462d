"""Where a part of a run came from: which plugin of which wheel, for logs and for the files that a training leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs


@attrs.frozen(order=True)
class Origin:
    """A plugin that took part.

    Attributes:
        kind: ``engine``, ``reader``, ``op`` ...
        name: what a recipe writes.
        wheel: distribution name, or the name of a plugin file.
        version: of the wheel; empty for a file.
    """

    kind: str
    name: str
    wheel: str
    version: str = ""

    @property
    def source(self) -> str:
        """``cntk-reader-htk 0.1.0``."""
        return f"{self.wheel} {self.version}".rstrip()


def merged(old: Iterable[Origin], new: Iterable[Origin]) -> tuple[Origin, ...]:
    """Return the parts of both, sorted; where both have one, with the version of the new."""
    found = {(origin.kind, origin.name, origin.wheel): origin for origin in (*old, *new)}
    return tuple(sorted(found.values()))


def as_entries(origins: Iterable[Origin]) -> list[dict[str, str]]:
    """Return the entries of a file."""
    return [attrs.asdict(origin) for origin in origins]


def of_entries(entries: Any) -> tuple[Origin, ...]:
    """Read the entries of a file; what makes no sense is left out, for nothing depends on it."""
    listed = entries if isinstance(entries, list) else []
    names = [field.name for field in attrs.fields(Origin)]
    sound = [one for one in listed if isinstance(one, Mapping) and all(isinstance(one.get(n), str) for n in names)]
    return tuple(Origin(*(one[name] for name in names)) for one in sound)


def summary(origins: Iterable[Origin]) -> str:
    """Return one line: ``cntk-engine-cpu 0.1.0 (engine cpu), cntk-learner-sgd 0.1.0 (learner sgd)``."""
    wheels: dict[str, list[str]] = {}
    for origin in sorted(origins, key=lambda one: (one.wheel, one)):
        wheels.setdefault(origin.source, []).append(f"{origin.kind} {origin.name}")
    return ", ".join(f"{source} ({', '.join(parts)})" for source, parts in wheels.items())


def as_text(origins: Iterable[Origin]) -> str:
    """Return a line for each part: ``learner sgd of cntk-learner-sgd 0.1.0``."""
    lines = [f"{origin.kind} {origin.name} of {origin.source}" for origin in origins]
    return "\n".join(lines) or "no plugins are named"
