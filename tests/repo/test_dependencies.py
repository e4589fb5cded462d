"""Each wheel declares what its sources import, and nothing else. What its tests need is another matter."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DISTRIBUTIONS = {
    "IPython": {"ipython"},
    "PIL": {"pillow"},
    "_cffi_backend": {"cffi"},
    "cuda": {"cuda-pathfinder", "nvidia-cudnn-frontend"},
    "google": {"protobuf"},
    "cudnn": {"nvidia-cudnn-frontend"},
    "cupy": {"cupy-cuda12x", "cupy-cuda13x"},
    "sklearn": {"scikit-learn"},
}
"""Modules whose distribution is called otherwise, and the distributions of which one brings them."""

KITS = {f"cntk_kit_{kind}" for kind in ("builders", "engines", "parallel", "readers", "recipes")}

BROUGHT_BY_OTHERS = {
    "cntk_core": KITS,  # each by its door alone
    "cntk_fit": {"IPython"},  # imported where a notebook runs, which has it
    "cntk_tool_curves": {"IPython"},  # the same
    "cntk_hook_mlflow": {"mlflow"},  # who wants the hook has it; it brings some seventy distributions
    "cntk_kit_engines": {"llvmlite", "numba"},  # where a plugin calls it that compiles
    "cntk_engine_cuda": {"cuda"},  # with CuPy's extra `ctk`, and imported only where it is
}
"""Modules that a wheel imports only where something else has brought them."""

NEVER_IMPORTED = {
    # What its recipe names, and what it tells to try next.
    "cntk_tool_demo": {
        "cntk-builder-ndl",
        "cntk-builder-simple",
        "cntk-engine-cpu",
        "cntk-learner-sgd",
        "cntk-reader-cntk-text",
        "cntk-tool-inspect",
    },
    # What programs of CNTK 2 name: learners, text files, and an engine that is there everywhere.
    "cntk": {
        "cntk-engine-cpu",
        "cntk-learner-adagrad",
        "cntk-learner-adam",
        "cntk-learner-rmsprop",
        "cntk-reader-cntk-text",
    },
    # What an estimator asks for by name: learners, and an engine that is there everywhere.
    "cntk_fit": {"cntk-engine-cpu", "cntk-learner-adam", "cntk-learner-sgd"},
    # What connects the ranks, which they name.
    "cntk_launcher_ray": {"cntk-parallel-sockets"},
    "cntk_launcher_slurm": {"cntk-parallel-sockets"},
    "cntk_launcher_torchrun": {"cntk-parallel-sockets"},
    "cntk_hook_tensorboard": {"protobuf"},  # tensorboardX would take an older one, which warns on Python 3.12
}
"""Dependencies that a wheel has without importing them."""

Project = tuple[Path, dict[str, Any]]


def spelt(requirement: str) -> str:
    """The distribution that a requirement is about, in the form in which all spellings are one."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def last_name(node: ast.expr) -> str | None:
    """``b`` of ``b`` and of ``a.b``."""
    return getattr(node, "attr", None) or getattr(node, "id", None)


def imports(text: str) -> Iterator[str]:
    """Top-level modules that run-time code imports, by a statement or by ``import_module`` with a literal name."""
    inside: list[ast.AST] = [ast.parse(text)]
    calls = "import_module" in text  # without it no expression has to be looked at, and most nodes are
    while inside:
        node = inside.pop()
        if isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING":
            continue
        # Last in, first out: from the first to the last line.
        inside.extend(
            reversed([child for child in ast.iter_child_nodes(node) if calls or not isinstance(child, ast.expr)])
        )
        names: list[str | None] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        elif isinstance(node, ast.Call) and last_name(node.func) == "import_module":
            names = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        yield from (name.partition(".")[0] for name in names if name)
        # Whoever goes through the door of a kit needs the kit.
        yield from (kit for name in names if name and (kit := name.replace("cntk_core.api.", "cntk_kit_")) in KITS)


def wheel_target(project: dict[str, Any]) -> dict[str, Any]:
    target: dict[str, Any] = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    return target


def package_of(folder: Path, project: dict[str, Any]) -> Path:
    name: str = wheel_target(project)["packages"][0]
    return folder / name


@cache
def imported(package: Path) -> set[str]:
    """Modules of other distributions that the sources of a wheel import."""
    sources = sorted(package.rglob("*.py"))
    assert sources, package
    found = {name for file in sources for name in imports(file.read_text(encoding="utf-8"))}
    return found - sys.stdlib_module_names - {package.name}


def distributions(module: str) -> set[str]:
    return DISTRIBUTIONS.get(module, {spelt(module)})


@pytest.fixture(scope="module")
def projects(root: Path, core: dict[str, Any], wheels: dict[str, dict[str, Any]]) -> list[Project]:
    named = [(root, core), *((root / folder, project) for folder, project in wheels.items())]
    return [(folder, project) for folder, project in named if "packages" in wheel_target(project)]


def test_wheels_declare_what_they_import(projects: list[Project]) -> None:
    undeclared = []
    for folder, project in projects:
        extras = project["project"].get("optional-dependencies", {}).values()
        lists = [project["project"].get("dependencies", []), *extras]
        declared = {spelt(requirement) for requirements in lists for requirement in requirements}
        name = package_of(folder, project).name
        undeclared += [
            f"{name}: {module}"
            for module in sorted(imported(package_of(folder, project)) - BROUGHT_BY_OTHERS.get(name, set()))
            if not distributions(module) & declared
        ]
    assert undeclared == []


def test_wheels_import_what_they_declare(projects: list[Project]) -> None:
    unused = []
    for folder, project in projects:
        used = {name for module in imported(package_of(folder, project)) for name in distributions(module)}
        name = package_of(folder, project).name
        declared = {spelt(requirement) for requirement in project["project"].get("dependencies", [])}
        unused += [f"{name}: {need}" for need in sorted(declared - used - NEVER_IMPORTED.get(name, set()))]
    assert unused == []


def test_the_exceptions_are_needed(projects: list[Project]) -> None:
    modules = {package_of(folder, project).name: imported(package_of(folder, project)) for folder, project in projects}
    declared = {
        package_of(folder, project).name: {spelt(need) for need in project["project"].get("dependencies", [])}
        for folder, project in projects
    }
    assert [name for name, brought in BROUGHT_BY_OTHERS.items() if not brought <= modules[name]] == []
    assert [name for name, needs in NEVER_IMPORTED.items() if not needs <= declared[name]] == []
    assert set(DISTRIBUTIONS) <= set().union(*modules.values())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import a.b, c as d", ["a", "c"]),
        ("from a.b import c\nfrom . import d\nfrom .e import f", ["a"]),
        ("def f():\n    if x:\n        import a", ["a"]),
        ("if TYPE_CHECKING:\n    import a\nimport b", ["b"]),
        ("from cntk_core.api.readers import Chunk", ["cntk_core", "cntk_kit_readers"]),
        ("importlib.import_module('a.b')\nimport_module(name)", ["a"]),
    ],
)
def test_what_counts_as_an_import(source: str, found: list[str]) -> None:
    assert list(imports(source)) == found
