"""The wheels of the workspace, as their ``pyproject.toml`` say. ``tools/wheels.py`` tells what these have to say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEYS = {
    "offers": str,
    "toolkit": str,
    "all": str,
    "in-all": bool,
    "hint": str,
    "released": bool,
    "keywords": list,
    "classifiers": list,
    "home": str,
}
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[^]]*)\])?")


@dataclass(frozen=True)
class Family:
    """Wheels that lie beside each other.

    Attributes:
        name: the folder at the root.
        folders: pattern of the wheels' folders.
        in_all: whether the extra ``all`` of ``cntk-toolkit`` names them.
        packages: how many packages each installs.
    """

    name: str
    folders: str
    in_all: bool
    packages: int = 1


FAMILIES = (
    Family("kits", "kits/*", in_all=False),  # plugins bring those that they need
    Family("plugins", "plugins/*/*", in_all=True),
    Family("testing", "testing/*", in_all=False),
    Family("meta", "meta/*", in_all=False, packages=0),  # names to type, which bring others
)


class WheelError(Exception):
    """Something that only a person can mend: says which file, and what is wrong with it."""


@dataclass(frozen=True)
class Wheel:
    """What the lists say about a wheel.

    Attributes:
        family: where it lies; None for the core, which is the root.
        folder: relative to the root, with slashes.
        package: the package that it installs; empty where it only brings other wheels.
        needs: what it asks for: names and their extras.
        extras: what each of its extras asks for, in the same way.
        groups: what it offers to recipes: names of its entry points, as a recipe spells them, by their group.
        settings: its table ``[tool.cntk]``.
    """

    family: Family | None
    folder: str
    name: str
    version: str
    package: str
    needs: list[tuple[str, tuple[str, ...]]]
    extras: dict[str, list[tuple[str, tuple[str, ...]]]]
    groups: dict[str, list[str]]
    settings: dict[str, Any]

    @property
    def project(self) -> str:
        """Its project file, relative to the root."""
        return "pyproject.toml" if self.family is None else f"{self.folder}/pyproject.toml"

    @property
    def in_all(self) -> bool:
        """Whether the extra ``all`` of ``cntk-toolkit`` names it."""
        return self.family is not None and bool(self.settings.get("in-all", self.family.in_all))

    def requirement(self, key: str) -> str:
        """How ``cntk-toolkit`` asks for it: any patch of its minor version, with the extras of a key of its table."""
        extras = f"[{self.settings[key]}]" if self.settings.get(key) else ""
        major, minor = (int(part) for part in self.version.split(".")[:2])
        return f"{self.name}{extras}>={major}.{minor},<{major}.{minor + 1}"


def find_wheels(root: Path) -> list[Wheel]:
    """The core, then all other wheels by the paths of their folders.

    Raises:
        WheelError: a project file is missing what the lists need, or two wheels claim one name.
    """
    found = [_read(root, None, root / "pyproject.toml")]
    if not found[0].settings.get("home"):
        raise WheelError("pyproject.toml: [tool.cntk] home must be the address of the project")
    for family in FAMILIES:
        found += [_read(root, family, path) for path in sorted(root.glob(f"{family.folders}/pyproject.toml"))]
    _check_distinct("wheel", ((wheel.name, wheel) for wheel in found))
    _check_distinct("package", ((wheel.package, wheel) for wheel in found if wheel.package))
    for group in sorted({group for wheel in found for group in wheel.groups}):
        names = ((name.casefold(), wheel) for wheel in found for name in wheel.groups.get(group, ()))
        _check_distinct(f"name of {group}", names)
    return found


def _read(root: Path, family: Family | None, path: Path) -> Wheel:
    where = path.relative_to(root).as_posix()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as reason:
        raise WheelError(f"{where}: cannot be read: {reason}") from None
    project = data.get("project", {})
    named = _get(data, "tool", "hatch", "build", "targets", "wheel", "packages") or []
    packages = [name for each in named if not (name := each.rpartition("/")[2]).startswith("_")]  # those are aliases
    for key, value in (("name", project.get("name")), ("version", project.get("version"))):
        if not isinstance(value, str):
            raise WheelError(f"{where}: [project] says no {key}")
    if len(packages) != (1 if family is None else family.packages):
        wanted = "no package" if family and not family.packages else "one package"
        raise WheelError(f"{where}: [tool.hatch.build.targets.wheel] must name {wanted}, not {len(packages)}")
    points = project.get("entry-points", {})
    extras = project.get("optional-dependencies", {})
    return Wheel(
        family=family,
        folder=path.parent.relative_to(root).as_posix(),
        name=project["name"],
        version=project["version"],
        package="".join(packages),
        needs=[_asked_for(line) for line in project.get("dependencies", ())],
        extras={extra: [_asked_for(line) for line in lines] for extra, lines in extras.items()},
        groups={group: list(names) for group, names in points.items() if group.startswith("cntk.")},
        settings=_settings(where, _get(data, "tool", "cntk"), extras),
    )


def _asked_for(requirement: str) -> tuple[str, tuple[str, ...]]:
    """The name that a requirement asks for, and its extras."""
    found = REQUIREMENT.match(requirement)
    if found is None:
        return "", ()
    return found["name"], tuple(filter(None, map(str.strip, (found["extras"] or "").split(","))))


def _get(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key, {}) if isinstance(data, dict) else {}
    return data


def _settings(where: str, settings: dict[str, Any], extras: Container[str]) -> dict[str, Any]:
    for key, value in settings.items():
        if key not in KEYS:
            raise WheelError(f"{where}: [tool.cntk] has no key '{key}'; there are {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]):
            raise WheelError(f"{where}: [tool.cntk] {key} must be a {KEYS[key].__name__}")
    for key in ("keywords", "classifiers"):
        if any(not isinstance(value, str) for value in settings.get(key, ())):
            raise WheelError(f"{where}: [tool.cntk] {key} must be strings")
    offers = settings.get("offers", "")
    if not offers or "\n" in offers or "|" in offers:
        raise WheelError(f"{where}: [tool.cntk] offers must say in one line, without |, what the wheel offers")
    named = [*settings.get("toolkit", "").split(","), *settings.get("all", "").split(","), settings.get("hint", "")]
    for extra in named:
        if extra and extra not in extras:
            raise WheelError(f"{where}: [tool.cntk] names the extra '{extra}', which the wheel does not have")
    return settings


def _check_distinct(what: str, claims: Iterable[tuple[str, Wheel]]) -> None:
    owners: dict[str, Wheel] = {}
    for name, wheel in claims:
        if name in owners:
            raise WheelError(f"the {what} '{name}' is claimed by {owners[name].folder} and by {wheel.folder}")
        owners[name] = wheel


def needed_by(wheels: Sequence[Wheel], name: str, extras: Iterable[str] = ()) -> list[Wheel]:
    """A wheel of the workspace and those of the workspace that it needs, directly or not, in the order of all.

    Args:
        wheels: all of the workspace.
        name: the wheel.
        extras: those of its extras that are wanted, too.

    Raises:
        WheelError: there is no such wheel, or it has no such extra.
    """
    by_name = {wheel.name: wheel for wheel in wheels}
    if name not in by_name:
        raise WheelError(f"there is no wheel '{name}'")
    seen: set[tuple[str, str]] = set()
    left = [(name, ""), *((name, extra) for extra in extras)]
    while left:
        one = left.pop()
        if one in seen or one[0] not in by_name:
            continue
        seen.add(one)
        wheel, extra = by_name[one[0]], one[1]
        if extra and extra not in wheel.extras:
            raise WheelError(f"the wheel '{wheel.name}' has no extra '{extra}'")
        for needed, its_extras in wheel.extras[extra] if extra else wheel.needs:
            left += [(needed, ""), *((needed, each) for each in its_extras)]
    return [wheel for wheel in wheels if (wheel.name, "") in seen]
