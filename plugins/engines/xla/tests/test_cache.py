"""Compiled functions are kept on disk: another process compiles nothing that one has compiled before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cntk_engine_xla.engine import _keep_compiled

PROCESS = """
import collections, json, sys
import jax
from cntk_engine_xla import XlaEngine
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **more: events.update([name.rsplit("/", 1)[-1]]))
run = start(XlaEngine(XlaEngine.options(xla_cache=sys.argv[1])), SEQUENCE_SAMPLES["lstm"]("float64"), rule=MOMENTUM)
for step in range(2):
    run.program.train_step(sequences_for(run.sample, [5, 3, 1], step), run.scalars(MOMENTUM, step))
values = [value.tolist() for value in run.values()]
print(json.dumps({"hits": events["cache_hits"], "values": values, "functions": run.program.compilations}))
"""


def _train(folder: str, **environment: str) -> dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, folder], capture_output=True, text=True, check=False, env=env | environment
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _kept(folder: Path) -> set[str]:
    """The functions in a folder; JAX notes beside each when it was used."""
    return {path.name for path in folder.rglob("*-cache")}


@pytest.mark.slow
def test_a_second_process_compiles_nothing_anew(tmp_path):
    home = tmp_path / "home"
    first = _train("auto", XDG_CACHE_HOME=str(home))
    kept = _kept(home / "cntk" / "xla")
    assert len(kept) >= first["functions"] == 1
    assert first["hits"] == 0
    second = _train("auto", XDG_CACHE_HOME=str(home))
    assert second["hits"] >= first["functions"]
    assert _kept(home / "cntk" / "xla") == kept
    assert second["values"] == first["values"]


@pytest.mark.parametrize(
    ("folder", "before", "after"),
    [("here", None, "here"), ("here", "own", "own"), ("none", None, None), ("NONE", "own", "own")],
)
def test_where_functions_are_kept(folder, before, after):
    """What somebody has told JAX about its cache stays."""
    import jax

    name = "jax_compilation_cache_dir"
    found = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update(name, before)
        _keep_compiled(folder)
        assert jax.config.jax_compilation_cache_dir == after
    finally:
        jax.config.update(name, found)
