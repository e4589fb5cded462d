"""Write every list of the workspace's wheels: ``python tools/wheels.py [--check | --paths | --needed-by WHEEL]``.

A wheel is a folder that one of :data:`FAMILIES` finds. What the lists need to know stands in its ``pyproject.toml``:
name, version, extras and entry points, and in the table ``[tool.cntk]``

* ``offers``: what it offers, one line of Markdown for the table of wheels (needed);
* ``toolkit``: that ``cntk-toolkit`` brings it, and with which extras, for example ``"fast"``, ``"a,b"`` or ``""``;
* ``all``: the extras to ask for where the extra ``all`` of ``cntk-toolkit`` names it;
* ``in-all``: whether that extra names it (otherwise as its family says);
* ``hint``: the extra that most people need with it, named where a message says how to install it;
* ``released``: false for a wheel that cannot be installed from an index yet.

The lists stand between the comments ``<wheels:LIST>`` and ``</wheels:LIST>`` in :data:`FILES`; the rest of these files
is written by hand. ``cntk_core/plugins/known.json`` is written whole. With ``--check`` nothing is written: exit status
1 and a line for each file that is out of date. With ``--paths`` the folders of all wheels but the core's are printed,
one a line; with ``--needed-by`` those of a wheel and of all that it needs, directly or not.

It needs Python's standard library alone, so that it runs before an environment is made.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "make wheels"
KNOWN = "cntk_core/plugins/known.json"
MARKER = re.compile(r"^(?P<indent>\s*)(?:# |<!-- )<(?P<end>/?)wheels:(?P<name>[^>]*)>(?: -->)?\s*$")
KEYS = {"offers": str, "toolkit": str, "all": str, "in-all": bool, "hint": str, "released": bool}
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

FILES = {
    "Makefile": ("projects",),
    "README.md": ("table",),
    "docs/index.md": ("pages",),
    "meta/toolkit/pyproject.toml": ("toolkit", "all"),
    "pyproject.toml": ("members", "sources", "packages", "mypy", "tests"),
}
"""Files with lists, and the lists that must be there. A list may stand in a file more than once."""


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
    def in_all(self) -> bool:
        """Whether the extra ``all`` of ``cntk-toolkit`` names it."""
        return self.family is not None and bool(self.settings.get("in-all", self.family.in_all))

    def requirement(self, key: str) -> str:
        """How ``cntk-toolkit`` asks for it: any patch of its minor version, with the extras of a key of its table."""
        extras = f"[{self.settings[key]}]" if self.settings.get(key) else ""
        major, minor = (int(part) for part in self.version.split(".")[:2])
        return f"{self.name}{extras}>={major}.{minor},<{major}.{minor + 1}"


# ----------------------------------------------------------------------------------------------------------------------
# Finding the wheels


def find_wheels(root: Path) -> list[Wheel]:
    """The core, then all other wheels by the paths of their folders.

    Raises:
        WheelError: a project file is missing what the lists need, or two wheels claim one name.
    """
    found = [_read(root, None, root / "pyproject.toml")]
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


# ----------------------------------------------------------------------------------------------------------------------
# The lists


def _members(wheels: Sequence[Wheel]) -> Iterator[str]:
    return (f'"{family.folders}",' for family in _families(wheels))


def _sources(wheels: Sequence[Wheel]) -> Iterator[str]:
    return (f"{wheel.name} = {{ workspace = true }}" for wheel in wheels)


def _all(wheels: Sequence[Wheel]) -> Iterator[str]:
    """Those that ``cntk-toolkit`` does not bring, or not with all extras that they have for ``all``."""
    brought = [
        wheel.name
        for wheel in wheels
        if "toolkit" in wheel.settings and wheel.settings.get("all", "") in ("", wheel.settings["toolkit"])
    ]
    return (f'"{wheel.requirement("all")}",' for wheel in wheels if wheel.in_all and wheel.name not in brought)


def _toolkit(wheels: Sequence[Wheel]) -> Iterator[str]:
    return (f'"{wheel.requirement("toolkit")}",' for wheel in wheels if "toolkit" in wheel.settings)


def _packages(family: str | None = None) -> Callable[[Sequence[Wheel]], Iterator[str]]:
    def listed(wheels: Sequence[Wheel]) -> Iterator[str]:
        mine = (w for w in wheels if w.family is not None and family in (None, w.family.name))
        return (f'"{wheel.package}",' for wheel in mine if wheel.package)

    return listed


def _mypy(wheels: Sequence[Wheel]) -> Iterator[str]:
    return (f'"{family.folders}/src",' for family in _families(wheels) if family.packages)


def _tests(wheels: Sequence[Wheel]) -> Iterator[str]:
    return (f'"{family.name}",' for family in _families(wheels) if family.packages)


def _projects(wheels: Sequence[Wheel]) -> Iterator[str]:
    yield f"PROJECTS := {' '.join(f'$(wildcard {family.folders}/pyproject.toml)' for family in _families(wheels))}"


def _table(wheels: Sequence[Wheel]) -> Iterator[str]:
    yield "| wheel | what it offers |"
    yield "| --- | --- |"
    for wheel in wheels:
        name = f"`{wheel.name}`" if wheel.family is None else f"[`{wheel.name}`]({wheel.folder}/README.md)"
        planned = "" if wheel.settings.get("released", True) else " (not released yet)"
        yield f"| {name} | {wheel.settings['offers']}{planned} |"


def _pages(wheels: Sequence[Wheel]) -> Iterator[str]:
    yield "| | |"
    yield "| --- | --- |"
    kinds: dict[str, list[str]] = {}
    for wheel in wheels:
        if wheel.family is not None:
            *_, kind, name = wheel.folder.split("/")
            kinds.setdefault(kind, []).append(f"[{name}](../{wheel.folder}/README.md)")
    for kind, links in kinds.items():
        yield f"| {kind} | {', '.join(links)} |"


def _families(wheels: Sequence[Wheel]) -> Iterator[Family]:
    """Those that have a wheel, so that no tool is told about folders that are not there."""
    return (family for family in FAMILIES if any(wheel.family == family for wheel in wheels))


LISTS: dict[str, Callable[[Sequence[Wheel]], Iterator[str]]] = {
    "all": _all,
    "members": _members,
    "mypy": _mypy,
    "packages": _packages(),
    **{f"packages of {family.name}": _packages(family.name) for family in FAMILIES},
    "pages": _pages,
    "projects": _projects,
    "sources": _sources,
    "table": _table,
    "tests": _tests,
    "toolkit": _toolkit,
}
"""Names of the lists between comments, and their lines."""


def known_names(wheels: Sequence[Wheel]) -> str:
    """What the core knows about the wheels that may not be installed, as JSON: one object for each plugin."""
    rows = [
        json.dumps(
            {
                "name": wheel.name,
                "extra": wheel.settings.get("hint", ""),
                "released": wheel.settings.get("released", True),
                "offers": wheel.groups,
            }
        )
        for wheel in wheels
        if wheel.family is not None and wheel.groups
    ]
    return "[\n" + ",\n".join(f"  {row}" for row in rows) + "\n]\n"


# ----------------------------------------------------------------------------------------------------------------------
# The files


def fill(text: str, file: str, wheels: Sequence[Wheel]) -> str:
    """Return the text with every list between comments written anew, indented as its comments are.

    Raises:
        WheelError: a list is not closed, not known, or one that must be in this file is not there.
    """
    lines: list[str] = []
    seen: set[str] = set()
    begun: tuple[str, int] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        mark = MARKER.match(line)
        if mark is None:
            if begun is None:
                lines.append(line)
        elif mark["end"]:
            if begun is None or begun[0] != mark["name"]:
                raise WheelError(f"{file}:{number}: </wheels:{mark['name']}> closes no list")
            lines += [mark["indent"] + row for row in LISTS[mark["name"]](wheels)] + [line]
            begun = None
        else:
            if begun is not None:
                raise WheelError(f"{file}:{begun[1]}: <wheels:{begun[0]}> is not closed before line {number}")
            if mark["name"] not in LISTS:
                raise WheelError(f"{file}:{number}: there is no list '{mark['name']}'; there are {', '.join(LISTS)}")
            begun = (mark["name"], number)
            seen.add(begun[0])
            lines.append(line)
    if begun is not None:
        raise WheelError(f"{file}:{begun[1]}: <wheels:{begun[0]}> is not closed")
    if missing := [name for name in FILES.get(file, ()) if name not in seen]:
        raise WheelError(f"{file}: the comments <wheels:{missing[0]}> and </wheels:{missing[0]}> are missing")
    return "\n".join(lines) + "\n"


def stale_files(root: Path) -> dict[str, str]:
    """The files that are out of date, relative to the root, and what should be in them.

    Raises:
        WheelError: a project file or a file with lists is not as it has to be.
    """
    wheels = find_wheels(root)
    stale: dict[str, str] = {}
    for file in FILES:
        try:
            text = (root / file).read_text(encoding="utf-8")
        except OSError as reason:
            raise WheelError(f"{file}: cannot be read: {reason.strerror}") from None
        if (filled := fill(text, file, wheels)) != text:
            stale[file] = filled
    known = root / KNOWN
    if not known.is_file() or known.read_text(encoding="utf-8") != known_names(wheels):
        stale[KNOWN] = known_names(wheels)
    return stale


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write the lists, or check them. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Write every list of the workspace's wheels.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; say what is out of date")
    what.add_argument("--paths", action="store_true", help="print the folders of all wheels but the core's")
    what.add_argument("--needed-by", metavar="WHEEL", help="print the folders of a wheel and of those that it needs")
    options = parser.parse_args(arguments)
    try:
        if options.paths or options.needed_by:
            wheels = find_wheels(root)
            named = needed_by(wheels, options.needed_by) if options.needed_by else wheels
            print("\n".join(wheel.folder for wheel in named if wheel.family is not None))
            return 0
        stale = stale_files(root)
    except WheelError as error:
        print(f"tools/wheels.py: {error}", file=sys.stderr)
        return 1
    for file, text in stale.items():
        if options.check:
            print(f"{file}: the lists of wheels are out of date; write them anew: {COMMAND}", file=sys.stderr)
        else:
            (root / file).write_text(text, encoding="utf-8")
            print(f"written: {file}")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
