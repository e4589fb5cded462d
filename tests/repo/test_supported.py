"""The page on what is supported where, the metadata of the wheels, and what continuous integration runs, agree."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.portable import HIDDEN
from tests.repo.test_toolkit import brought

SYSTEMS = {"Linux": "POSIX :: Linux", "macOS": "MacOS", "Windows": "Microsoft :: Windows"}
RUNNERS = {"ubuntu": "Linux", "macos": "macOS", "windows": "Windows"}
CONDA = {"matplotlib": "matplotlib-base", "onednn-cpu-gomp": "onednn"}
"""Distributions that conda-forge calls otherwise."""


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/supported.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def workflow(root: Path) -> str:
    return (root / ".github/workflows/tests.yml").read_text(encoding="utf-8")


def job(workflow: str, name: str) -> str:
    found = re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", workflow, re.MULTILINE)
    assert found is not None, name
    return found[1]


def systems(text: str) -> set[str]:
    """The systems of a job's matrix."""
    found = re.search(r"os: \[(.*)\]", text)
    assert found is not None
    return {RUNNERS[one.split("-")[0]] for one in found[1].split(", ")}


def rows(page: str) -> list[list[str]]:
    """The table of operating systems, without its head."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines][2:]


def test_pythons(
    page: str, workflow: str, core: dict[str, Any], load_tool: Callable[[str], ModuleType], root: Path
) -> None:
    versions = list(load_tool("wheel_metadata").PYTHONS)
    assert f"{', '.join(versions[:-1])} and {versions[-1]}. A release" in page
    prefix = "Programming Language :: Python :: 3."
    said = [one.rpartition(" ")[2] for one in core["project"]["classifiers"] if one.startswith(prefix)]
    assert said == versions
    assert core["project"]["requires-python"] == f">={versions[0]}"
    assert re.findall(r'"(3\.\d+)"', job(workflow, "all")) == versions
    assert re.findall(r'"(3\.\d+)"', job(workflow, "quick")) == [versions[0], versions[-1]]
    for name in ("nightly", "release"):
        text = (root / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
        assert f"uv python install {' '.join(versions)}\n" in text


def test_systems(page: str, workflow: str, core: dict[str, Any]) -> None:
    named = {row[0]: row[2] for row in rows(page)}
    assert set(named) - {"others, musl, 32 bits, PyPy"} == set(SYSTEMS)
    prefix = "Operating System :: "
    said = {one.removeprefix(prefix) for one in core["project"]["classifiers"] if one.startswith(prefix)}
    assert said == set(SYSTEMS.values())
    assert systems(job(workflow, "all")) == {name for name, tests in named.items() if tests == "all"}
    assert systems(job(workflow, "quick")) == {name for name, tests in named.items() if tests == "quick ones"}
    assert systems(job(workflow, "portable")) == set(SYSTEMS)


def test_onednn_is_where_its_wheel_is(page: str, plugins: dict[str, Any]) -> None:
    extras = plugins["engines/cpu"]["project"]["optional-dependencies"]
    (wheel,) = (Requirement(line) for line in extras["onednn"] if line.startswith("onednn"))
    assert wheel.marker is not None
    machines = {
        "Linux": ("linux", "x86_64"),
        "Linux, ARM": ("linux", "aarch64"),
        "macOS": ("darwin", "arm64"),
        "Windows": ("win32", "AMD64"),
    }
    there = [wheel.marker.evaluate({"sys_platform": a, "platform_machine": b}) for a, b in machines.values()]
    assert ["oneDNN" in row[3] for row in rows(page)] == [*there, False]
    assert f"`{wheel.name}` {str(wheel.specifier).removeprefix('==')}" in page


@pytest.mark.parametrize("name", ["nightly", "release", "tests"])
def test_workflows_run_targets_that_there_are(root: Path, name: str) -> None:
    text = (root / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(r"run: make ([a-z]+)", text)
    assert named
    assert set(named) <= targets
    assert "secrets." not in text
    for line in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+@(v\d+|release/v1)", line), line


def test_the_conda_package_needs_what_the_wheels_do(
    root: Path, core: dict[str, Any], wheels: dict[str, dict[str, Any]]
) -> None:
    recipe = (root / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, re.MULTILINE)
    assert run is not None
    named = {canonicalize_name(line.split()[1]) for line in run[1].splitlines()}
    projects = {project["project"]["name"]: project["project"] for project in (core, *wheels.values())}
    others = {name for name in brought(projects, "cntk-toolkit") if not name.startswith("cntk-")}
    needed = {CONDA.get(name, name) for name in others - {"simplejpeg"}}  # without which Pillow decodes
    assert named == {"python", *needed}
    assert f'default="{core["project"]["version"]}"' in recipe
    assert f"homepage: {core['tool']['cntk']['home']}\n" in recipe


def test_the_image_installs_extras_that_there_are(root: Path, wheels: dict[str, dict[str, Any]]) -> None:
    text = (root / "packaging/docker/Dockerfile").read_text(encoding="utf-8")
    extras = set(wheels["meta/toolkit"]["project"]["optional-dependencies"])
    named = {extra for words in re.findall(r"EXTRAS=([a-z0-9,]+)", text) for extra in words.split(",")}
    assert named == {"mpi", "cuda13"}
    assert named <= extras


TRAINING = """\
import sys
import tests.portable

