"""Which tests a change concerns, in a small workspace and in this one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILES = {
    "pyproject.toml": "",
    "core/__init__.py": "",
    "core/api.py": 'from core.plan.order import sort\nfrom core.plan.loops import find\n__all__ = ["sort", "find"]\n',
    "core/plan/__init__.py": "",
    "core/plan/order.py": "def sort(): ...\ndef hidden(): ...\n",
    "core/plan/loops.py": "from core.plan.order import sort\ndef find(): ...\n",
    "core/errors.py": "",
    "tests/plan/test_order.py": "from core.plan.order import hidden\n",
    "tests/plan/test_loops.py": "from core.plan.loops import find\n",
    "tests/plan/helper.py": "",
    "tests/golden/test_golden.py": "",
    "tests/repo/test_docs.py": "",
    "tests/other/test_sorting.py": "from core.api import sort\n",
    "tests/other/test_finding.py": "from core.api import find\n",
    "tests/other/test_page.py": 'PAGE = "docs/sorting.md"\n',
    "docs/sorting.md": "",
    "plugins/readers/a/pyproject.toml": "",
    "plugins/readers/a/src/reader_a/__init__.py": "from core.api import sort\n",
    "plugins/readers/a/tests/test_a.py": "",
    "plugins/readers/a/tests/data.py": "",
    "plugins/readers/b/pyproject.toml": "",
    "plugins/tools/look/pyproject.toml": (
        '[project.entry-points."cntk.verbs"]\nlook-at = "look:Look"\n'
        '[project.entry-points."cntk.actions"]\nglance = "look:Glance"\n'
    ),
    "plugins/tools/look/src/look/__init__.py": "",
    "plugins/tools/look/tests/test_look.py": "",
    "tests/other/test_verbs.py": "main(['look-at', 'r.cntk'])\n",
    "tests/other/test_actions.py": "RECIPE = 'T = [ action = glance ]'\n",
    "tests/other/test_words.py": "# look-at it and glance\n",
    "plugins/readers/b/src/reader_b/__init__.py": "from core.api import (\n    find,\n)\n",
    "plugins/readers/b/src/reader_b/parts/__init__.py": "",
    "plugins/readers/b/src/reader_b/parts/lines.py": "",
    "plugins/readers/b/tests/test_b.py": "",
    "kits/lines/pyproject.toml": "",
    "kits/lines/src/kit_lines/__init__.py": "",
    "kits/lines/src/kit_lines/split.py": "",
    "kits/lines/src/kit_lines/unseen.py": "",
    "kits/loops/pyproject.toml": "",
    "kits/loops/src/kit_loops/__init__.py": "",
    "kits/loops/src/kit_loops/turns/__init__.py": "",
    "kits/loops/src/kit_loops/turns/left.py": "def left(): ...\n",
    "kits/loops/src/kit_loops/turns/unseen.py": "",
    "kits/loops/src/kit_loops/words/__init__.py": "",
    "kits/loops/tests/words/test_words.py": "",
    "tests/turning/helper.py": "from kit_loops.turns.left import left\n",
    "tests/turning/test_turning.py": "",
    "tests/other/test_lines.py": "from kit_lines.split import lines\n",
}


@pytest.fixture(scope="module")
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("concerned")


@pytest.fixture
def small(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for folder in (tmp_path, *tmp_path.glob("**/src")):
        monkeypatch.syspath_prepend(str(folder))
    return tool.Workspace(tmp_path)


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (
            "core/plan/order.py",
            ["plugins/readers/a/tests", "tests/golden", "tests/other/test_sorting.py", "tests/plan"],
        ),
        (
            "core/plan/loops.py",
            ["plugins/readers/b/tests", "tests/golden", "tests/other/test_finding.py", "tests/plan"],
        ),
        ("core/errors.py", ["tests/golden"]),
        (
            "plugins/tools/look/src/look/__init__.py",
            ["plugins/tools/look/tests", "tests/golden", "tests/other/test_actions.py", "tests/other/test_verbs.py"],
        ),
        ("kits/lines/src/kit_lines/unseen.py", ["tests/golden", "tests/other/test_lines.py"]),
        ("kits/loops/src/kit_loops/turns/unseen.py", ["kits/loops/tests", "tests/golden", "tests/turning"]),
        ("kits/loops/src/kit_loops/words/__init__.py", ["kits/loops/tests", "tests/golden"]),
        ("plugins/readers/b/src/reader_b/parts/lines.py", ["plugins/readers/b/tests", "tests/golden"]),
        ("plugins/readers/a/tests/data.py", ["plugins/readers/a/tests"]),
        ("tests/plan/test_loops.py", ["tests/plan/test_loops.py"]),
        ("tests/plan/helper.py", ["tests/plan"]),
        ("docs/sorting.md", ["tests/other/test_page.py", "tests/repo"]),
        ("tests/plan/test_gone.py", ["tests/plan"]),
    ],
)
def test_what_a_change_concerns(small: Any, changed: str, tests: list[str]) -> None:
    assert small.concerned([changed]) == tests


def test_wheels_and_modules(small: Any) -> None:
    assert small.packages == {
        "core": Path(),
        "kit_lines": Path("kits/lines"),
        "kit_loops": Path("kits/loops"),
        "look": Path("plugins/tools/look"),
        "reader_a": Path("plugins/readers/a"),
        "reader_b": Path("plugins/readers/b"),
    }
    assert small.modules["core/__init__.py"] == "core"
    assert small.modules["plugins/readers/b/src/reader_b/parts/lines.py"] == "reader_b.parts.lines"
    assert "tests/plan/helper.py" not in small.modules


def test_every_module_of_this_workspace_is_known(tool: ModuleType) -> None:
    workspace = tool.Workspace()
    assert {module.partition(".")[0] for module in workspace.modules.values()} == set(workspace.packages)
    assert "cntk_core" in workspace.packages
    assert set(workspace.graph.modules) >= set(workspace.modules.values())
