"""Numbers on the GPU that others change there: the gradients of all ranks together."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine
from cntk_engine_cuda.mirror import DeviceStore

from cntk_core.api import Parameter, ParameterStore


@pytest.fixture
def held(standin):
    store = ParameterStore([Parameter.make("W", (3,), value=np.ones(3))], "float32")
    return store, DeviceStore.of(CudaEngine().gpu, store)


def test_what_was_changed_there_comes_back(held):
    store, numbers = held
    store.gradients[:3] = [1, 2, 3]
    lent = store.gradients_in_place()
    assert lent.get()[:3].tolist() == [1, 2, 3]
    assert not numbers.is_newest("gradients"), "others may have added to it"
    lent[:3] = 5.0
    numbers.fetch("gradients")
    assert numbers.buffer("gradients").get()[:3].tolist() == [5, 5, 5]
    assert store.gradients[:3].tolist() == [5, 5, 5]


def test_what_the_engine_has_computed_is_lent(held):
    store, numbers = held
    numbers.fetch("gradients")
    with numbers.gpu.current():
        numbers.buffer("gradients").fill(7.0)
    numbers.changed("gradients")
    assert store.gradients_in_place().get()[:3].tolist() == [7, 7, 7]


@pytest.mark.parametrize(("variables", "number"), [({}, 0), ({"LOCAL_RANK": "0"}, 0), ({"SLURM_LOCALID": "1"}, 1)])
def test_each_rank_of_a_machine_takes_another_gpu(standin, monkeypatch, variables, number):
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(standin.cuda.runtime, "getDeviceCount", lambda: 2)
    assert CudaEngine().gpu.number == number
