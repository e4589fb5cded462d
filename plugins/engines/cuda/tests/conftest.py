"""Puts this folder on the path, and the stand-in for CuPy in CuPy's place where there is no GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


SHARES = {"test_updates": 8, "test_gradients": 4, "test_values": 2, "test_sparse_updates": 4, "test_op": 2}
"""Tests of the contract of which the stand-in, on which kernels are slow, has each n-th; --thorough has all."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests for a real GPU unless they are asked for, and a part of the others."""
    counts = dict.fromkeys(SHARES, -1)
    left_out = []
    for item in items:
        name = item.name.partition("[")[0]
        if item.get_closest_marker("gpu") is not None:
            if "gpu" not in config.option.markexpr:
                left_out.append(item)
        elif name in SHARES and "TestOnStandIn" in item.nodeid and not config.getoption("--thorough"):
            counts[name] += 1
            if counts[name] % SHARES[name]:
                left_out.append(item)
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


@pytest.fixture(scope="session")
def standin():
    """The stand-in, as the module ``cupy``."""
    import cupy_standin
    from cntk_engine_cuda import blas
    from cupy_standin import kernels, library

    if kernels.COMPILER is None:
        pytest.skip("no C++ compiler: the stand-in for CuPy cannot run kernels")
    names = {"cupy": cupy_standin, "cupy.cublas": cupy_standin.cublas, "cudnn": None}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in names.items():
            patch.setitem(sys.modules, name, module)
        patch.setattr(blas, "load_library", lambda cupy: library.Cublas())
        yield cupy_standin


@pytest.fixture
def cudnn(standin, monkeypatch):
    """The stand-in for cuDNN's frontend, as the module ``cudnn``; without it, convolutions are products of matrices."""
    import cudnn_standin

    monkeypatch.setitem(sys.modules, "cudnn", cudnn_standin)
    monkeypatch.setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "none")
    for name, value in vars(cudnn_standin.graphs.Refusals()).items():
        monkeypatch.setattr(cudnn_standin.state, name, value)
    return cudnn_standin
