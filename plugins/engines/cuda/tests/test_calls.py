"""What is put on the device, apart from the numbers: boxes in few axes, shared copies, what a graph must not hold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine, fallback
from cntk_engine_cuda.mirror import DeviceStore
from cntk_engine_cuda.moves import _joined

from cntk_core.api import Parameter, ParameterStore
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.sparse_networks import product, with_sparse_streams
from cntk_testing_gpu.cupy_stand_in import launched


@pytest.mark.parametrize(
    ("sizes", "first", "second", "axes"),
    [
        ((2, 3, 4), (12, 4, 1), (12, 4, 1), [(24, 1, 1)]),
        ((2, 1, 4), (4, 4, 1), (4, 9, 1), [(8, 1, 1)]),
        ((2, 3, 4), (12, 4, 1), (24, 4, 1), [(2, 12, 24), (12, 1, 1)]),
        ((2, 3, 4), (4, 0, 1), (12, 4, 1), [(2, 4, 12), (3, 0, 4), (4, 1, 1)]),
        ((1, 1), (1, 1), (1, 1), []),
    ],
)
def test_axes_that_follow_each_other_are_moved_as_one(sizes, first, second, axes):
    assert _joined(sizes, first, second) == axes


def test_programs_share_the_copies_of_a_store():
    store = ParameterStore([Parameter.make("W", (2,), value=np.ones(2, np.float32))], np.dtype("float32"))
    gpu, other = SimpleNamespace(), SimpleNamespace()
    shared = DeviceStore.of(gpu, store)
    assert DeviceStore.of(gpu, store) is shared
    assert DeviceStore.of(other, store) is not shared


@pytest.mark.parametrize("bind", [fallback.bind_forward, fallback.bind_new_axis, fallback.bind_gradient])
def test_what_the_host_computes_is_in_no_graph(bind, monkeypatch):
    for name in ("fallback_forward", "fallback_new_axis", "fallback_gradient"):
        monkeypatch.setattr(fallback, name, lambda *given: lambda: None)
    monkeypatch.setattr(fallback, "Place", lambda *given: SimpleNamespace(own=None))
    (call,) = bind(None, SimpleNamespace(nodes=(), step=SimpleNamespace(nodes=())))
    assert call.captured is False


@pytest.mark.usefixtures("standin")
def test_gradients_of_sparse_inputs_are_added_by_a_kernel_of_their_own():
    run = start(CudaEngine(), product("float32"), rule=MOMENTUM)
    launched.clear()
    run.program.train_step(with_sparse_streams(run.sample.minibatch(5, 1), run.sample, 1), run.scalars(MOMENTUM, 1))
    assert (launched["multiply"], launched["add_columns"]) == (1, 1)
