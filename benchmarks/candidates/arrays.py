"""The array library of the device, for candidates that measure the machine."""

from __future__ import annotations

import importlib
from typing import Any

from candidates.devices import device


def library() -> Any:
    """Return NumPy, or CuPy where a GPU computes.

    Raises:
        ImportError: CuPy is not installed.
    """
    return importlib.import_module("cupy" if device() == "cuda" else "numpy")


def wait() -> None:
    """Return when the device has done what it was told."""
    if device() == "cuda":
        library().cuda.get_current_stream().synchronize()
