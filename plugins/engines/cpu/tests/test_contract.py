"""The engine keeps the contract of engines, with each kind of kernels."""

from __future__ import annotations

import pytest
from cntk_engine_cpu import CpuEngine

from cntk_testing import EngineContract, PackagingContract


class Cpu(EngineContract):
    engine_class = CpuEngine


@pytest.mark.thinned(
    2,
    test_op=1,
    test_gradients_by_any_nodes=12,
    test_op_gradients_by_inputs=24,
    test_sparse_updates=4,
    test_updates=4,
)
@pytest.mark.sampled(8, test_op=4)
class TestCpuEngine(Cpu):
    """As it is by default here."""


@pytest.mark.thinned
@pytest.mark.sampled(6)
class TestPortable(Cpu):
    """Neither a compiler nor oneDNN."""

    @pytest.fixture
    def engine(self, monkeypatch):
        monkeypatch.setenv("CNTK_CPU", "numpy")
        return CpuEngine()


class TestPackaging(PackagingContract):
    distribution = "cntk-engine-cpu"
    kind = "engine"
