"""The tool that keeps notebooks in one form."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def tool(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_tool", root / "tools/notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUN = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "mine"}, "language_info": {"name": "python", "version": "3.13.1"}},
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {"tags": ["x"]}, "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {},
            "execution_count": 7,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["2\n"]}],
            "source": "x = 'ä'\nprint(x)\n",
        },
    ],
}


def test_what_ran_in_a_notebook_is_left_out(tool: ModuleType) -> None:
    stored = json.loads(tool.normal(json.dumps(RUN)))
    assert stored["metadata"] == tool.METADATA
    assert stored["cells"] == [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": ["x = 'ä'\n", "print(x)"],
        },
    ]
    assert tool.normal(tool.normal(json.dumps(RUN))) == tool.normal(json.dumps(RUN))


def test_notebooks_are_stored_in_the_normal_form(tool: ModuleType, root: Path) -> None:
    found = tool.notebooks(root)
    assert len(found) >= 8
    assert [
        file.name for file in found if file.read_text(encoding="utf-8") != tool.normal(file.read_text("utf-8"))
    ] == []


def test_a_notebook_with_outputs_is_found_and_mended(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    file = tmp_path / "run.ipynb"
    file.write_text(json.dumps(RUN), encoding="utf-8")
    assert tool.main(["--check", str(file)]) == 1
    assert capsys.readouterr().out == "run.ipynb has outputs or settings: python tools/notebooks.py\n"
    assert tool.main([str(file)]) == 0
    assert tool.main(["--check", str(file)]) == 0
    assert file.read_text(encoding="utf-8") == tool.normal(json.dumps(RUN))


@pytest.mark.thorough
def test_pages_have_what_a_kernel_gives(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the dependency group ``notebooks`` is installed."""
    for name in ("ipykernel", "nbclient", "nbconvert"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "beside.txt").write_text("the file beside it", encoding="utf-8")
    for name, source in (("good", "open('beside.txt').read().upper()"), ("bad", "assert 1 > 2")):
        cells = [{**RUN["cells"][1], "source": source}]
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({**RUN, "metadata": {}, "cells": cells}), encoding="utf-8")
    pages = tmp_path / "pages"
    assert tool.main(["--html", str(pages), str(tmp_path / "good.ipynb"), str(tmp_path / "bad.ipynb")]) == 1
    assert "THE FILE BESIDE IT" in (pages / "good.html").read_text(encoding="utf-8")
    assert not (pages / "bad.html").exists()
    assert "bad.ipynb: An error occurred while executing the following cell:" in capsys.readouterr().err
