"""Write the reference of ``import cntk``: ``python tools/cntk_names_page.py``.

Names are those that CNTK 2.7 has (``data/names.txt`` beside the tests of the wheel) as far as the package has them;
what they take and do come from the package: signatures and the first lines of docstrings. ``cntk`` and the modules that
only pass names on are left out. The page is written whole, but for its introduction, above the mark.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cntk-python-names.md"
NAMES = ROOT / "plugins/frontends/cntk/tests/data/names.txt"
MARK = "<!-- generated -->"


def names() -> dict[str, list[str]]:
    """Return the names of the original's functions and classes, by the module in which they are."""
    found: dict[str, list[str]] = {}
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        path, taken, _ = line.partition("(")
        module, _, name = path.rpartition(".")
        if taken:
            found.setdefault(module, []).append(name)
    return found


def taken(given: Any) -> str:
    """Return what something takes: its arguments, and defaults that are numbers, texts, None or truth values."""
    told = []
    several = list(inspect.signature(given.__init__ if inspect.isclass(given) else given).parameters.values())
    for each in several[1:] if inspect.isclass(given) else several:
        star = "*" if each.kind == each.VAR_POSITIONAL else "**" if each.kind == each.VAR_KEYWORD else ""
        plain = each.default is None or isinstance(each.default, bool | int | float | str)
        default = "" if each.default is each.empty else f"={each.default!r}" if plain else "=..."
        told.append(f"{star}{each.name}{default}")
    return ", ".join(told)


def line_of(given: Any) -> str:
    """Return the first sentence of a docstring."""
    text = " ".join((inspect.getdoc(given) or "").split("\n\n")[0].split())
    return text.split(". ")[0].rstrip(".").replace("|", "\\|")


def tables() -> Iterator[str]:
    """Yield the lines of all modules."""
    for module, several in sorted(names().items()):
        home = importlib.import_module(module)
        rows = [(name, getattr(home, name)) for name in sorted(several, key=str.lower) if hasattr(home, name)]
        if not rows:
            continue
        yield f"\n## `{module}`\n"
        yield f"{line_of(home)}.\n"
        yield "| | |\n| --- | --- |"
        for name, given in rows:
            yield f"| `{name}({taken(given)})` | {line_of(given)} |"


def page(current: str) -> str:
    """Return the page as it should be, with the introduction that it has."""
    return current.split(MARK, maxsplit=1)[0] + MARK + "\n" + "\n".join(tables()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
