"""The wheels of strangers beside this file go on to work: alone, by their own tests, and all five in one recipe."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cntk_core.api import API_VERSION
from cntk_core.network.model_file import read_model_origins
from cntk_kit_recipes.authoring.report import list_plugins
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WHEELS = ("aggregation", "hook", "learner", "op", "reader")
NAMES = ("jsonlines-for-cntk", "lion-for-cntk", "mish-for-cntk", "runfolder-for-cntk", "topk-for-cntk")
DOORS = {"cntk_core.api", *(f"cntk_core.api.{kit}" for kit in ("readers", "engines", "builders", "parallel"))}

RECIPE = """\
command = Train:Test
modelPath = "out/net.dnn"
deviceId = -1
Train = [
    action = train
    NDLNetworkBuilder = [
        run = net
        net = [
            features = Input(2)
            labels = Input(2)
            W = Parameter(4, 2)
            b = Parameter(4, init=fixedValue, value=0)
            V = Parameter(2, 4)
            h = Mish(Plus(Times(W, features), b))
            z = Times(V, HardSwish(h))
            ce = CrossEntropyWithSoftmax(labels, z)
            errs = ClassificationError(labels, z)
            FeatureNodes = (features)
            LabelNodes = (labels)
            CriterionNodes = (ce)
            EvalNodes = (errs)
        ]
    ]
    SGD = [
        gradUpdateType = lion
        beta2 = 0.95
        maxEpochs = 4
        minibatchSize = 20
        learningRatesPerMB = 0.02
        parallelTrain = [
            parallelizationMethod = DataParallelSGD
            DataParallelSGD = [ aggregation = topk ; share = 0.5 ]
        ]
    ]
    reader = [ readerType = JsonLines ; file = "samples.jsonl" ; dim = 2 ; classes = 2 ]
]
Test = [
    action = test
    reader = [ readerType = JsonLines ; file = "samples.jsonl" ; dim = 2 ; classes = 2 ]
]
"""


def project(wheel: str) -> dict[str, object]:
    return tomllib.loads((HERE / wheel / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def site(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder on the path, with the five wheels as pip would have installed them."""
    folder = tmp_path / "site"
    for wheel in WHEELS:
        shutil.copytree(HERE / wheel / "src", folder, dirs_exist_ok=True)
        about = project(wheel)
        info = folder / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
        info.mkdir()
        lines = [f"Name: {about['name']}", f"Version: {about['version']}"]
        lines += [f"Requires-Dist: {one}" for one in about["dependencies"]]
        (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]), encoding="utf-8")
        groups = about["entry-points"].items()
        points = "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in some.items()) for group, some in groups)
        (info / "entry_points.txt").write_text(points, encoding="utf-8")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


