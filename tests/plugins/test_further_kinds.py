"""The page on actions, verbs and other small kinds: its examples run, and its table of the context is complete."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from cntk_core.contract.action import ActionContext as PublicContext
from cntk_core.contract.initializer import InitializerSettings
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.model_formats import ModelFiles
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.context import ActionContext


@pytest.fixture(scope="module")
def page(pytestconfig):
    return (pytestconfig.rootpath / "docs/further-kinds.md").read_text(encoding="utf-8")


@pytest.fixture
def files(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = []
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL)):
        names.append(f"p{number}.py")
        Path(names[-1]).write_text(block, encoding="utf-8")
    return names


def plugins(files):
    return [word for name in files for word in ("--plugin", name)]


def test_verb_and_data_set(files, capsys):
    assert main(["hello", "World", *plugins(files)]) == 0
    Path("raw").mkdir()
    Path("raw/rows.txt").write_text("1 2\n", encoding="utf-8")
    registry = PluginManager(files, load_hooks=False).registry
    from cntk_testing.dataset_contract import Notes

    registry.datasets.get("Rows")().convert(Path("raw"), Path(), checksum=True, only="", progress=Notes())
    assert Path("rows.ctf").read_text(encoding="utf-8") == "|x 1 2\n"
    assert capsys.readouterr().out == "Hello World\n"


def test_format_and_action(files, capsys):
    Path("m.scale").write_text("SCALE 2.5\n", encoding="utf-8")
    network = ModelFiles(PluginManager(files).registry).load("m.scale")
    assert network["w"].value.tolist() == [2.5]
    from cntk_kit_recipes.recipe.driver import run_recipe
    from cntk_kit_recipes.recipe.log import Log

    Path("r.cntk").write_text("command = C\nC = [ action = Count ; modelPath = m.scale ]\n", encoding="utf-8")
    log = Log()
    run_recipe(["configFile=r.cntk"], log, plugin_files=files)
    log.close()
    assert "3 nodes" in capsys.readouterr().err


def test_initializer_and_schedule(files):
    registry = PluginManager(files, load_hooks=False).registry
    rule = registry.initializers.get("Alternating").make("Alternating", InitializerSettings(scale=0.5))
    assert rule((3,), np.dtype(np.float32), 1).tolist() == [0.5, -0.5, 0.5]
    saw = registry.schedules.get("Saw")
    assert [saw(saw.options(start=0.5)).value(epoch, 4) for epoch in range(4)] == [0.5, 1.0, 0.5, 1.0]


def public_names() -> dict[str, object]:
    return {name: value for name, value in vars(PublicContext).items() if not name.startswith("_")}


def test_the_table_names_the_whole_context(page):
    rows = re.findall(r"^\| (`.*?`) \| ", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert listed == set(public_names())


@pytest.mark.parametrize("name", public_names())
def test_the_context_of_a_run_keeps_what_is_promised(name):
    promised, real = public_names()[name], getattr(ActionContext, name, None)
    if isinstance(promised, property):
        assert real is not None or name in ActionContext.__annotations__
        return
    wanted, found = inspect.signature(promised).parameters, inspect.signature(real).parameters
    for word, parameter in wanted.items():
        assert found[word].kind == parameter.kind
        assert found[word].default == parameter.default
    assert all(found[word].default is not inspect.Parameter.empty for word in found if word not in wanted)
