"""Every page of the documentation, followed from top to bottom: ``runner`` tells how."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.conftest import ROOT
from tests.docs.data import DATA
from tests.docs.runner import Page

PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md")))]
FOLDERS = ("kits/*", "plugins/*/*", "testing/*", "tests/downstream/*")  # a search of everything would walk .venv, too
WHEELS = (path.parent.relative_to(ROOT) for folder in FOLDERS for path in ROOT.glob(f"{folder}/pyproject.toml"))
PAGES += sorted(str(folder / "README.md") for folder in WHEELS)
PAGES += ["plugins/tools/demo/src/cntk_tool_demo/README.md"]  # what the demo leaves beside its recipe
SLOW = {
    "README.md",
    "docs/attention.md",
    "docs/parallel.md",
    "docs/plugin-tutorial.md",
    "docs/plugins.md",
    "docs/python-ops.md",
    "docs/scaling.md",
    "docs/three-spellings.md",
    "docs/writing-a-plugin.md",
    "plugins/tools/demo/src/cntk_tool_demo/README.md",
    "plugins/parallel/asgd/README.md",
    "plugins/parallel/bmuf/README.md",
    "plugins/parallel/data_parallel/README.md",
    "plugins/parallel/mpi/README.md",
    "plugins/parallel/onebit/README.md",
    "plugins/parallel/simulated/README.md",
    "plugins/parallel/sockets/README.md",
}
"""Pages that take more than about two seconds."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in PAGES])
def test_page(name: str, folder: Path, thorough: bool) -> None:
    if name in DATA:
        DATA[name](folder)
    Page(ROOT / name, ROOT, folder, thorough=thorough).follow()
