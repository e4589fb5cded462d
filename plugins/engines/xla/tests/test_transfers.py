"""Arrays come to the device as copies, and nothing is compiled for that."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def compiled():
    """What JAX compiles meanwhile."""
    import jax

    events = []

    def listen(event: str, seconds: float, **details: object) -> None:
        if event.endswith("backend_compile_duration"):
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


def test_no_function_is_compiled_for_a_shape(compiled):
    import jax
    from cntk_engine_xla.transfers import on_device

    for size in (641, 643, 647):
        assert on_device(np.ones((3, size), np.float32)).shape == (3, size)
    assert compiled == []
    jax.jit(lambda x: x + 1.0)(on_device(np.ones(653, np.float32)))
    assert len(compiled) == 1


@pytest.mark.parametrize("shape", [(3,), (64, 64), (1000, 641)])
def test_a_function_may_write_over_it_and_the_host_over_its_own(shape):
    import jax
    from cntk_engine_xla.transfers import on_device

    values = np.ones(shape, np.float32)
    ours = on_device(values)
    values[...] = 5.0
    doubled = jax.jit(lambda x: x * 2.0, donate_argnums=0)(ours)
    assert ours.is_deleted()
    assert (np.asarray(doubled) == 2.0).all()
    assert (values == 5.0).all()


def test_precision(compiled):
    from cntk_engine_xla.transfers import on_device

    assert on_device(np.ones((2, 659)), np.float32).dtype == np.float32
    assert compiled == []
