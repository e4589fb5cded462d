"""Check the links of every Markdown file, and what code says of pages: ``python tools/check_docs.py [ROOT]``.

A relative link must lead to a file of the repository, and its ``#fragment`` to a heading of that file. So must
``docs/index.md`` with a ``#fragment`` (and further ones, `` and #other``) in Python files that are no tests. Links to
other sites are left alone, so that the check needs no network. Exit status 1 and one line for each problem.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

SKIPPED_FOLDERS = {"build", "demo", "dist", "node_modules"}
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
FENCE = re.compile(r"\s*(```|~~~)")
INLINE_CODE = re.compile(r"`[^`]*`")
REFERENCE = re.compile(r"\b(docs/[\w/-]+\.md)((?:#[\w-]+)?(?: and #[\w-]+)*)")
OTHER_SITE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def files_of(root: Path, suffix: str) -> Iterator[Path]:
    """Every file under ``root`` whose name ends so, without hidden folders and build results."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        yield from (Path(folder, file) for file in sorted(files) if file.endswith(suffix))


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a Markdown text that are not in a fenced block."""
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        mark = FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            yield number, line


@cache
def anchors(page: Path) -> set[str]:
    """The fragments that lead to the headings of a page, formed as code hosts form them."""
    found: set[str] = set()
    for _, line in prose_lines(page.read_text(encoding="utf-8")):
        heading = HEADING.match(line)
        if heading:
            slug = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            if slug in found:
                slug += f"-{sum(1 for other in found if re.fullmatch(re.escape(slug) + r'(-[0-9]+)?', other))}"
            found.add(slug)
    return found


def problem_of(link: str, page: Path, root: Path) -> str | None:
    """What is wrong with a link of a page, or None."""
    if OTHER_SITE.match(link):
        return None
    path, _, fragment = unquote(link).partition("#")
    if path.startswith("/"):
        return f"link to {link} is absolute"
    target = Path(os.path.normpath(page.parent / path)) if path else page
    if not target.is_relative_to(root):
        return f"link to {link} leaves the repository"
    if not target.exists():
        return f"link to {link} leads nowhere"
    if fragment and target.suffix == ".md" and fragment not in anchors(target):
        return f"link to {link}: {target.name} has no such heading"
    return None


def problems_of_code(file: Path, root: Path) -> Iterator[str]:
    """One line for each page or section that a Python file names and that is not there."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        for name, fragments in REFERENCE.findall(line) if "docs/" in line else ():
            page = root / name
            if not page.exists():
                yield f"{file.relative_to(root)}:{number}: {name} is not there"
                continue
            known = anchors(page)
            for fragment in re.findall(r"#([\w-]+)", fragments):
                if fragment not in known:
                    yield f"{file.relative_to(root)}:{number}: {name} has no heading #{fragment}"


def problems(root: Path) -> Iterator[str]:
    """One line for each link and reference under ``root`` that does not lead where it should."""
    for file in files_of(root, ".py"):
        if not file.name.startswith("test_"):
            yield from problems_of_code(file, root)
    for page in files_of(root, ".md"):
        for number, line in prose_lines(page.read_text(encoding="utf-8")):
            for link in LINK.findall(INLINE_CODE.sub("", line)):
                problem = problem_of(link, page, root)
                if problem:
                    yield f"{page.relative_to(root)}:{number}: {problem}"


def main() -> int:
    """Check the folder given on the command line, by default the repository."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    found = list(problems(root))
    pages = sum(1 for _ in files_of(root, ".md"))
    print("\n".join(found) if found else f"{pages} Markdown files, all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
