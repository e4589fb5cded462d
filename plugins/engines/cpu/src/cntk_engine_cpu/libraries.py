"""oneDNN through cffi, and the number of threads."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

OPENMP = "libgomp.so.1"
"""The library that oneDNN's wheel takes from the system."""


def onednn_path() -> Path | None:
    """Where the wheel ``onednn-cpu-gomp`` put its library, None if it is not installed."""
    found = _library_in(Path(sysconfig.get_path("data")) / "lib")
    if found is not None:
        return found
    # Elsewhere it is known only by the list of the wheel's files, which takes longer to read.
    try:
        from importlib.metadata import files

        listed = [Path(str(file.locate())).parent for file in files("onednn-cpu-gomp") or () if "libdnnl" in file.name]
    except ImportError:
        return None
    return next((found for place in listed if (found := _library_in(place)) is not None), None)


def _library_in(folder: Path) -> Path | None:
    names = ("libdnnl.so.3", "libdnnl.so")
    return next((folder / name for name in names if (folder / name).exists()), None)


class OneDnn:
    """The loaded library: ``sgemm``, which takes addresses as numbers, and the number of threads.

    Attributes:
        sgemm_address: where compiled code finds it.
        openmp: addresses of OpenMP's functions, by name; none without OpenMP.
        threads_address: where it finds the function that sets the number of threads; 0 without OpenMP.
    """

    def __init__(self, path: Path) -> None:
        from cntk_engine_cpu.onednn_bindings import ffi

        self.path = path
        self.ffi: Any = ffi
        self.library: Any = self.ffi.dlopen(str(path))
        self.sgemm: Any = self.library.dnnl_sgemm
        self.sgemm_address = int(self.ffi.cast("uintptr_t", self.sgemm))
        self._openmp: Any = self._find_openmp()
        self.openmp = self._openmp_addresses()
        self.threads_address = self.openmp.get("omp_set_num_threads", 0)

    def _find_openmp(self) -> Any:
        try:
            return self.ffi.dlopen(OPENMP)
        except OSError:
            return None

    def _openmp_addresses(self) -> dict[str, int]:
        if self._openmp is None:
            return {}
        names = ("omp_set_num_threads", "omp_get_thread_num", "omp_get_num_threads", "GOMP_parallel")
        return {name: int(self.ffi.cast("uintptr_t", getattr(self._openmp, name))) for name in names}

    def set_threads(self, count: int) -> None:
        """Set the number of threads of the calls that follow from this thread."""
        if self._openmp is not None:
            self._openmp.omp_set_num_threads(count)


def has_openmp() -> bool:
    """Whether the system has the OpenMP that oneDNN's wheel needs; slim containers often have not."""
    try:
        ctypes.CDLL(OPENMP)
    except OSError:
        return False
    return True


@cache
def load_onednn() -> OneDnn | None:
    """Load oneDNN, None if it or cffi is missing or it cannot be loaded here."""
    if importlib.util.find_spec("cffi") is None:
        return None
    path = onednn_path()
    if path is None:
        return None
    try:
        return OneDnn(path)
    except OSError:
        return None


@cache
def blas_address(name: str) -> int:
    """Address of a function of SciPy's BLAS, which takes addresses of all its arguments."""
    from scipy.linalg import cython_blas

    functions: Any = cython_blas.__pyx_capi__
    capsule = functions[name]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address: int = python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule))
    return address


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(asked: int) -> int:
    """Number of threads for ``numCPUThreads``: 0 is all (or ``OMP_NUM_THREADS``), below 0 all but that many."""
    available = processors()
    if asked > 0:
        return asked
    if asked < 0:
        return max(1, available + asked)
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else available
