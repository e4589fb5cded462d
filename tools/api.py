"""Keep the promise of the doors: ``python tools/api.py [--check | --freeze]``.

A snapshot, ``tests/repo/api/DOOR.txt``, says what the last released version of a door offers, in the lines of
``api_names``. What has changed since asks for a version: to take away or change needs a new major, to add a new minor;
below 1.0 a new minor allows everything. An argument with a default that a function, a constructor or a hook gains at
its end is added, not changed; the same for a method that authors define is a change, as is a new abstract one.

Without options the pages ``docs/api/*.md`` are written, from signatures and docstrings (``api_pages``). With
``--check`` nothing is written: exit status 1 and a line for each broken promise and each page out of date. With
``--freeze`` the snapshots are written as well: what the doors offer now is then released.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import api_names
import api_pages

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOTS = ROOT / "tests" / "repo" / "api"
PAGES = ROOT / "docs" / "api"
LINE = re.compile(r"(?P<kind>\w+) (?P<name>[\w.]+)(?P<rest>.*)", re.DOTALL)
GROWING = ("function", "constructor", "hook", "method", "classmethod", "staticmethod")
"""What may gain arguments."""

MAJOR, MINOR = "a new major version", "a new minor version"


class Snapshot:
    """What a version of a door offers.

    Args:
        version: ``1.0``.
        lines: one for each thing.
    """

    def __init__(self, version: str, lines: Sequence[str]) -> None:
        self.version = version
        found = [(match, line) for line in lines if (match := LINE.fullmatch(line))]
        # A constructor has the name of its class.
        self.lines = {match["name"] + ".__init__" * (match["kind"] == "constructor"): line for match, line in found}

    @classmethod
    def of(cls, text: str) -> Snapshot:
        """Read the text of a file."""
        first, *lines = text.splitlines()
        return cls(first.rpartition(" ")[2], [line for line in lines if line and not line.startswith("#")])

    def defined_by_authors(self, name: str) -> bool:
        """Whether authors write methods of the class that a member belongs to."""
        line = self.lines.get(owner(name), "")
        return bool(re.match(r"class \w+(\(Component\)|.* \[(protocol|abstract)\])", line))


def snapshot_text(door: api_names.Door, lines: Sequence[str]) -> str:
    """Return the content of the file of a door."""
    head = f"# {door.module} {door.current()}"
    return "\n".join([head, "# What this version promises. Written by tools/api.py --freeze.", *lines]) + "\n"


def changes(old: Snapshot, new: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield what has changed, in words, with the version that it needs."""
    for name, line in old.lines.items():
        now = new.lines.get(name)
        if now is None:
            if owner(name) not in old.lines or owner(name) in new.lines:
                yield f"removed: {line}", MAJOR
        elif now != line:
            grown = has_grown(line, now) and not old.defined_by_authors(name)
            yield f"changed: {line}\n     to: {now}", MINOR if grown else MAJOR
    for name, line in new.lines.items():
        if name not in old.lines and (owner(name) in old.lines or owner(name) not in new.lines):
            yield f"added: {line}", MAJOR if line.endswith("[abstract]") and owner(name) in old.lines else MINOR


def owner(name: str) -> str:
    """Return the class of a member."""
    return name.rpartition(".")[0]


def has_grown(old: str, new: str) -> bool:
    """Whether a signature has only gained arguments that callers may leave out."""
    before, after = LINE.fullmatch(old), LINE.fullmatch(new)
    if before is None or after is None or before["kind"] != after["kind"] or before["kind"] not in GROWING:
        return False
    arguments, returned = api_names.split(before["rest"])
    now, returns = api_names.split(after["rest"])
    by_place, by_name = parted(arguments)
    places, names = parted(now)
    if returned != returns or places[: len(by_place)] != by_place or not set(by_name) <= set(names):
        return False
    more = [*places[len(by_place) :], *(set(names) - set(by_name))]
    return before["kind"] == "hook" or all("=" in one or one.startswith("*") for one in more)


def parted(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments that are given by place, and those that are given by name in any order."""
    star = next((number for number, one in enumerate(arguments) if one.startswith("*")), len(arguments))
    return arguments[:star], [one for one in arguments[star:] if one != "*"]


def allowed(before: str, now: str, need: str) -> bool:
    """Whether the step from one version to another is enough for a change."""
    old, new = ([int(part) for part in version.split(".")] for version in (before, now))
    if new[0] > old[0]:
        return True
    return new[0] == old[0] and new[1] > old[1] and (need == MINOR or old[0] == 0)


def broken_promises(door: api_names.Door, old: Snapshot, new: Snapshot) -> str:
    """Return what the version of a door does not allow; empty if all is well."""
    broken = [(what, need) for what, need in changes(old, new) if not allowed(old.version, new.version, need)]
    if not broken:
        return ""
    need = MAJOR if any(need == MAJOR for _, need in broken) else MINOR
    return "\n".join(
        [
            f"{door.module} {old.version} promised otherwise:",
            *(f"  {what}" for what, _ in broken),
            f"  Take it back, or let {door.version} be {need} (docs/stability.md says when).",
        ]
    )


def outdated(door: api_names.Door) -> str:
    """Return what is wrong with the snapshot of a door; empty if all is well."""
    file = SNAPSHOTS / f"{door.name}.txt"
    if not file.is_file():
        return f"there is no snapshot of {door.module}: python tools/api.py --freeze"
    new = Snapshot(door.current(), api_names.lines_of(door))
    return broken_promises(door, Snapshot.of(file.read_text(encoding="utf-8")), new)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or check everything."""
    parser = argparse.ArgumentParser(description="Pages and promises of the doors that plugins import from.")
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--check", action="store_true", help="write nothing; exit status 1 if something is not right")
    task.add_argument("--freeze", action="store_true", help="what there is now is released: write the snapshots too")
    options = parser.parse_args(arguments)
    pages = {PAGES / name: text for name, text in api_pages.pages().items()}
    if not options.check:
        files = dict(pages)
        if options.freeze:
            files |= {SNAPSHOTS / f"{d.name}.txt": snapshot_text(d, api_names.lines_of(d)) for d in api_names.DOORS}
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return 0
    problems = [problem for door in api_names.DOORS if (problem := outdated(door))]
    for file, text in pages.items():
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            problems.append(f"{file.relative_to(ROOT)} is out of date: make api")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
