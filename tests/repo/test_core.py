"""The core stays small: its lines, what its door loads, what its wheel holds, whom it knows by name."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

MOST_LINES = 20_000
"""Lines of Python in ``cntk_core`` besides ``ops/families``."""

MOST_MODULES = 60
"""Modules of the core that ``import cntk_core.api`` may load."""

WORDS = ("default", "full", "none", "normal", "simple", "quantized")
"""Names of plugins that are words of recipes with other meanings as well."""

ALLOWED: dict[str, set[str]] = {
    # A device (deviceId=cpu), no engine.
    "cntk_core/plugins/manager.py": {"cpu"},
    "kits/recipes/src/cntk_kit_recipes/recipe/context.py": {"cpu", "Composite", "SideBySide"},
    # How the original calls it in its log.
    "kits/recipes/src/cntk_kit_recipes/session/trained_nodes.py": {"cpu", "CPU"},
    # The learners that CNTK's recipes mean where they name none, or by a number.
    "kits/recipes/src/cntk_kit_recipes/block/sgd_block.py": {"sgd", "adagrad"},
    # What --data-parallel is short for.
    "kits/recipes/src/cntk_kit_recipes/block/data_parallel.py": {"DataParallelSGD"},
    # What authors of plugins need, and what is said to people without an engine.
    "kits/recipes/src/cntk_kit_recipes/authoring/check.py": {"cntk_testing"},
    "kits/recipes/src/cntk_kit_recipes/authoring/scaffold.py": {"cntk-testing"},
    "kits/recipes/src/cntk_kit_recipes/authoring/doctor.py": {"cntk-engine-cpu"},
}
"""Where core and kits may say the name of a plugin or of a wheel, and why."""

COMPONENTS = ("engines", "builders", "readers", "writers", "learners", "parallelizers", "aggregations", "communicators")
WHEEL = re.compile(
    r"cntk[-_](?:action|builder|engine|hook|launcher|learner|model|parallel|reader|testing|tool(?!kit))[-_\w]*"
)


def modules(root: Path) -> Iterator[Path]:
    yield from sorted((root / "cntk_core").rglob("*.py"))


def test_lines(root: Path) -> None:
    families = root / "cntk_core/ops/families"
    counted = [file for file in modules(root) if not file.is_relative_to(families)]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in counted)
    assert lines <= MOST_LINES


def test_modules_that_the_door_loads() -> None:
    code = "import sys, cntk_core.api; print(*sorted(m for m in sys.modules if m.split('.')[0] == 'cntk_core'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert "cntk_core.contract.reader" in loaded
    assert len(loaded) <= MOST_MODULES, loaded


def test_the_door_loads_nothing_heavy() -> None:
    code = "import sys, cntk_core.api; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"scipy", "rich", "matplotlib", "numba", "jax", "pytest", "hypothesis", "mpi4py", "cupy", "torch"}
    assert not heavy & set(done.stdout.split())


def test_the_wheel_has_no_tests(root: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    files = [Path(file.path) for file in WheelBuilder(str(root)).recurse_included_files()]
    inside = [file.relative_to(root) for file in files if file.is_relative_to(root)]
    assert Path("cntk_core/api/__init__.py") in inside
    assert {file.parts[0] for file in inside} == {"cntk_core"}
    python = [file for file in inside if file.suffix == ".py"]
    named = [file for file in python if {"tests", "testing"} & set(file.parts) or file.name.startswith("test_")]
    assert named == []
    for file in python:
        imported = set(imports_of(root / file))
        assert not imported & {"pytest", "hypothesis", "cntk_testing", "cntk_testing_gpu", "unittest"}, file


def imports_of(file: Path) -> Iterator[str]:
    """The packages that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


@pytest.fixture(scope="module")
def names(root: Path) -> set[str]:
    """What wheels of ours offer a recipe, in lower case."""
    rows = json.loads((root / "cntk_core/plugins/known.json").read_text(encoding="utf-8"))
    offers = [row["offers"] for row in rows]
    found = {name.casefold() for groups in offers for kind in COMPONENTS for name in groups.get(f"cntk.{kind}", ())}
    assert {"sgd", "cntktextformatreader", "cuda"} <= found
    return found - set(WORDS)


def test_core_and_kits_know_no_plugin_by_name(root: Path, names: set[str]) -> None:
    told: dict[str, set[str]] = {}
    for file in (*modules(root), *sorted(root.glob("kits/*/src/**/*.py"))):
        texts = strings_of(file)
        said = {text for text in texts if text.casefold() in names and text != "SGD"}  # it is a section
        said |= {wheel for text in texts for wheel in WHEEL.findall(text)}
        room = file.relative_to(root).as_posix()
        if more := said - ALLOWED.get(room, set()):
            told[room] = more
    assert told == {}


@cache
def strings_of(file: Path) -> tuple[str, ...]:
    """The texts of a module that are no documentation; each module is read once."""
    nodes = list(ast.walk(ast.parse(file.read_bytes())))
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return tuple(str(node.value) for node in texts if id(node) not in documentation)


def test_no_room_names_a_module_of_a_higher_one(root: Path) -> None:
    """An import by name (``import_module``) is an arrow that the import rules do not see."""
    rules = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule["id"] == "layers")
    height = {name: -at for at, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    upward = {}
    for file in modules(root):
        room = file.relative_to(root / "cntk_core").parts[0].removesuffix(".py")
        named = [re.match(r"(cntk_core|cntk_kit_\w+)(?:\.(\w+))?(?=[.:]|$)", text) for text in strings_of(file)]
        found = {
            match[0]
            for match in named
            if match is not None and (match[1] != "cntk_core" or height.get(match[2] or "", -99) > height.get(room, 0))
        }
        if found and room not in ("api", "__init__"):
            upward[file.relative_to(root).as_posix()] = found
    assert upward == {}
