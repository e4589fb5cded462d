"""The threads of SciPy's OpenBLAS: made anew when denormals should be flushed there, or kept again.

They keep the floating-point environment of the thread that made them, and nothing can be run in them. But the library
can end them, as it does before a process forks, and make others.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any


class BlasWorkers:
    """The threads of one OpenBLAS.

    Args:
        library: with ``blas_thread_shutdown_`` and ``blas_thread_init``; None where there is no such one.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._flush = False

    def follow(self, *, flush: bool) -> None:
        """Let them have the calling thread's environment, which flushes denormals or not.

        With other threads in the process that might be computing a product, they stay as they are.
        """
        if self._library is None or flush is self._flush or threading.active_count() > 1:
            return
        self._library.blas_thread_shutdown_()
        self._library.blas_thread_init()
        self._flush = flush


def scipy_openblas() -> Any:
    """Return the OpenBLAS in SciPy's wheel, None if SciPy has another library."""
    import scipy

    for path in sorted((Path(scipy.__file__).parents[1] / "scipy.libs").glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(path))
            if library.blas_thread_shutdown_ and library.blas_thread_init:
                return library
        except (OSError, AttributeError):
            continue
    return None
