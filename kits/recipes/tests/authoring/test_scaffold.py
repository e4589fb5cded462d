"""``cntk plugins new``: what it writes, and that what it writes works."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from cntk_core.errors import CntkError
from cntk_kit_recipes.authoring.scaffold import KITS, TEMPLATES, names_of, new_plugin
from cntk_kit_recipes.cli import main
from cntk_testing import ReaderRecipe, RecipeContract

WITHOUT_RECIPE = ("dataset", "model_format", "verb")
"""Kinds that a command uses."""


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_files(kind, tmp_path):
    folder = new_plugin(kind, "my_thing", tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == folder.name
    assert project["license"] == "MIT"
    assert project["authors"][0]["name"]
    assert set(project["optional-dependencies"]["test"]) == {"cntk-testing>=0.1", *TEMPLATES[kind].needs}
    ((group, points),) = project["entry-points"].items()
    assert group == TEMPLATES[kind].group
    ((name, target),) = points.items()
    assert name == "my_thing"
    module, _, attribute = target.partition(":")
    tree = ast.parse((folder / "src" / module / "__init__.py").read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert not attribute or attribute in defined
    imports = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    doors = {name for name in imports if name.startswith("cntk")}
    kits = sorted(name.removeprefix("cntk_core.api.") for name in doors - {"cntk_core.api"})
    assert doors - {f"cntk_core.api.{kit}" for kit in KITS} == {"cntk_core.api"}
    assert project["dependencies"] == ["cntk-core>=0.1", *(f"cntk-kit-{kit}>=0.1" for kit in kits)]
    shared = ("README.md", "LICENSE", "tests/test_contract.py", ".github/workflows/test.yml")
    for file in (*shared, f"src/{module}/py.typed"):
        assert (folder / file).is_file()
    readme = (folder / "README.md").read_text(encoding="utf-8")
    recipe = folder / "example/recipe.cntk"
    assert recipe.is_file() == (kind not in WITHOUT_RECIPE)
    if recipe.is_file():
        assert f"```\n{recipe.read_text(encoding='utf-8')}```" in readme
    assert f"```sh\n{names_of(kind, 'my_thing')['command']}\n```" in readme
    for file in folder.rglob("*.*"):
        if file.is_file():
            assert not re.search("%[a-zA-Z_]+%", file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "wheel", "module", "target"),
    [
        ("wav", "cntk-reader-wav", "cntk_reader_wav", "WavReader"),
        ("WavReader", "cntk-reader-wav-reader", "cntk_reader_wav_reader", "WavReader"),
        ("my-format2", "cntk-reader-my-format2", "cntk_reader_my_format2", "MyFormat2Reader"),
    ],
)
def test_the_names(name, wheel, module, target, tmp_path):
    folder = new_plugin("reader", name, tmp_path)
    points = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert (folder.name, points) == (wheel, {"cntk.readers": {name: f"{module}:{target}"}})


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (
            "lerner",
            "x",
            "there is no kind of plugin 'lerner'; did you mean 'learner'?\n"
            "    Kinds: action, aggregation, builder, communicator, dataset, engine, hook, initializer, launcher, "
            "learner, model_format, op, parallelizer, reader, schedule, verb, writer",
        ),
        (
            "reader",
            "my reader",
            "'my reader' is no name for a plugin\n"
            "    A name begins with a letter and has letters, digits, '_' and '-'; Python's own words are not names.",
        ),
        (
            "op",
            "class",
            "'class' is no name for a plugin\n"
            "    A name begins with a letter and has letters, digits, '_' and '-'; Python's own words are not names.",
        ),
        ("op", "soft-sign", "'soft-sign' is no name for an op: in a network description '-' is no letter"),
        ("op", "Sigmoid", "the core has an op 'Sigmoid' already\n    Choose another name."),
    ],
)
def test_names_that_cannot_be(kind, name, message, tmp_path):
    with pytest.raises(CntkError) as caught:
        new_plugin(kind, name, tmp_path)
    assert str(caught.value) == message
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = new_plugin("op", "Squash")
    (folder / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(CntkError) as caught:
        new_plugin("op", "Squash")
    assert str(caught.value) == ("'cntk-op-squash' exists already\n    Choose another name or --folder, or remove it.")
    assert (folder / "README.md").read_text(encoding="utf-8") == "mine"


def test_an_empty_folder_may_be_there_and_a_file_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cntk-op-squash").mkdir()
    assert (new_plugin("op", "Squash", tmp_path) / "README.md").exists()
    (tmp_path / "cntk-op-mine").write_text("mine", encoding="utf-8")
    with pytest.raises(CntkError) as caught:
        new_plugin("op", "Mine")
    assert str(caught.value) == "'cntk-op-mine' exists already\n    Choose another name or --folder, or remove it."
    with pytest.raises(CntkError) as caught:
        new_plugin("op", "Squash", tmp_path / "cntk-op-mine")
    assert (
        str(caught.value)
        == f"'{tmp_path}/cntk-op-mine/cntk-op-squash/.github/workflows' cannot be written: Not a directory"
    )


def test_the_command(tmp_path, capsys):
    assert main(["plugins", "new", "op", "Squash", "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("A new op:\n")
    folder = tmp_path / "cntk-op-squash"
    assert f"  pytest {folder}\n" in out
    assert out.endswith(f"  cd {folder}\n  cntk train example/recipe.cntk\n")


@pytest.mark.parametrize("kind", [kind for kind in TEMPLATES if kind not in WITHOUT_RECIPE])
def test_the_recipe_of_its_readme_keeps_the_contract(kind, tmp_path, monkeypatch):
    """Without an installation: the sources and what pip would note of them are put on the path."""
    folder = new_plugin(kind, f"quick_{kind}", tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    note = folder / "src" / f"{project['name'].replace('-', '_')}-0.1.0.dist-info"
    note.mkdir()
    (note / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: 0.1.0\n")
    ((group, points),) = project["entry-points"].items()
    (note / "entry_points.txt").write_text(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
    )
    monkeypatch.syspath_prepend(folder / "src")
    name = f"contract_of_{kind}"
    spec = spec_from_file_location(name, folder / "tests/test_contract.py")
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    suites = [
        suite
        for suite in vars(module).values()
        if isinstance(suite, type) and issubclass(suite, RecipeContract) and suite.recipe and suite.__module__ == name
    ]
    assert suites, "no class of its tests has the recipe"
    if kind == "communicator":  # it starts processes, which know nothing of this path
        assert suites[0]().recipe_text()
        return
    tests = [
        test for test in vars(RecipeContract) | vars(ReaderRecipe) if re.match("test_.*(resumes|found|told)$", test)
    ]
    for test in tests:
        if hasattr(suites[0], test):
            getattr(suites[0](), test)(tmp_path / test)


FEW = ["op", "reader", "verb"]
"""Kinds that the default tier tries in one environment; the contract of every kind's recipe is kept without an
installation, above."""

TOGETHER = [kind for kind in TEMPLATES if kind != "hook"]
"""Kinds that can be tried in one environment. A hook takes part in every run that it finds; by default its recipe is
run without an installation, above, and the downstream wheels have a hook in an environment of their own."""

OF_RANKS = ("aggregation", "parallelizer")
"""Kinds whose command starts two processes, as the communicator's does; the thorough tier runs theirs too."""

