"""Puts this folder on the path, and the stand-in for CuPy in CuPy's place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests for a real GPU unless they are asked for."""
    if "gpu" in config.option.markexpr:
        return
    left_out = {item for item in items if item.get_closest_marker("gpu") is not None}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def made_standin():
    """The stand-in, with the kernels that were compiled for it; not yet in anybody's place."""
    from cntk_testing_gpu.cupy_stand_in import make_cupy, why_not_kernels

    if why_not_kernels():
        pytest.skip(why_not_kernels())
    return make_cupy(devices=1)


@pytest.fixture
def standin(made_standin, monkeypatch):
    """The stand-in, as the module ``cupy``, for one test: others in this process must not find a GPU."""
    from cntk_engine_cuda import blas

    from cntk_testing_gpu.cupy_stand_in import Cublas

    monkeypatch.setitem(sys.modules, "cupy", made_standin)
    monkeypatch.setitem(sys.modules, "cupy.cublas", made_standin.cublas)
    monkeypatch.setitem(sys.modules, "cudnn", None)
    monkeypatch.setattr(blas, "load_library", lambda cupy: Cublas())
    monkeypatch.setattr(blas, "WORKSPACE", 1024)  # each test's engine has one, and cuBLAS's stand-in leaves it alone
    return made_standin


@pytest.fixture(autouse=True)
def _guarded():
    """Nothing is written beside an array of the device."""
    yield
    from cntk_testing_gpu.cupy_stand_in import check_guards

    check_guards()


@pytest.fixture
def cudnn(standin, monkeypatch):
    """The stand-in for cuDNN's frontend, as the module ``cudnn``; without it, convolutions are products of matrices."""
    import cudnn_standin

    monkeypatch.setitem(sys.modules, "cudnn", cudnn_standin)
    monkeypatch.setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "none")
    for name, value in vars(cudnn_standin.graphs.Refusals()).items():
        monkeypatch.setattr(cudnn_standin.state, name, value)
    return cudnn_standin
