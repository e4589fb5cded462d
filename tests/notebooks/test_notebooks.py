"""The notebooks of the documentation and of the examples: each is run as it stands, and has to say what it asserts."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from cntk_core.plugins.registering import registrations_kept
from tests.notebooks.player import CellError, cells, play

ROOT = Path(__file__).parents[2]
ALWAYS = ("01-first-steps", "resnet_cifar")
"""Notebooks of the default tier; the thorough one runs all."""

NOTEBOOKS = sorted([*(ROOT / "docs/notebooks").glob("*.ipynb"), *(ROOT / "examples").glob("*/*.ipynb")])


def cases():
    for notebook in NOTEBOOKS:
        mark = pytest.mark.slow if notebook.stem in ALWAYS else pytest.mark.thorough
        yield pytest.param(notebook, id=notebook.stem, marks=mark)


@pytest.mark.parametrize("notebook", list(cases()))
def test_what_a_notebook_says_holds(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    folder = tmp_path / notebook.parent.name
    shutil.copytree(notebook.parent, folder, ignore=shutil.ignore_patterns("*.ipynb", "run", "__pycache__"))
    with registrations_kept():
        play(notebook, folder)


def written(tmp_path: Path, *sources: str) -> Path:
    notebook = tmp_path / "small.ipynb"
    made = [{"cell_type": "code", "source": source.splitlines(keepends=True)} for source in sources]
    notebook.write_text(json.dumps({"cells": made}), encoding="utf-8")
    return notebook


def test_a_cell_that_fails_is_named(tmp_path):
    notebook = written(tmp_path, "import math", "half = math.pi / 2\nhalf\nassert half > 2")
    with pytest.raises(CellError, match=r"small\.ipynb, cell 2: AssertionError: \nhalf = math\.pi / 2\n"):
        play(notebook, tmp_path)
    with pytest.raises(CellError, match=r"cell 1: SyntaxError"):
        play(written(tmp_path, "assert ("), tmp_path)


def test_cells_share_names_and_a_folder_and_leave_nothing(tmp_path):
    main = sys.modules["__main__"]
    names = play(
        written(
            tmp_path,
            "%%writefile helper.py\ntwice = lambda x: 2 * x",
            "from helper import twice\nclass Mine: ...",
            "found = twice(21), Mine.__module__",
        ),
        tmp_path,
    )
    assert names["found"][0] == 42
    assert {"helper", names["found"][1]}.isdisjoint(sys.modules)
    assert sys.modules["__main__"] is main


def test_each_notebook_ends_in_what_it_asserts():
    for notebook in NOTEBOOKS:
        code = [source for _, kind, source in cells(notebook) if kind == "code"]
        found = ast.parse(code[-1]).body
        assert found, notebook
        assert all(isinstance(statement, ast.Assert) for statement in found), f"the last cell of {notebook.name}"


def test_each_notebook_explains_itself():
    for notebook in NOTEBOOKS:
        kinds = [kind for _, kind, _ in cells(notebook)]
        assert kinds[0] == "markdown"
        assert kinds.count("markdown") >= kinds.count("code") / 2, notebook.name


def test_links_of_notebooks_lead_somewhere():
    for notebook in NOTEBOOKS:
        for _, kind, source in cells(notebook):
            for link in re.findall(r"\]\(([^)#]+)[^)]*\)", source) if kind == "markdown" else ():
                assert (notebook.parent / link).exists(), f"{notebook.name}: {link}"
