"""Gradients by any nodes with compiled kernels, whose short cuts leave some gradients unwritten in a training."""

from __future__ import annotations

import pytest
from cntk_engine_cpu import CpuEngine

from cntk_testing import EngineContract


class Contract(EngineContract):
    __test__ = False


@pytest.mark.slow
@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    "case",
    [
        "chain float32",
        "classifier float32",  # the gradient by labels is not the kernel's
        "lstm float32",  # slices whose gradients lie in those of the whole
        "bidirectional float64",
        "normalized float32",
        "sparse labels float32",
    ],
)
def test_compiled(case):
    Contract().test_gradients_by_any_nodes(CpuEngine(CpuEngine.options(cpu_kernels="compiled")), case)
