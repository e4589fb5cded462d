"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FIXTURES = """
import sys
import numpy as np

CORE_AT_START = sorted(name for name in sys.modules if name.startswith(("cntk_core.", "cntk_testing")))

def test_nothing_of_the_core_is_imported_before_it_is_used():
    assert CORE_AT_START == ["cntk_testing", "cntk_testing.plugin"]

def test_tiny_network(tiny_network):
    assert tiny_network.minibatch(3).samples == 3
    assert tiny_network.criterion.name == "ce"

def test_two_ranks(two_ranks):
    assert two_ranks.run(lambda one: int(one.allgather(np.array([one.rank]))[1][0])) == [1, 1]

def test_the_registry_looks_for_nothing(registry):
    assert registry.readers.names() == ()
"""
REWRITTEN = """
from cntk_testing import LearnerContract

class TestNothing(LearnerContract):
    def test_component(self, learner):
        pass
"""


def run_pytest(folder, source):
    (folder / "test_it.py").write_text(source, encoding="utf-8")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    command += ["-p", "cntk_testing.plugin", "-c", os.devnull, "--rootdir", str(folder), "test_it.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
def test_fixtures(tmp_path):
    done = run_pytest(tmp_path, FIXTURES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.slow
def test_failures_of_contracts_are_readable(tmp_path):
    done = run_pytest(tmp_path, REWRITTEN)
    assert done.returncode == 1
    assert "TestNothing overrides tests of its contract: test_component. Mark the override with" in done.stdout
    assert "assert not ['test_component']" in done.stdout
