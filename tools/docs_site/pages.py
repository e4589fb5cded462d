"""Which files of the repository are pages of the site, what their addresses are, and where their links lead there."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from check_docs import FENCE, OTHER_SITE, files_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs"

OF_THE_ROOT = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages of the root and their names on the site, where a ``README.md`` would be a second ``index.md``."""

READMES = ("kits/*", "meta/*", "plugins/*/*", "testing/*", "examples", "examples/*", "changes")
"""Where pages lie besides: the README of each wheel and of each example."""

CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
LINK = re.compile(r"(!?\[(?:[^\]`]|`[^`]*`)*\]\(\s*<?)([^)\s>]+)(>?(?:\s+\"[^\"]*\")?\s*\))")
TABLE_ROW = re.compile(r"[ ]*\|")


@cache
def pages(root: Path = ROOT) -> dict[str, str]:
    """Return what the site has pages of: their paths in the repository, and their names on the site.

    These are Markdown files, notebooks, and folders of examples that have no README.
    """
    found = {path.relative_to(root).as_posix() for path in files_of(root / DOCS, ".md")}
    named = {path: path.removeprefix(f"{DOCS}/") for path in sorted(found)}
    named |= {path: name for path, name in OF_THE_ROOT.items() if (root / path).is_file()}
    readmes = (path.relative_to(root).as_posix() for folder in READMES for path in root.glob(f"{folder}/README.md"))
    named |= {path: path for path in sorted(readmes)}
    named |= {notebook: notebook.removeprefix(f"{DOCS}/") + ".md" for notebook in notebooks(root)}
    bare = (path.relative_to(root).as_posix() for path in root.glob("examples/*/") if not (path / "README.md").exists())
    return named | {folder: f"{folder}/index.md" for folder in sorted(bare)}


def notebooks(root: Path = ROOT) -> list[str]:
    """Return the paths of the notebooks in the repository."""
    found = [*(root / DOCS / "notebooks").glob("*.ipynb"), *(root / "examples").glob("*/*.ipynb")]
    return sorted(path.relative_to(root).as_posix() for path in found)


def target_of(link: str, page: str, root: Path = ROOT) -> str | None:
    """Return the path in the repository that a relative link of a page leads to; None for other sites and fragments.

    A folder is its README, as code hosts show it.
    """
    path = link.partition("#")[0]
    if not path or OTHER_SITE.match(link):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    if (root / target).is_dir() and (root / target / "README.md").is_file():
        target = posixpath.join(target, "README.md")
    return target


def name_on_site(path: str, root: Path = ROOT) -> str:
    """Return the name on the site of a file of the repository, page or not."""
    return pages(root).get(path, path.removeprefix(f"{DOCS}/"))


def for_site(text: str, page: str, root: Path = ROOT) -> tuple[str, set[str]]:
    """Return the Markdown of a page as the site has it, and the files that it leads to and that are no pages.

    Links lead to the names on the site. In rows of tables an escaped bar within code is a bar, as code hosts read it.

    Args:
        text: Markdown as code hosts read it.
        page: its path in the repository.
        root: the repository.
    """
    here = posixpath.dirname(name_on_site(page, root))
    files: set[str] = set()

    def lead(match: re.Match[str]) -> str:
        target = target_of(match[2], page, root)
        if target is None:
            return match[0]
        if target not in pages(root):
            files.add(target)
        fragment = match[2].partition("#")[1:]
        to = posixpath.relpath(name_on_site(target, root), here or ".")
        return f"{match[1]}{to}{''.join(fragment)}{match[3]}"

    told = [
        outside_code(lead, "\n".join(lines)) if prose else "\n".join(lines)
        for prose, group in groupby(parts(text), key=itemgetter(0))
        for lines in [[line for _, line in group]]
    ]
    return "\n".join(told) + "\n", files


def parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the lines of a Markdown text, and whether each is outside of fenced blocks.

    Where lines are indented, in lists, they are so twice as far, which is what Python-Markdown asks for; fenced blocks
    are moved as a whole.
    """
    fence, shift = "", ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if not fence:
            shift = line[: len(line) - len(line.lstrip(" "))]
        if mark and fence in ("", mark[1]):
            ends = bool(fence)
            fence = "" if fence else mark[1]
            yield False, shift + line
            if ends and shift:
                yield True, ""  # the next entry of the list is none otherwise
        else:
            yield not fence, shift + line if line else line


def outside_code(lead: Callable[[re.Match[str]], str], text: str) -> str:
    """Return lines with their links led elsewhere; what looks like a link within code stays."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        in_table = TABLE_ROW.match(text, text.rfind("\n", 0, match.start()) + 1) is not None
        kept.append(match[0].replace("\\|", "|") if in_table else match[0])
        return f"\0{len(kept) - 1}\0"

    hidden = CODE_SPAN.sub(keep, text)
    return re.sub("\0(\\d+)\0", lambda match: kept[int(match[1])], LINK.sub(lead, hidden))


def title_of(path: str, root: Path = ROOT) -> str:
    """Return the first heading of a page of the repository."""
    for line in (root / path).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return os.path.basename(path)
