"""The navigation of the site: the headings and lists of ``docs/index.md``, so that there is one list of pages.

``##`` is a part (a tab), ``###`` a section of it, and each list entry that begins with a link a page. In the table of
wheels each row is a section. Below a page stand those that belong to it: decisions, examples, notebooks, the doors.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from pathlib import Path
from typing import Any

from docs_site.pages import ROOT, name_on_site, pages, target_of, title_of

INDEX = "docs/index.md"
ENTRY = re.compile(r"- \[(?P<title>[^\]]+)\]\((?P<link>[^)]+)\)")
ROW = re.compile(r"\| (?P<section>[\w ]+) \| (?P<links>\[.*) \|$")
CELL_LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<link>[^)]+)\)")

BELOW = {
    "docs/decisions/README.md": ("docs/decisions/[0-9]*.md",),
    "docs/api/README.md": ("docs/api/[a-z]*.md",),
    "docs/notebooks.md": ("docs/notebooks/*.ipynb",),
    "examples/README.md": ("examples/*", "examples/*/README.md", "examples/*/*.ipynb"),
    "CHANGELOG.md": ("changes/README.md",),
}
"""Pages with others below them that ``docs/index.md`` does not list, and their paths in the repository."""

Entry = dict[str, Any]
"""MkDocs's navigation: a title and the name of a page, or what is below it."""


class NavigationError(Exception):
    """``docs/index.md`` is not what the navigation can be made of."""


def navigation(root: Path = ROOT, more: dict[str, list[Entry]] | None = None) -> list[Entry]:
    """Return the navigation.

    Args:
        root: the repository.
        more: entries below further pages, by their paths.

    Raises:
        NavigationError: an entry stands outside of the headings, or leads to no page.
    """
    tree: list[Entry] = [{"Home": name_on_site(INDEX, root)}]
    part: list[Entry] | None = None
    section: list[Entry] | None = None
    for number, line in enumerate((root / INDEX).read_text(encoding="utf-8").splitlines(), start=1):
        level, _, title = line.partition(" ")
        if level == "##":
            part = section = []
            tree.append({title: part})
        elif level == "###" and part is not None:
            section = []
            part.append({title: section})
        elif match := ENTRY.match(line):
            if section is None:
                raise NavigationError(f"{INDEX}:{number}: an entry stands above the first heading '##'")
            section.append(entry(match, number, root, more or {}))
        elif part is not None and (row := ROW.match(line)):
            links = [entry(link, number, root, more or {}) for link in CELL_LINK.finditer(row["links"])]
            part.append({row["section"]: links})
    return tree


def entry(link: re.Match[str], number: int, root: Path, more: dict[str, list[Entry]]) -> Entry:
    """Return the entry of a page with those below it.

    Raises:
        NavigationError: the link leads to no page.
    """
    path = target_of(link["link"], INDEX, root)
    if path not in pages(root):
        raise NavigationError(f"{INDEX}:{number}: {link['link']} is no page")
    title = link["title"].replace("`", "")
    name = name_on_site(path, root)
    others = below(path, root) + more.get(path, [])
    return {title: [{title: name}, *others] if others else name}


def below(path: str, root: Path) -> list[Entry]:
    """Return the entries of the pages that belong to one, in the order of their names."""
    found = (
        each
        for each in sorted(pages(root))
        for pattern in BELOW.get(path, ())
        if fnmatch.fnmatchcase(each, pattern) and each.count("/") == pattern.count("/") and each != path
    )
    return [{short_title(each, root): name_on_site(each, root)} for each in found]


def short_title(path: str, root: Path) -> str:
    """Return what the navigation calls a page that is below another."""
    if not path.endswith(".md"):
        words = (
            posixpath.basename(path).removesuffix(".ipynb").lstrip("0123456789-").replace("_", " ").replace("-", " ")
        )
        return (
            words[:1].upper()
            + words[1:]
            + (" (notebook)" if path.endswith(".ipynb") and path.startswith("examples/") else "")
        )
    return title_of(path, root).replace("`", "")


def listed(entries: list[Entry]) -> list[str]:
    """Return the names of all pages of a navigation, in its order."""
    found: list[str] = []
    for each in entries:
        for value in each.values():
            found += listed(value) if isinstance(value, list) else [value]
    return found
