"""What all wheels of the workspace say alike: licence, keywords, classifiers, addresses. ``tools/wheels.py`` writes it.

It stands in the table ``[project]`` of each wheel between the comments ``<wheels:about>`` and ``</wheels:about>``. What
differs, a wheel says in its table ``[tool.cntk]``: ``keywords`` and ``classifiers`` of its own. The address of the
project is ``home`` there in the root ``pyproject.toml``, and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

ABOUT = "about"

STATUS = "Development Status :: 3 - Alpha"
PYTHONS = ("3.11", "3.12", "3.13")
"""The versions of Python with which a release is tried."""

CLASSIFIERS = (
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: MacOS",
    "Operating System :: Microsoft :: Windows",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3 :: Only",
    *(f"Programming Language :: Python :: {version}" for version in PYTHONS),
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
)
KEYWORDS = ("cntk", "computational network", "deep learning", "neural network")

PAGES = {
    "Homepage": "",
    "Documentation": "/blob/main/docs/index.md",
    "Source": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
}
"""What an index shows beside a wheel, below the address of the project."""

_OLD = re.compile(r"^(?:classifiers|keywords|license-files) = \[(?:[^\]\n]*|\n(?:    .*\n)*)\]\n", re.MULTILINE)
_TABLE = re.compile(r"^\[", re.MULTILINE)
_AFTER = re.compile(r"^requires-python = .*\n", re.MULTILINE)


def about(home: str, keywords: Sequence[str] = (), classifiers: Sequence[str] = ()) -> Iterator[str]:
    """The lines of one wheel.

    Args:
        home: the address of the project.
        keywords: its own, beside those of all.
        classifiers: its own, beside those of all.
    """
    yield 'license-files = ["LICENSE"]'
    yield from _array("keywords", [*KEYWORDS, *keywords])
    yield from _array("classifiers", [STATUS, *sorted({*CLASSIFIERS, *classifiers})])
    yield from (f"urls.{name} = {json.dumps(home + page)}" for name, page in PAGES.items())


def _array(key: str, values: Sequence[str]) -> Iterator[str]:
    yield f"{key} = ["
    yield from (f"    {json.dumps(value)}," for value in values)
    yield "]"


def with_place(text: str) -> str:
    """The text of a ``pyproject.toml`` with a place for the lines, in which new wheels have what they say by hand."""
    if f"# <wheels:{ABOUT}>" in text:
        return text
    before, table, after = text.partition("[project]\n")
    end = found.start() if (found := _TABLE.search(after)) else len(after)
    own = _AFTER.sub(rf"\g<0># <wheels:{ABOUT}>\n# </wheels:{ABOUT}>\n", _OLD.sub("", after[:end]), count=1)
    return f"{before}{table}{own}{after[end:]}"
