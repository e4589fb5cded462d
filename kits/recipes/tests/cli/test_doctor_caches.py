"""What ``cntk doctor`` says of compiled code that is kept, and ``--clear-cache``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cntk_core.contract.cache import CacheState
from cntk_core.errors import PluginError
from cntk_kit_recipes.authoring.doctor import Finding, clear_caches, compiled_code
from cntk_kit_recipes.cli import main


class Kept:
    title = "kernels"

    def __init__(self, state):
        self._state = state

    def state(self):
        return self._state

    def clear(self):
        if self._state.problem:
            raise PermissionError(13, "Permission denied")
        return self._state.entries


def manager(*states):
    """One engine with caches, and one that cannot be loaded."""
    engine = SimpleNamespace(caches=lambda: [Kept(state) for state in states])
    offers = [
        SimpleNamespace(name=name, outcome=lambda it=it: it)
        for name, it in {"a": engine, "b": PluginError("no")}.items()
    ]
    tables = {"engine": offers, "reader": [], "aggregation": []}
    return SimpleNamespace(registry=SimpleNamespace(table=lambda word: SimpleNamespace(offers=lambda: tables[word])))


GOOD = CacheState(Path("/c"), entries=3, size=5000, limit=256 << 20)
DAMAGED = CacheState(Path("/d"), entries=3, size=3 << 20, limit=256 << 20, damaged=2)
BAD = CacheState(Path("/e"), 0, 0, 256 << 20, problem="'/e' can be written by others", mend="chmod go-w '/e'")


def test_what_the_doctor_says():
    assert list(compiled_code(manager(GOOD, DAMAGED, BAD))) == [
        Finding("ok", "kernels of engine a", "/c: 3 entries, 5 KiB of 256.0 MiB"),
        Finding("ok", "kernels of engine a", "/d: 3 entries, 3.0 MiB of 256.0 MiB; 2 damaged, which are compiled anew"),
        Finding("missing", "kernels of engine a", "not kept: '/e' can be written by others", "chmod go-w '/e'"),
    ]


def test_what_is_cleared(monkeypatch, capsys):
    monkeypatch.setattr("cntk_core.plugins.manager.PluginManager", lambda plugin_files: manager(GOOD, BAD))
    assert clear_caches() == 1
    said = capsys.readouterr()
    assert said.out == "kernels of engine a: removed 3 entries (5 KiB) from /c\n"
    assert said.err == "kernels of engine a: cannot be removed from /e: Permission denied\n"


def test_the_command(tmp_path, monkeypatch, capsys):
    pytest.importorskip("numba")

    from cntk_core.api.engines import CodeCache

    cache = CodeCache("kernels", tmp_path / "kernels", title="kernels")
    cache.write("f(x)", b"code")
    monkeypatch.setattr("cntk_engine_cpu.engine.kernel_cache", lambda: cache)
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    assert main(["doctor"]) == 0
    assert (
        f"ok  kernels of engine cpu             {tmp_path}/kernels: 1 entries, 1 KiB of 256.0 MiB\n"
        in capsys.readouterr().out
    )
    assert main(["doctor", "--clear-cache"]) == 0
    out = capsys.readouterr().out
    assert f"kernels of engine cpu: removed 1 entries (1 KiB) from {tmp_path}/kernels\n" in out
    assert "Recipes can be trained" not in out
    assert list((tmp_path / "kernels").iterdir()) == []
