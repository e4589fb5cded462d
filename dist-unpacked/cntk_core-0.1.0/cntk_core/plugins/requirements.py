"""Whether a plugin and this core fit: by the interface that it was written for, and by what its wheel asks for."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any

from cntk_core import __version__
from cntk_core.contract.component import API_VERSION
from cntk_core.errors import BrokenPluginError, IncompatiblePluginError, PluginError

if TYPE_CHECKING:
    from cntk_core.plugins.offer import Source

CORE = "cntk-core"
_OURS = re.compile(r"(cntk[-_.]core|cntk[-_.]kit[-_.]\w+)(?![\w.-]*\w)\s*(.*)", re.IGNORECASE)
"""Requirements that are looked at: of the core and the kits, which plugins are written for."""
_PLAIN = re.compile(r"(>=|<)\s*(\d+(?:\.\d+)*)")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def wrong_interface(title: str, wanted: object, source: Source, *, where_to_say: str) -> PluginError | None:
    """Return what is wrong with the version of the plugin interface that something asks for; None if it fits.

    Args:
        title: who asks: ``reader 'htk' from cntk-reader-htk 0.1.0``.
        wanted: a version such as ``"1.0"``: the major must be the core's, the minor not newer.
        source: the wheel or file.
        where_to_say: where such a version is written, for who has written none.
    """
    parts = re.fullmatch(r"(\d+)\.(\d+)", wanted) if isinstance(wanted, str) else None
    if parts is None:
        return BrokenPluginError(
            f"{title} does not say which plugin interface it needs (requires_api is {wanted!r})",
            hint=f'Write requires_api = "{API_VERSION}" into {where_to_say}.',
        )
    major, minor = (int(part) for part in API_VERSION.split("."))
    theirs = (int(parts[1]), int(parts[2]))
    if theirs[0] == major and theirs[1] <= minor:
        return None
    newer = theirs > (major, minor)
    side, wheel = ("core", CORE) if newer else ("plugin", source.name)
    return IncompatiblePluginError(
        f"{title} needs plugin interface {wanted}, but cntk-core {__version__} has {API_VERSION}",
        hint=f"Upgrade the {side}: pip install --upgrade {wheel}"
        if newer or source.is_wheel
        else f"Bring the file up to plugin interface {API_VERSION}.",
    )


def wrong_module(title: str, value: Any, target: str, source: Source) -> PluginError | None:
    """Return what is wrong with the interface that ops or hooks ask for; None if it fits, or if they do not say.

    They say it with ``requires_api = "1.0"``, an attribute of what the entry point names or of its module.
    """
    module = target.partition("[")[0].partition(":")[0].strip()
    wanted = getattr(value, "requires_api", None) or getattr(sys.modules.get(module), "requires_api", None)
    if wanted is None:
        return None
    return wrong_interface(title, wanted, source, where_to_say=f"the module {module}")


def unmet_requirement(title: str, source: Source) -> IncompatiblePluginError | None:
    """Return what a wheel asks of the core and the kits that is not so here; None if all is well.

    pip sees to it when it installs the wheel, but not with ``--no-deps``, nor when the core is replaced afterwards.
    """
    if not source.is_wheel:
        return None
    for name, asked, there in _unmet(source.name):
        return IncompatiblePluginError(
            f"{title} needs {name}{asked}, but {name} {there} is installed",
            hint=f'pip install "{name}{asked}", or another version of the plugin: pip install --upgrade {source.name}',
        )
    return None


@functools.cache
def _unmet(wheel: str) -> tuple[tuple[str, str, str], ...]:
    try:
        requirements = metadata.requires(wheel) or []
    except metadata.PackageNotFoundError:
        return ()
    return tuple(_checked(requirements))


def _checked(requirements: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, what is asked, and the version that is there, of requirements of ours that are not met."""
    for text in requirements:
        found = _OURS.match(text)
        if found is None:
            continue
        there = _version_of(found[1])
        if there and not _is_met(text, found[2], there):
            yield found[1], found[2].partition(";")[0].strip().strip("()"), there


def _version_of(name: str) -> str:
    """The version of the core or a kit; empty if it is not installed, which its import will say."""
    if re.sub(r"[-_.]+", "-", name).lower() == CORE:
        return __version__
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _is_met(text: str, asked: str, there: str) -> bool:
    clauses = [_PLAIN.fullmatch(clause.strip()) for clause in asked.split(",")] if asked else []
    if all(clauses) and _NUMBERS.fullmatch(there):
        return all(clause is not None and _compare(there, clause[1], clause[2]) for clause in clauses)
    # Imported for what is not so plain alone: it takes long.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return True
    applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    return not applies or requirement.specifier.contains(there, prereleases=True)


def _compare(there: str, sign: str, bound: str) -> bool:
    left, right = ([int(part) for part in version.split(".")] for version in (there, bound))
    length = max(len(left), len(right))
    left += [0] * (length - len(left))
    right += [0] * (length - len(right))
    return left >= right if sign == ">=" else left < right
