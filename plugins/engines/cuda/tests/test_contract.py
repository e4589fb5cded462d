"""The engine keeps the contract of engines: on the stand-in for CuPy, and on a GPU where there is one (-m gpu)."""

from __future__ import annotations

import pytest
from cntk_engine_cuda import CudaEngine

from cntk_core.testing import EngineContract, PackagingContract


@pytest.mark.sampled(8)
@pytest.mark.usefixtures("standin")
class TestOnStandIn(EngineContract):
    engine_class = CudaEngine


class TestPackaging(PackagingContract):
    distribution = "cntk-engine-cuda"
    kind = "engine"
