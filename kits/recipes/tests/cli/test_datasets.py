"""Data sets of plugins for ``cntk data``: from a wheel, a file, a hook; unknown and broken ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cntk_tool_data.mnist import Mnist

from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.markers import hookimpl
from cntk_kit_recipes.cli import main

DATASET = '''
from cntk_core.api import *


class Flowers(Dataset):
    """Flowers."""

    requires_api = "1.0"
    parts = ("train", "test")

    def convert(self, source, target, *, checksum, only, progress):
        rows = (source / "flowers.csv").read_text(encoding="utf-8").splitlines()
        (target / "flowers.ctf").write_text("".join(f"|x {row}\\n" for row in rows), encoding="utf-8")
        progress.done("flowers.ctf", f"{len(rows)} flowers, {only or 'all'}, {checksum}")
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a wheel beside those that are installed; its module does not stay imported."""

    def add(name, groups, text):
        site, module = tmp_path / "site", name.replace("-", "_")
        info = site / f"{module}-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n", encoding="utf-8")
        lines = [line for group, names in groups.items() for line in (f"[{group}]", *map(" = ".join, names.items()))]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
        (site / f"{module}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return add


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    work = tmp_path / "work"
    (work / "raw").mkdir(parents=True)
    (work / "raw/flowers.csv").write_text("1 2\n3 4\n", encoding="utf-8")
    monkeypatch.chdir(work)


def data(*arguments: str) -> int:
    return main(["data", arguments[0], "--from", "raw", "--to", "new", *arguments[1:]])


def test_from_a_wheel(install, capsys):
    install("my-flowers", {"cntk.datasets": {"flowers": "my_flowers:Flowers"}}, DATASET)
    assert data("flowers", "--only", "test", "--no-checksum") == 0
    assert capsys.readouterr().out == "flowers.ctf: 2 flowers, test, False\n"
    assert Path("new/flowers.ctf").read_text(encoding="utf-8") == "|x 1 2\n|x 3 4\n"


def test_from_a_file(capsys):
    Path("p.py").write_text(DATASET, encoding="utf-8")
    assert data("Flowers", "--plugin", "p.py") == 0
    assert capsys.readouterr().out == "flowers.ctf: 2 flowers, all, True\n"


def test_from_a_hook():
    class Offers:
        @hookimpl
        def cntk_register(self, registry):
            registry.datasets.add("more", Mnist)

    assert PluginManager(listeners=[Offers()]).registry.datasets.names() == ("cifar10", "mnist", "more")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["flower"],
            "there is no data set 'flower'; did you mean 'flowers'?\n    Data sets: bad, cifar10, flowers, mnist",
        ),
        (["flowers", "--only", "valid"], "the data set 'flowers' has no part 'valid'\n    Parts: train, test."),
    ],
)
def test_mistakes(arguments, message, install, capsys):
    install("my-flowers", {"cntk.datasets": {"flowers": "my_flowers:Flowers"}}, DATASET)
    install("bad-set", {"cntk.datasets": {"bad": "bad_set:Bad"}}, "import missing_library\n")
    assert data(*arguments) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not Path("new").exists()


def test_a_broken_one_is_an_error_only_for_who_asks(install, capsys):
    install("my-flowers", {"cntk.datasets": {"flowers": "my_flowers:Flowers"}}, DATASET)
    install("bad-set", {"cntk.datasets": {"bad": "bad_set:Bad"}}, "import missing_library\n")
    assert data("flowers") == 0
    assert data("bad") == 1
    assert capsys.readouterr().err.startswith("error: data set 'bad' from bad-set 0.1.0 could not be imported: ")
