"""``cntk plugins new``: what it writes, and that what it writes works."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from cntk_core.cli import main
from cntk_core.errors import CntkError
from cntk_core.plugins.scaffold import KITS, TEMPLATES, new_plugin


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_files(kind, tmp_path):
    folder = new_plugin(kind, "my_thing", tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == folder.name
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
    for file in ("README.md", "tests/test_contract.py", ".github/workflows/test.yml", f"src/{module}/py.typed"):
        assert (folder / file).is_file()
    for file in folder.rglob("*.*"):
        if file.is_file():
            assert not re.search("%[a-z_]+%", file.read_text(encoding="utf-8"))


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
            "    Kinds: engine, op, builder, reader, learner, parallelizer, aggregation, hook, action, "
            "verb, model_format, initializer, schedule, dataset",
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
    folder = new_plugin("op", "Softsign")
    (folder / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(CntkError) as caught:
        new_plugin("op", "Softsign")
    assert str(caught.value) == (
        "'cntk-op-softsign' exists already\n    Choose another name or --folder, or remove it."
    )
    assert (folder / "README.md").read_text(encoding="utf-8") == "mine"


def test_the_command(tmp_path, capsys):
    assert main(["plugins", "new", "op", "Softsign", "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("A new op:\n")
    assert out.endswith(f"  pytest {tmp_path / 'cntk-op-softsign'}\n")


@pytest.mark.slow
def test_one_of_every_kind_in_a_fresh_environment(tmp_path, pytestconfig):
    """Generate, build, install and test one plugin of every kind; then check the installed ones."""
    folders = [new_plugin(kind, "my_thing", tmp_path / "wheels") for kind in TEMPLATES]
    python = make_environment(tmp_path / "env", pytestconfig.rootpath)
    pip = [python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    run([*pip, *map(str, folders)], tmp_path)
    for folder in folders:
        # Of the engine's contract, which takes long, half says enough of a wheel that was written as it stands.
        part = ["-k", "not float64"] if "-engine-" in folder.name else []
        run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *part, str(folder)], folder)
    for kind in ("op", "hook"):
        output = run([python, "-m", "cntk_core", "plugins", "check", f"{kind}:my_thing"], tmp_path)
        assert output.endswith(f"from cntk-{TEMPLATES[kind].base}-my-thing 0.1.0 keeps its contract\n")
    table = run([python, "-m", "cntk_core", "plugins", "list"], tmp_path)
    rows = [line.split() for line in table.splitlines() if " my_thing " in line]
    assert [row[-1] for row in rows] == ["usable"] * len(TEMPLATES), table


def make_environment(folder: Path, root: Path) -> str:
    """A new environment that sees this one's libraries, and the core as it is here."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    site = next(folder.glob("lib/python*/site-packages")) if os.name != "nt" else folder / "Lib/site-packages"
    ours = [root, *sorted(root.glob("kits/*/src")), *sorted(root.glob("testing/*/src"))]
    paths = [*map(str, ours), *(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))]
    (site / "outer.pth").write_text("\n".join(paths), encoding="utf-8")
    return str(python)


def run(command: list[str], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CNTK_", "PYTEST"))}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