def write_samples(folder: Path) -> None:
    rows = ({"features": [n % 10, (n // 10) % 10], "label": int(n % 10 > (n // 10) % 10)} for n in range(100))
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "r.cntk").write_text(RECIPE, encoding="utf-8")


def criteria(folder: Path) -> list[float]:
    lines = (folder / "out/net.dnn.run/epochs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["ce"] for line in lines]


def hash_of(wheel: str) -> str:
    files = sorted(path for path in (HERE / wheel).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    parts = [f"{path.relative_to(HERE / wheel).as_posix()}\n".encode() + path.read_bytes() for path in files]
    return hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.mark.parametrize("wheel", WHEELS)
def test_it_is_as_it_was_written(wheel: str) -> None:
    frozen = json.loads((HERE / "frozen.json").read_text(encoding="utf-8"))[wheel]
    if frozen["api"].partition(".")[0] == API_VERSION.partition(".")[0]:
        assert hash_of(wheel) == frozen["sha256"], "these wheels follow a new major version of the interface alone"


@pytest.mark.parametrize("wheel", WHEELS)
def test_it_imports_doors_alone_and_pins_no_upper_version(wheel: str) -> None:
    for file in (HERE / wheel).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = {name for name in names if name.startswith(("cntk_core", "cntk_kit"))}
            assert ours <= DOORS, file
    assert not [one for one in project(wheel)["dependencies"] if "<" in one or "==" in one]


def test_all_are_usable(site: Path) -> None:
    found = {one.wheel: (one.state, one.version) for one in list_plugins(check=True) if one.wheel in NAMES}
    assert found == dict.fromkeys(NAMES, ("usable", "1.4.0"))


def test_a_recipe_with_all_five(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_samples(tmp_path)

    def work(communicator):
        with closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk", "stderr=log"], log, communicator=communicator)

    VirtualRanks(2, deadline=120.0).run(work)
    told = criteria(tmp_path)
    assert len(told) == 4
    assert told[-1] < 0.8 * told[0]
    assert json.loads((tmp_path / "out/net.dnn.run/outcome.json").read_text()) == {"succeeded": True}
    of_strangers = {(one.kind, one.name) for one in read_model_origins("out/net.dnn") if one.wheel in NAMES}
    assert of_strangers == {
        ("aggregation", "topk"),
        ("hooks", "runfolder"),
        ("learner", "lion"),
        ("op", "HardSwish"),
        ("op", "Mish"),
        ("reader", "JsonLines"),
    }
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert "Plugins: cntk-builder-ndl" in log
    assert "topk-for-cntk 1.4.0 (aggregation topk)" in log


BUILD_ALL = """
import os, sys
from hatchling.builders.wheel import WheelBuilder

for folder in sys.argv[2:]:
    os.chdir(folder)
    for _ in WheelBuilder(folder).build(directory=sys.argv[1], versions=["standard"]):
        pass
"""
"""Builds wheels in one process: a start takes longer than a build."""


def own_tests(python: str, environment: dict[str, str], folder: Path) -> None:
    """Run the wheels' own tests, copied to a folder, in an environment that has the wheels."""
    for wheel in WHEELS:
        shutil.copytree(HERE / wheel / "tests", folder / wheel)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_their_own_tests(site: Path, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    own_tests(sys.executable, {**os.environ, "PYTHONPATH": str(site)}, tmp_path / "tests")


@pytest.mark.thorough  # generated wheels have such an environment in kits/recipes/tests/authoring/test_scaffold.py
@pytest.mark.slow
def test_in_an_environment_of_their_own(tmp_path: Path) -> None:
    """Wheels are built and installed, ours too; libraries of others are those of this environment."""
    ours = ["plugins/builders/ndl", "plugins/engines/cpu", "plugins/parallel/data_parallel", "plugins/parallel/sockets"]
    ours += [
        "plugins/readers/cntk_text",
        "testing/suites",
        *(f"kits/{path.name}" for path in (ROOT / "kits").iterdir()),
    ]
    wheels = tmp_path / "wheels"
    projects = [ROOT, *(ROOT / one for one in ours), *(HERE / wheel for wheel in WHEELS)]
    build = [sys.executable, "-c", BUILD_ALL, str(wheels), *map(str, projects)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    assert len(list(wheels.iterdir())) == len(projects)
    home = tmp_path / "env"
    venv.create(home, with_pip=False)
    python = str(home / "bin" / "python")
    (site,) = home.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    subprocess.run([*install, *map(str, wheels.glob("*.whl"))], check=True, capture_output=True, timeout=300)
    # After the wheels, so that these come first; what is installed there for editing is not found this way.
    (site / "libraries.pth").write_text(str(Path(pytest.__file__).parents[1]), encoding="utf-8")
    installed = [project(wheel)["name"] for wheel in WHEELS]
    installed += [tomllib.loads((ROOT / one / "pyproject.toml").read_text())["project"]["name"] for one in ours]
    environment = {**os.environ, "CNTK_PLUGINS": ",".join(installed)}
    environment.pop("PYTHONPATH", None)
    write_samples(tmp_path)
    done = subprocess.run(
        [str(home / "bin" / "cntk"), "train", "r.cntk", "-n", "2"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert criteria(tmp_path)[-1] < 0.8 * criteria(tmp_path)[0]
    (tmp_path / "tests").mkdir()
    own_tests(python, environment, tmp_path / "tests")


if __name__ == "__main__":  # a new major version: the wheels have followed it
    entries = {wheel: {"api": API_VERSION, "sha256": hash_of(wheel)} for wheel in WHEELS}
    (HERE / "frozen.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
