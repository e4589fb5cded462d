"""What installed wheels offer, read from their metadata; nothing of them is imported here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import metadata
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions
from typing import TYPE_CHECKING

from cntk_core import __version__
from cntk_core.errors import BrokenPluginError
from cntk_core.plugins.markers import hookimpl
from cntk_core.plugins.offer import Source, normal_name, same_wheel

if TYPE_CHECKING:
    from cntk_core.plugins.registry import Registry

SWITCH = "CNTK_PLUGINS"
"""Environment variable: ``off`` looks for no wheels, a list of wheels (commas or spaces) looks at those only.

A word with ``-`` in front switches something off: a wheel, ``wheel:name`` or ``kind:name``.
"""

HOOKS_GROUP = "cntk.hooks"
"""Entry points of modules or objects with hooks."""

OPS_GROUP = "cntk.ops"
"""Entry points of ops or modules of ops."""

KERNELS_GROUP = "cntk.kernels"
"""Entry points of kernels or modules of kernels, named after their engine."""

VERBS_GROUP = "cntk.verbs"
"""Entry points of verbs; here, so that ``cntk --help`` can list them without the interfaces."""

CORE_WHEEL = "cntk-core"

OWN_WHEELS = (CORE_WHEEL, "cntk-kit-builders", "cntk-kit-recipes")
"""The core and its kits: what they offer is no plugin that could be switched off."""

OFF = "-"
"""In front of the name of something that is switched off."""

PREFIX = "cntk."
"""Every group of ours begins with it."""

Entry = tuple[str, EntryPoint, Source]


class CoreParts:
    """The plugin that offers what the toolkit's own wheels have: actions, verbs, formats. No switch leaves it out."""

    def __init__(self) -> None:
        self._entries: list[Entry] | None = None

    @hookimpl
    def cntk_register(self, registry: Registry) -> None:
        """Offer the components of these wheels, to be looked up when somebody asks."""
        for table in registry.tables:
            table.add_scan(partial(self.entries, table.kind.group))

    def entries(self, group: str) -> list[Entry]:
        """Return name, entry point and wheel of everything that these wheels offer in a group.

        Raises:
            BrokenPluginError: the core has no metadata.
        """
        if self._entries is None:
            self._entries = [
                (point.name, point, source)
                for wheel in OWN_WHEELS
                for source, points in _own(wheel)
                for point in points
            ]
        return [entry for entry in self._entries if entry[1].group == group]


def _own(wheel: str) -> Iterator[tuple[Source, list[EntryPoint]]]:
    try:
        distribution = metadata.distribution(wheel)
    except PackageNotFoundError:
        if wheel == CORE_WHEEL:
            raise BrokenPluginError(
                "cntk-core is not installed: its own parts are found by its metadata",
                hint="Install it (pip install cntk-core, or pip install --editable . in a checkout).",
            ) from None
        return
    version = __version__ if wheel == CORE_WHEEL else distribution.version
    yield Source(wheel, version), _ours(distribution.entry_points)


class Discovery:
    """The plugin that offers what installed wheels have. The metadata is read once, when it is first needed.

    Attributes:
        note: a line that says how :data:`SWITCH` limits what is found; empty if it does not.
    """

    def __init__(self) -> None:
        self._wanted = wanted_wheels()
        self._groups: dict[str, list[Entry]] | None = None
        self.note = _note(self._wanted)

    @hookimpl
    def cntk_register(self, registry: Registry) -> None:
        """Offer the components, ops and kernels of installed wheels, to be looked up when somebody asks."""
        if self.note:
            registry.notes.append(self.note)
        for table in registry.tables:
            table.add_scan(partial(self.entries, table.kind.group))
        registry.add_op_scan(partial(self.entries, OPS_GROUP))
        registry.add_kernel_scan(partial(self.entries, KERNELS_GROUP))

    def entries(self, group: str) -> list[Entry]:
        """Return name, entry point and wheel of everything that is offered in a group."""
        if self._groups is None:
            self._groups = self._read() if self._wanted != () else {}
        return self._groups.get(group, [])

    def wheels(self) -> tuple[Source, ...]:
        """Return the wheels that offer anything, sorted by name."""
        self.entries("")
        assert self._groups is not None
        found = {source for entries in self._groups.values() for _, _, source in entries}
        return tuple(sorted(found, key=lambda source: source.name))

    def _read(self) -> dict[str, list[Entry]]:
        groups: dict[str, list[Entry]] = {}
        seen: set[str] = set()
        for source, points in _distributions():
            wanted = self._wanted is None or any(same_wheel(source.name, name) for name in self._wanted)
            # A wheel may be found twice, as an editable install and in its folder; the first is the one that is used.
            key = normal_name(source.name)
            if not wanted or key in seen or key in OWN_WHEELS:
                continue
            seen.add(key)
            for point in points:
                groups.setdefault(point.group, []).append((point.name, point, source))
        # Folders list their files in any order; what people see must not depend on it.
        return {group: sorted(entries, key=lambda entry: entry[2].name) for group, entries in groups.items()}


def wanted_wheels() -> tuple[str, ...] | None:
    """Return the wheels that :data:`SWITCH` allows: None for all, nothing for ``off``."""
    words = [word for word in _words() if not word.startswith(OFF)]
    if not words or [word.casefold() for word in words] == ["on"]:
        return None
    return () if [word.casefold() for word in words] == ["off"] else tuple(words)


def unwanted() -> tuple[str, ...]:
    """Return what :data:`SWITCH` switches off."""
    return tuple(word.removeprefix(OFF) for word in _words() if word.startswith(OFF))


def _words() -> list[str]:
    return os.environ.get(SWITCH, "").replace(",", " ").split()


def wheel_modules() -> dict[str, Source]:
    """Return the packages that entry points of installed wheels name, with their wheels, whatever is switched off."""
    return {
        point.value.partition(":")[0].partition(".")[0].strip(): source
        for source, points in _distributions()
        for point in points
    }


def _note(wanted: tuple[str, ...] | None) -> str:
    if wanted is None:
        return ""
    if not wanted:
        return f"{SWITCH}=off: plugins of installed wheels are not looked for"
    return f"{SWITCH} limits plugins to the wheels {', '.join(wanted)}"


def _distributions() -> Iterator[tuple[Source, list[EntryPoint]]]:
    for distribution in distributions():
        # Metadata of a wheel that has nothing to do with us may be damaged; that is none of our business.
        try:
            points = _ours(distribution.entry_points)
            if points:
                yield _source(distribution), points
        except Exception:
            continue


def _ours(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    return [point for point in points if point.group.startswith(PREFIX)]


def _source(distribution: Distribution) -> Source:
    about = distribution.metadata  # parsed at each look
    return Source(about["Name"], about["Version"] or "?")
