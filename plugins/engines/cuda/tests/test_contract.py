"""The engine keeps the contract of engines: on the stand-in for CuPy, and on a GPU where there is one (-m gpu)."""

from __future__ import annotations

import pytest
from cntk_engine_cuda import CudaEngine

from cntk_core.api import Unavailable
from cntk_testing import EngineContract, PackagingContract


@pytest.mark.sampled(48)
@pytest.mark.usefixtures("standin")
class TestOnStandIn(EngineContract):
    engine_class = CudaEngine


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

    @pytest.fixture
    def engine(self, real_engine):
        return real_engine


class TestPackaging(PackagingContract):
    distribution = "cntk-engine-cuda"
    kind = "engine"