tests.portable.hide()
from cntk_core.api.engines import can_compile
from cntk_engine_cpu.libraries import load_onednn
from cntk_kit_recipes.cli import main

assert not can_compile() and load_onednn() is None
status = main(sys.argv[1:])
assert not {name for name in tests.portable.HIDDEN if sys.modules.get(name)}
sys.exit(status)
"""

RECIPE = """\
command = Train:Test
modelPath = "net.dnn"
reader = [ readerType = CNTKTextFormatReader ; file = "data.ctf" ; randomize = false ; input = [
    x = [ dim = 4 ; format = dense ]
    y = [ dim = 2 ; format = sparse ]
] ]
Train = [
    action = train
    BrainScriptNetworkBuilder = [
        x = Input{4}
        y = Input{2}
        h = DenseLayer{20, activation = Tanh}(RecurrentLSTMLayer{8}(x))
        z = DenseLayer{2}(h)
        ce = CrossEntropyWithSoftmax(y, z)
        errs = ClassificationError(y, z)
        criterionNodes = (ce) ; evaluationNodes = (errs) ; outputNodes = (z)
    ]
    SGD = [ minibatchSize = 32 ; maxEpochs = 8 ; learningRatesPerSample = 0.02 ; gradUpdateType = adam ]
]
Test = [ action = test ]
"""


def test_recipes_are_trained_without_llvm_and_onednn(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recurrent network learns whether the first of four numbers is the largest, with NumPy and SciPy alone."""
    from random import Random

    draw = Random(1)
    lines = []
    for number in range(160):
        for _ in range(3):
            values = [draw.random() for _ in range(4)]
            lines.append(f"{number} |x {' '.join(f'{value:.3f}' for value in values)} |y {int(values[0] > 0.6)}:1\n")
    (tmp_path / "data.ctf").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "net.cntk").write_text(RECIPE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(root))
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, "configFile=net.cntk"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = re.search(r"Final Results: Minibatch\[1-\d+\]: errs = +([\d.]+)%", done.stderr)
    assert said is not None, done.stderr
    assert float(said[1]) < 15


def test_what_is_hidden_is_what_extras_bring(plugins: dict[str, Any]) -> None:
    fast = {
        Requirement(line).name
        for folder in ("engines/cpu", "readers/image", "readers/cntk_text", "parallel/onebit")
        for extra in ("fast", "llvm", "onednn")
        for line in plugins[folder]["project"]["optional-dependencies"].get(extra, ())
    }
    assert fast - {"cntk-engine-cpu", "onednn-cpu-gomp"} <= set(HIDDEN)
