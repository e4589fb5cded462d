"""What the tests of the XLA engine share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def quick_compilation():
    """Have XLA optimize less: these networks are compiled for a few numbers each."""
    import jax

    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, True)
    yield
    jax.config.update(name, before)
