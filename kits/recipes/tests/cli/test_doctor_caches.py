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


def offer(name, outcome):
    return SimpleNamespace(name=name, outcome=lambda: outcome)


def manager(*states):
    """One engine with caches, one that cannot be loaded, and a reader that has a cache in common with the first."""
    kept = [Kept(state) for state in states]
    engine, reader = SimpleNamespace(caches=lambda: kept), SimpleNamespace(caches=lambda: kept[:1])
    tables = {
        "engine": [offer("a", engine), offer("b", PluginError("no"))],
        "reader": [offer("R", reader)],
        "aggregation": [],
    }
    return SimpleNamespace(registry=SimpleNamespace(table=lambda word: SimpleNamespace(offers=lambda: tables[word])))


OWNERS = ["engine cpu", "reader ImageReader", "reader ImageDeserializer", "aggregation quantized"]
"""All that keep kernels."""

GOOD = CacheState(Path("/c"), entries=3, size=5000, limit=256 << 20)
DAMAGED = CacheState(Path("/d"), entries=3, size=3 << 20, limit=256 << 20, damaged=2)
BAD = CacheState(Path("/e"), 0, 0, 256 << 20, problem="'/e' can be written by others", mend="chmod go-w '/e'")


def test_what_the_doctor_says():
    damaged = "/d: 3 entries, 3.0 MiB of 256.0 MiB; 2 damaged, which are compiled anew (engine a)"
    assert list(compiled_code(manager(GOOD, DAMAGED, BAD))) == [
        Finding("ok", "kernels", "/c: 3 entries, 5 KiB of 256.0 MiB (engine a, reader R)"),
        Finding("ok", "kernels", damaged),
        Finding("missing", "kernels", "not kept: '/e' can be written by others (engine a)", "chmod go-w '/e'"),
    ]


def test_what_is_cleared(monkeypatch, capsys):
    monkeypatch.setattr("cntk_core.plugins.manager.PluginManager", lambda plugin_files: manager(GOOD, BAD))
    assert clear_caches() == 1
    said = capsys.readouterr()
    assert said.out == "kernels (engine a, reader R): removed 3 entries (5 KiB) from /c\n"
    assert said.err == "kernels (engine a): cannot be removed from /e: Permission denied\n"


def test_the_command(tmp_path, monkeypatch, capsys):
    pytest.importorskip("numba")

    from cntk_core.api.engines import kernel_cache

    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    kernel_cache().write("f(x)", b"code")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"ok  kernels                           {tmp_path}/kernels: 1 entries, 1 KiB of 256.0 MiB (" in out
    line = next(line for line in out.splitlines() if f"{tmp_path}/kernels" in line)
    owners = line.partition(" (")[2].rstrip(")")
    assert set(OWNERS) <= set(owners.split(", "))
    assert main(["doctor", "--clear-cache"]) == 0
    out = capsys.readouterr().out
    assert f"kernels ({owners}): removed 1 entries (1 KiB) from {tmp_path}/kernels\n" in out
    assert "Recipes can be trained" not in out
    assert list((tmp_path / "kernels").iterdir()) == []
