"""The files of a release, installed: each wheel alone, all together, and the contract tests of each of them."""

from __future__ import annotations

import shutil
import tarfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from wheel_projects import Wheel

from releasing.fresh import Environment
from releasing.staging import ReleaseError

LOADS = """\
import importlib, sys
from importlib.metadata import distribution
name, package = sys.argv[1:]
if package:
    importlib.import_module(package)
broken = []
for point in distribution(name).entry_points:
    if point.group.startswith("cntk."):
        try:
            point.load()
        except Exception as error:
            broken.append(f"{point.group} {point.name}: {error!r}")
sys.exit("\\n".join(broken) or 0)
"""
"""Imports a wheel's package, and loads all that it offers to recipes."""

START = """\
import numpy as np
from cntk_builder_python import Dense, Graph, Sequential, cross_entropy_with_softmax, tanh
from cntk_fit import Estimator
x = np.random.default_rng(1).normal(size=(600, 2))
same = (x[:, 0] * x[:, 1] > 0).astype(int)
graph = Graph()
scores = Sequential(Dense(32, tanh), Dense(2))(graph.input("x", 2))
graph.criterion(cross_entropy_with_softmax(scores, graph.label("y", 2)), "loss")
graph.output(scores, "scores")
model = Estimator(graph.finish(), learner="adam", rate=0.02)
model.fit(x[:500], same[:500], epochs=20)
assert (model.classify(x[500:]) == same[500:]).mean() > 0.9
"""
"""The first program of README.md."""


def try_alone(wheels: Sequence[Wheel], python: str, links: Path, work: Path) -> list[str]:
    """Install each wheel in an environment of its own, import it and load what it offers; return what failed."""
    failed = []
    for wheel in wheels:
        try:
            environment = Environment(work / wheel.name, python, links)
            environment.install(f"{wheel.name}=={wheel.version}")
            environment.run("-c", LOADS, wheel.name, wheel.package)
            environment.remove()
            print(f"{wheel.name}: alone", flush=True)
        except ReleaseError as error:
            failed.append(f"{wheel.name} alone: {error}")
    return failed


def together(version: str, python: str, links: Path, folder: Path) -> Environment:
    """An environment with all wheels, in which README's first program and the demo have run.

    Raises:
        ReleaseError: something did not work.
    """
    environment = Environment(folder, python, links)
    wanted = (f"cntk-toolkit[all,testing]=={version}", f"cntk-testing-gpu=={version}", "pytest-timeout")
    environment.install(*wanted)
    environment.run("-c", START)
    environment.run("-m", "cntk_core", "doctor")
    demo = folder.parent / f"{folder.name}-demo"
    shutil.rmtree(demo, ignore_errors=True)
    environment.run("-m", "cntk_core", "demo", "--folder", str(demo))
    return environment


CONTRACT = """\
\"\"\"What is true of every wheel.\"\"\"

from cntk_testing import WheelContract


class TestWheel(WheelContract):
    distribution = {name!r}
    module = {module!r}
"""
"""The contract test of a wheel that has none of its own."""


def run_contracts(
    archives: Sequence[Path], environment: Environment, work: Path, say: Callable[[str], None] = print
) -> list[str]:
    """Run the contract tests that source distributions have; return what failed.

    Where none of these is about the wheel as such, :data:`CONTRACT` is.

    Args:
        archives: the source distributions.
        environment: where all wheels are installed.
        work: where they are unpacked.
        say: gets a line for each.
    """
    failed = []
    for archive in archives:
        with tarfile.open(archive) as opened:
            opened.extractall(work, filter="data")
        folder = work / archive.name.removesuffix(".tar.gz")
        tests = sorted(folder.glob("tests/test_contract*.py"))
        if not any(
            "PackagingContract" in (text := test.read_text("utf-8")) or "WheelContract" in text for test in tests
        ):
            tests.append(_general_contract(folder))
        # Where they are unpacked, pytest would find the settings and the conftest.py of this repository above them.
        alone = ("-c", str(folder / "pyproject.toml"), f"--confcutdir={folder}")
        words = ("-m", "pytest", "-q", *alone, "-p", "no:cacheprovider", "--import-mode=importlib", *map(str, tests))
        try:
            said = environment.run(*words, folder=folder).strip().splitlines()
            say(f"{archive.name}: {said[-1] if said else 'no test'}")
        except ReleaseError as error:
            failed.append(f"the contract tests of {archive.name}: {error}")
    return failed


def _general_contract(folder: Path) -> Path:
    """Write the contract test of every wheel into a source distribution."""
    said = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = said.get("tool", {}).get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    module = next((Path(package).name for package in wheel.get("packages", ())), "")
    file = folder / "tests/test_of_every_wheel.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(CONTRACT.format(name=said["project"]["name"], module=module), encoding="utf-8")
    return file
