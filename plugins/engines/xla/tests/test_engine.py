"""What the engine says about itself before it computes anything."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cntk_engine_xla import XlaEngine
from cntk_engine_xla.engine import _check_device

from cntk_core.api import Available, PluginUnavailableError, Unavailable


def test_asking_for_it_does_not_start_jax():
    asked = "import sys; from cntk_engine_xla import XlaEngine; XlaEngine.availability(); print('jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_its_modules_are_collected_without_jax():
    """Its own tests, and everybody who lists plugins, import the package long before anything is compiled."""
    asked = "import sys, cntk_engine_xla, cntk_engine_xla.buckets; print({'jax', 'jaxlib'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_without_jax_no_step_is_marked(monkeypatch):
    monkeypatch.setattr(XlaEngine, "availability", classmethod(lambda cls: Unavailable("JAX is not installed")))
    assert XlaEngine().on_host(None) == frozenset()


def test_platforms_that_somebody_has_chosen(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    answer = XlaEngine.availability()
    assert isinstance(answer, Available)
    assert answer.detail.endswith(" on cpu")


def test_no_device(monkeypatch):
    def devices():
        raise RuntimeError("no tpu")

    monkeypatch.setattr("jax.devices", devices)
    with pytest.raises(PluginUnavailableError, match="finds no device: no tpu"):
        _check_device()
