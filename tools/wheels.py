"""Write every list of the workspace's wheels: ``python tools/wheels.py [--check | --paths | --needed-by WHEEL]``.

A wheel is a folder that one of :data:`FAMILIES` finds. What the lists need to know stands in its ``pyproject.toml``:
name, version, extras and entry points, and in the table ``[tool.cntk]``

* ``offers``: what it offers, one line of Markdown for the table of wheels (needed);
* ``toolkit``: that ``cntk-toolkit`` brings it, and with which extras, for example ``"fast"``, ``"a,b"`` or ``""``;
* ``all``: the extras to ask for where the extra ``all`` of ``cntk-toolkit`` names it;
* ``in-all``: whether that extra names it (otherwise as its family says);
* ``keywords``, ``classifiers``: its own, beside those that all wheels have (``tools/wheel_metadata.py``);
* ``home``: the address of the project; the root's alone;
* ``hint``: the extra that most people need with it, named where a message says how to install it;
* ``released``: false for a wheel that cannot be installed from an index yet.

The lists stand between the comments ``<wheels:LIST>`` and ``</wheels:LIST>`` in :data:`FILES`; the rest of these files
is written by hand. ``cntk_core/plugins/known.json`` and the licence of each wheel are written whole. With ``--check``
nothing is written: exit status 1 and a line for each file that is out of date. With ``--paths`` the folders of all
wheels but the core's are printed, one a line; with ``--needed-by`` those of a wheel and of all that it needs, directly
or not.

It needs Python's standard library alone, so that it runs before an environment is made.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from wheel_metadata import ABOUT, about, with_place
from wheel_projects import FAMILIES, Family, Wheel, WheelError, find_wheels, needed_by

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "make wheels"
KNOWN = "cntk_core/plugins/known.json"
LICENCE = "LICENSE"
MARKER = re.compile(r"^(?P<indent>\s*)(?:# |<!-- )<(?P<end>/?)wheels:(?P<name>[^>]*)>(?: -->)?\s*$")


FILES = {
    "Makefile": ("projects",),
    "README.md": ("table",),
    "docs/index.md": ("pages",),
    "meta/toolkit/pyproject.toml": ("toolkit", "all"),
    "packaging/conda/wheels.txt": ("brought",),
    "pyproject.toml": ("members", "sources", "packages", "mypy", "tests"),
}
"""Files with lists, and the lists that must be there. A list may stand in a file more than once."""


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


def _brought(wheels: Sequence[Wheel]) -> Iterator[str]:
    """The wheels of ``cntk-toolkit``, each with the one version that it has."""
    named = needed_by(wheels, "cntk-toolkit") if any(wheel.name == "cntk-toolkit" for wheel in wheels) else []
    return (f"{wheel.name}=={wheel.version}" for wheel in named)


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
    "brought": _brought,
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
            lines += [mark["indent"] + row for row in _rows(mark["name"], file, wheels)] + [line]
            begun = None
        else:
            if begun is not None:
                raise WheelError(f"{file}:{begun[1]}: <wheels:{begun[0]}> is not closed before line {number}")
            if mark["name"] not in (*LISTS, ABOUT):
                raise WheelError(f"{file}:{number}: there is no list '{mark['name']}'; there are {', '.join(LISTS)}")
            begun = (mark["name"], number)
            seen.add(begun[0])
            lines.append(line)
    if begun is not None:
        raise WheelError(f"{file}:{begun[1]}: <wheels:{begun[0]}> is not closed")
    needed = [*FILES.get(file, ()), *(ABOUT for wheel in wheels if wheel.project == file)]
    if missing := [name for name in needed if name not in seen]:
        raise WheelError(f"{file}: the comments <wheels:{missing[0]}> and </wheels:{missing[0]}> are missing")
    return "\n".join(lines) + "\n"


def _rows(name: str, file: str, wheels: Sequence[Wheel]) -> Iterator[str]:
    """The lines of a list in a file."""
    if name != ABOUT:
        return LISTS[name](wheels)
    core, *_ = wheels
    (own,) = (wheel for wheel in wheels if wheel.project == file)
    return about(core.settings["home"], own.settings.get("keywords", ()), own.settings.get("classifiers", ()))


def stale_files(root: Path) -> dict[str, str]:
    """The files that are out of date, relative to the root, and what should be in them.

    Raises:
        WheelError: a project file or a file with lists is not as it has to be.
    """
    wheels = find_wheels(root)
    stale: dict[str, str] = {}
    projects = [wheel.project for wheel in wheels]
    for file in dict.fromkeys([*FILES, *projects]):
        try:
            text = (root / file).read_text(encoding="utf-8")
        except OSError as reason:
            raise WheelError(f"{file}: cannot be read: {reason.strerror}") from None
        if (filled := fill(with_place(text) if file in projects else text, file, wheels)) != text:
            stale[file] = filled
    licence = (root / LICENCE).read_text(encoding="utf-8") if (root / LICENCE).is_file() else ""
    written = {KNOWN: known_names(wheels), **{f"{wheel.folder}/{LICENCE}": licence for wheel in wheels if wheel.family}}
    for file, text in written.items():
        if not (root / file).is_file() or (root / file).read_text(encoding="utf-8") != text:
            stale[file] = text
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