MADE = {"action": "count.txt", "dataset": "my_thing.ctf", "model_format": "model.dnn", "verb": "README.md"}
"""What the command of a README makes, where that is no model."""

CHECKED = ("builder", "hook", "op", "reader", "verb")
"""Kinds whose contract the thorough tier runs once more from the wheel; tests/docs checks an installed one always."""

BUILD_ALL = """
import os, sys
from hatchling.build import build_wheel

for folder in sys.argv[2:]:
    os.chdir(folder)
    build_wheel(sys.argv[1])
"""
"""Builds wheels in one process: a start takes longer than a build. What is built alone is built by pip."""

RUN_ALL = """
import contextlib, sys
from cntk_kit_recipes.cli import main

for place in range(1, len(sys.argv), 2):
    folder, words = sys.argv[place : place + 2]
    with contextlib.chdir(folder):
        if main(words.split()):
            sys.exit(f"{folder}: {words}")
"""
"""Runs commands in folders, one after the other in one process: a start takes longer than most of them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(FEW, id="a few together"),
        pytest.param(TOGETHER, id="together", marks=pytest.mark.thorough),
        *(pytest.param([kind], id=f"{kind} alone", marks=pytest.mark.thorough) for kind in TEMPLATES),
    ],
)
def test_they_work_in_a_fresh_environment(kinds, tmp_path, pytestconfig, thorough):
    """Generate them, build wheels, install those, run their tests and the recipes of their READMEs; then check some."""
    folders = {kind: new_plugin(kind, "my_thing", tmp_path / "sources") for kind in kinds}
    python = make_environment(tmp_path / "env", pytestconfig.rootpath)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--quiet", "--no-deps", "--no-index"]
    sources = [str(folder) for folder in folders.values()]
    if len(kinds) == 1:
        run([*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(tmp_path), *sources], tmp_path)
    else:
        run([python, "-c", BUILD_ALL, str(tmp_path), *sources], tmp_path)
    wheels = [str(wheel) for wheel in tmp_path.glob("*.whl")]
    assert len(wheels) == len(kinds)
    run([*pip, "install", *offline, *wheels], tmp_path)
    # Of the engine's contract, which takes long, a part says enough of a wheel that was written as it stands; the
    # recipes are run above without an installation, and below as their READMEs say.
    part = "not (MyThingEngine and (float64 or op_gradients or any_nodes or sequences or updates))"
    chosen = [] if thorough or len(kinds) == 1 else ["-k", part, "-m", "not recipe"]
    files = ["-p", "no:cacheprovider", "--import-mode=importlib", "-W", "error", *sources]
    run([python, "-m", "pytest", "-q", *chosen, *files], tmp_path)
    told = {kind: folder for kind, folder in folders.items() if thorough or len(kinds) == 1 or kind not in OF_RANKS}
    words = [
        (str(folder), command.removeprefix("cntk "))
        for kind, folder in told.items()
        for command in names_of(kind, "my_thing")["command"].split(" && ")
    ]
    run([python, "-c", RUN_ALL, *(word for pair in words for word in pair)], tmp_path)
    for kind, folder in told.items():
        assert list(folder.rglob(MADE.get(kind, "net.dnn"))), f"the command of the {kind} makes nothing"
    output = run([python, "-m", "cntk_core", "plugins", "list"], tmp_path)
    rows = [line.split() for line in output.splitlines() if " my_thing " in line]
    assert [row[-1] for row in rows] == ["usable"] * len(kinds), output
    for kind in set(kinds).intersection(CHECKED if thorough else ()):
        shutil.rmtree(folders[kind])  # from the wheel alone
        output = run([python, "-m", "cntk_core", "plugins", "check", f"{kind}:my_thing"], tmp_path)
        assert "keeps its contract (" in output.splitlines()[-1] or kind == "hook", output


def make_environment(folder: Path, root: Path) -> str:
    """A new environment that sees this one's libraries, and the core as it is here."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    site = next(folder.glob("lib/python*/site-packages")) if os.name != "nt" else folder / "Lib/site-packages"
    ours = [root, *sorted(root.glob("kits/*/src")), *sorted(root.glob("testing/*/src"))]
    outer = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    lines = [*(f"import site; site.addsitedir({path!r})" for path in outer), *map(str, ours)]
    (site / "outer.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(python)


def run(command: list[str], folder: Path) -> str:
    """Run a command as a user who has set nothing, but that what is compiled is kept where the tests keep it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CNTK_", "PYTEST"))}
    environment |= {"CNTK_CACHE": os.environ["CNTK_CACHE"]} if "CNTK_CACHE" in os.environ else {}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
