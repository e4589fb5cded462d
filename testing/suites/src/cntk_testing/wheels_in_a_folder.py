"""Wheels that are not really installed: metadata and modules in a folder on ``sys.path``.

Import the fixtures in a ``conftest.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from textwrap import dedent

import pytest

from cntk_core.plugins import discovery

COMPONENTS = """
from cntk_core.api import *


class Reader(DataReader):
    requires_api = "1.0"
    streams = ()

    def minibatches(self, epoch):
        return iter(())


class Engine(ExecutionEngine):
    requires_api = "1.0"

    def compile(self, plan, store, rule=None, *, seed=0):
        raise NotImplementedError


class Away(Engine):
    @classmethod
    def availability(cls):
        return Unavailable("no device", 'Use engine = "cpu".')
"""

Install = Callable[..., None]


@pytest.fixture(autouse=True)
def no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the environment switches wheels off."""
    for name in ("CNTK_PLUGINS", "CNTK_TRACE_PLUGINS", "CNTK_PLUGINS_STRICT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder with wheels; modules that tests import from it are forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    before = set(sys.modules)
    # Other folders stay importable, but the wheels that are really installed there are not found.
    monkeypatch.syspath_prepend(str(folder))
    real = __import__("importlib.metadata").metadata.distributions
    monkeypatch.setattr("cntk_core.plugins.discovery.distributions", lambda: real(path=[str(folder)]))
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def tools(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheels of ours with verbs, actions and further model formats are there too."""
    ours = ["cntk-action-classic", "cntk-model-cntk1", "cntk-tool-inspect"]
    found = [metadata.distribution(name) for name in ours]
    real = vars(discovery)["distributions"]
    monkeypatch.setattr("cntk_core.plugins.discovery.distributions", lambda: [*real(), *found])


@pytest.fixture
def install(site: Path) -> Install:
    """Install a wheel: its name, its entry points by group, and the text of its module."""

    def add(name: str, groups: Mapping[str, Mapping[str, str]], text: str = COMPONENTS, version: str = "0.1.0") -> None:
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        sections = [
            "\n".join([f"[{group}]", *(f"{word} = {target}" for word, target in points.items())])
            for group, points in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")
        (site / f"{name.replace('-', '_')}.py").write_text(dedent(text), encoding="utf-8")

    return add
