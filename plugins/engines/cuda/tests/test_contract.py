"""The engine keeps the contract of engines: on the stand-in for CuPy, and on a GPU where there is one (-m gpu)."""

from __future__ import annotations

import pytest
from cntk_engine_cuda import CudaEngine

from cntk_core.api import Unavailable
from cntk_testing import EngineContract, PackagingContract


# Kernels are slow on the stand-in.
@pytest.mark.thinned(
    1,
    test_updates=16,
    test_gradients=8,
    test_values=4,
    test_sparse_updates=8,
    test_op=2,
    test_gradients_by_any_nodes=30,
    test_op_gradients_by_inputs=60,
    test_sequences=3,
    test_nan_and_infinities_show=2,
    test_inputs_without_sequences=2,
    test_free_dimensions=2,
    test_training_on_free_dimensions=2,
    test_programs_can_be_pickled=2,
)
@pytest.mark.sampled(8, test_op=4)
@pytest.mark.usefixtures("standin")
class TestOnStandIn(EngineContract):
    engine_class = CudaEngine
    array_module = "cupy stand-in"


@pytest.fixture(scope="module")
def real_engine() -> CudaEngine:
    """An engine on a GPU; its kernels serve all tests. Without one, the reason."""
    answer = CudaEngine.availability()
    if isinstance(answer, Unavailable):
        pytest.skip(f"{answer.reason} {answer.hint}")
    return CudaEngine()


@pytest.mark.gpu
class TestOnGpu(EngineContract):
    engine_class = CudaEngine
    array_module = "cupy"

    @pytest.fixture
    def engine(self, real_engine):
        return real_engine


class TestPackaging(PackagingContract):
    distribution = "cntk-engine-cuda"
    kind = "engine"
