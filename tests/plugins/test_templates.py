"""What the READMEs of new actions, verbs, formats, initializers, schedules and data sets show runs as it stands."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from cntk_core.cli import main
from cntk_core.plugins.scaffold import new_plugin


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """Generate a wheel and put it on the path as if it were installed; return the code blocks of its README."""

    def make(kind: str) -> list[str]:
        folder = new_plugin(kind, "my_thing", tmp_path)
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        ((group, points),) = project["entry-points"].items()
        info = folder / "src" / f"{project['name'].replace('-', '_')}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(f"{a} = {b}" for a, b in points.items()))
        monkeypatch.syspath_prepend(str(folder / "src"))
        (module,) = {target.partition(":")[0] for target in points.values()}
        monkeypatch.delitem(sys.modules, module, raising=False)
        text = (folder / "README.md").read_text(encoding="utf-8").partition("## Develop")[0]
        work = tmp_path / "work"
        work.mkdir()
        monkeypatch.chdir(work)
        return re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)

    return make


def run(command: str) -> int:
    words = shlex.split(command)
    assert words[0] == "cntk"
    return main(words[1:])


def test_action(offered, capsys):
    (recipe,) = offered("action")
    Path("recipe.cntk").write_text(recipe, encoding="utf-8")
    assert run("cntk configFile=recipe.cntk") == 0
    assert Path("count.txt").read_text(encoding="utf-8") in capsys.readouterr().err


def test_verb(offered, capsys):
    (command,) = offered("verb")
    assert run(command) == 0
    assert capsys.readouterr().out == "Hello World\nHello World\n"


def test_model_format(offered, capsys):
    model, command = offered("model_format")
    Path("model.my_thing").write_text(model, encoding="utf-8")
    assert run(command) == 0
    assert capsys.readouterr().out == "model.dnn: 3 nodes, 6 numbers in 1 parameters\n"


@pytest.mark.parametrize("kind", ["initializer", "schedule"])
def test_in_a_training(kind, offered):
    recipe, data = offered(kind)
    Path("recipe.cntk").write_text(recipe, encoding="utf-8")
    Path("data.ctf").write_text(data, encoding="utf-8")
    assert run("cntk configFile=recipe.cntk") == 0
    assert Path("model.dnn").is_file()


def test_dataset(offered):
    rows, command = offered("dataset")
    Path("raw").mkdir()
    Path("raw/my_thing.csv").write_text(rows, encoding="utf-8")
    assert run(command) == 0
    assert (
        Path("my_thing.ctf").read_text(encoding="utf-8")
        == "|features 0.2 0.7 |labels 0 1\n|features 0.9 0.1 |labels 1 0\n"
    )
