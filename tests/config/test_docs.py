"""The examples of docs/config-language.md."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_examples() -> None:
    page = Path(__file__).parents[2] / "docs" / "config-language.md"
    # Annotations of example classes are resolved in the module that the globals name.
    result = doctest.testfile(str(page), module_relative=False, globs={"__name__": "builtins"})
    assert result.attempted > 8
    assert result.failed == 0
