"""Puts this folder on the path, and the stand-in for CuPy in CuPy's place where there is no GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests for a real GPU out unless they are asked for."""
    if "gpu" in config.option.markexpr:
        return
    chosen = [item for item in items if item.get_closest_marker("gpu") is None]
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("gpu") is not None])
    items[:] = chosen


@pytest.fixture(scope="session")
def standin():
    """The stand-in, as the module ``cupy``."""
    import cupy_standin
    from cntk_engine_cuda import blas
    from cupy_standin import kernels, library

    if kernels.COMPILER is None:
        pytest.skip("no C++ compiler: the stand-in for CuPy cannot run kernels")
    names = {"cupy": cupy_standin, "cupy.cublas": cupy_standin.cublas}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in names.items():
            patch.setitem(sys.modules, name, module)
        patch.setattr(blas, "load_library", lambda cupy: library.Cublas())
        yield cupy_standin
