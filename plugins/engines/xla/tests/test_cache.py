"""Compiled functions are kept on disk: another process compiles nothing anew, unless what it finds is damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from cntk_engine_xla import XlaEngine, kept
from cntk_engine_xla.kept import keep_compiled

PROCESS = """
import collections, json, sys
import jax
from cntk_engine_xla import XlaEngine
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **more: events.update([name.rsplit("/", 1)[-1]]))
engine = XlaEngine(XlaEngine.options(xla_cache=sys.argv[1]))
run = start(engine, SEQUENCE_SAMPLES["accumulated"]("float64"), rule=MOMENTUM)
for step in range(2):
    run.program.train_step(sequences_for(run.sample, [5, 3, 1], step), run.scalars(MOMENTUM, step))
values = [value.tolist() for value in run.values()]
print(json.dumps({"hits": events["cache_hits"], "values": values, "functions": run.program.compilations}))
"""


def _train(folder: str, **environment: str) -> dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if name not in ("JAX_COMPILATION_CACHE_DIR", "CNTK_CACHE")}
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, folder], capture_output=True, text=True, check=False, env=env | environment
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"said": done.stderr}


@pytest.mark.slow
def test_functions_come_from_the_disk(tmp_path):
    first, again = (_train("auto", XDG_CACHE_HOME=str(tmp_path)) for _ in range(2))
    assert (first["hits"], first["functions"]) == (0, 1)
    assert again["hits"] >= first["functions"]
    assert first["values"] == again["values"]
    assert first["said"] == again["said"] == ""


@pytest.mark.thorough  # the folder is the one of compiled kernels, which are damaged in all of these ways
@pytest.mark.slow
def test_functions_come_from_the_disk_unless_they_are_damaged(tmp_path):
    """A flipped bit, half a file, none at all: each is said once, and the next run has all of them again."""
    first = _train("auto", XDG_CACHE_HOME=str(tmp_path))
    assert first["hits"] == 0
    paths = sorted((tmp_path / "cntk" / "xla").iterdir())
    assert len(paths) >= first["functions"] == 1
    for number, path in enumerate(paths):
        data = bytearray(path.read_bytes())
        data[-20] ^= 1
        path.write_bytes((bytes(data), bytes(data[: len(data) // 2]), b"")[number % 3])
    second = _train("auto", XDG_CACHE_HOME=str(tmp_path))
    assert second["hits"] == 0
    assert sorted(line.split("'")[1] for line in second["said"].splitlines()) == list(map(str, paths))
    assert all(line.endswith("; it is thrown away and compiled anew") for line in second["said"].splitlines())
    third = _train("auto", XDG_CACHE_HOME=str(tmp_path))
    assert third["hits"] >= first["functions"]
    # On a busy machine a function that is kept only if compiling takes long may come to the ones of the first run.
    assert set((tmp_path / "cntk" / "xla").iterdir()) >= set(paths)
    assert first["values"] == second["values"] == third["values"]
    assert first["said"] == third["said"] == ""


@pytest.fixture
def untouched():
    """Whatever JAX was told about its cache is as before afterwards."""
    import jax
    from jax._src import compilation_cache

    names = ("compilation_cache_dir", "persistent_cache_min_compile_time_secs", "persistent_cache_enable_xla_caches")
    before = {f"jax_{name}": getattr(jax.config, f"jax_{name}") for name in names}
    made = compilation_cache.get_file_cache
    jax.config.update("jax_compilation_cache_dir", None)
    yield compilation_cache
    compilation_cache.get_file_cache = made
    for name, value in before.items():
        jax.config.update(name, value)


def test_other_folders_have_the_cache_of_jax(untouched, tmp_path):
    keep_compiled(str(tmp_path / "ours"))
    ours, folder = untouched.get_file_cache(str(tmp_path / "ours"))
    assert folder == str(tmp_path / "ours")
    assert ours.get("f-1") is None
    ours.put("f-1", b"code")
    assert ours.get("f-1") == b"code"
    assert [path.suffix for path in (tmp_path / "ours").iterdir()] == [".code"]
    theirs, _ = untouched.get_file_cache(str(tmp_path / "theirs"))
    assert type(theirs) is not type(ours)


def test_a_jax_with_another_cache(untouched, tmp_path, caplog):
    import jax

    del untouched.get_file_cache
    keep_compiled(str(tmp_path / "ours"))
    assert jax.config.jax_compilation_cache_dir is None
    assert caplog.messages == [
        f"compiled functions are not kept: JAX {jax.__version__} has another cache than is known here"
    ]


def test_a_folder_that_others_may_write(untouched, tmp_path, caplog):
    import jax

    tmp_path.chmod(0o777)
    keep_compiled(str(tmp_path))
    assert jax.config.jax_compilation_cache_dir is None
    (said,) = caplog.messages
    assert said.startswith("compiled functions are not kept, each run compiles them anew: ")
    assert said.endswith(f"chmod go-w '{tmp_path}' mends it")


def test_functions_of_another_processor_are_not_read(monkeypatch):
    here = kept._identity("f-1")
    monkeypatch.setattr(kept, "_processor", lambda: "another one")
    assert kept._identity("f-1") != here


def test_what_the_doctor_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    (cache,) = XlaEngine.caches()
    assert (cache.title, cache.state().folder) == ("functions", tmp_path / "xla")


@pytest.mark.parametrize(
    ("folder", "before", "after"),
    [("here", None, "here"), ("here", "own", "own"), ("none", None, None), ("NONE", "own", "own")],
)
def test_where_functions_are_kept(untouched, tmp_path, monkeypatch, folder, before, after):
    """What somebody has told JAX about its cache stays."""
    import jax

    monkeypatch.chdir(tmp_path)
    jax.config.update("jax_compilation_cache_dir", before)
    keep_compiled(folder)
    assert jax.config.jax_compilation_cache_dir == (str(tmp_path / "here") if after == "here" else after)
