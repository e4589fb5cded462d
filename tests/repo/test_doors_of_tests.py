"""Tests of wheels go in by the doors, as tests of wheels elsewhere have to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("plugins/*/*/tests/**/*.py"))
DOORS = re.compile(r"cntk_core(\.api(\.\w+)?)?|cntk_kit_recipes\.cli")
"""The doors, and the command line, which tests call as a user does."""


def imported(text: str) -> list[tuple[int, str]]:
    """The modules of the core and of the front end of recipes that a file imports, and the lines."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found += [(node.lineno, name) for name in names if name.partition(".")[0] in ("cntk_core", "cntk_kit_recipes")]
    return found


def behind_the_doors(text: str) -> list[tuple[int, str]]:
    """Those of them that are rooms behind the doors."""
    return [(line, name) for line, name in imported(text) if not DOORS.fullmatch(name)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from cntk_core.api import Op\nimport cntk_core\nfrom cntk_core.api.readers import Chunk", []),
        ("from cntk_kit_recipes.cli import main", []),
        ("def test():\n    from cntk_core.plan.plan import Plan", [(2, "cntk_core.plan.plan")]),
        ("from cntk_kit_recipes.recipe.log import Log", [(1, "cntk_kit_recipes.recipe.log")]),
        ("import cntk_kit_recipes.session.run", [(1, "cntk_kit_recipes.session.run")]),
    ],
)
def test_what_is_found(text: str, found: list[tuple[int, str]]) -> None:
    assert behind_the_doors(text) == found


def test_tests_of_plugins_use_doors() -> None:
    assert len(FILES) > 150
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in FILES
        for line, name in behind_the_doors(file.read_text(encoding="utf-8"))
    ]
    assert not wrong, "a door (cntk_core.api...) or cntk_testing.inside has it:\n" + "\n".join(wrong)
