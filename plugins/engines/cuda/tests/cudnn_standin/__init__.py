"""A stand-in for cuDNN's Python frontend on the arrays of the stand-in for CuPy: for machines without a GPU.

It knows the part of the frontend that convolutions need, and is as strict: what it does not know it refuses, and so it
does what comes in the wrong order, what has other dimensions, and an execution without work space. It computes in
float64, and rounds results to their type.
"""

from __future__ import annotations

from typing import Any

from cntk_testing_gpu.cupy_stand_in.streams import current_stream
from cudnn_standin import graphs
from cudnn_standin.graphs import Tensor, pygraph, state
from cudnn_standin.notes import build_plan_policy, data_type, heur_mode, numerical_note

__version__ = "1.32.0"

cudnnGraphNotSupportedError = graphs.cudnnGraphNotSupportedError


def backend_version() -> int:
    """The library's version as a number."""
    return 92800


class Handle:
    """A handle on a device."""

    def __init__(self) -> None:
        self.stream: int = 0


def create_handle() -> Handle:
    """Make a handle; it computes on the default stream."""
    if current_stream().capturing:
        raise RuntimeError("CUDNN_STATUS_INTERNAL_ERROR: cudnnCreate while a stream is captured")
    return Handle()


def set_stream(handle: Handle, stream: int) -> None:
    """Choose where the handle computes."""
    if not isinstance(handle, Handle):
        raise TypeError(f"cudnn.set_stream expects a cudnn.Handle, got {type(handle).__name__}")
    if type(stream) is not int:
        raise TypeError(f"a stream is an address, not {type(stream).__name__}")
    handle.stream = stream


__all__ = [
    "Handle",
    "Tensor",
    "backend_version",
    "build_plan_policy",
    "create_handle",
    "cudnnGraphNotSupportedError",
    "data_type",
    "heur_mode",
    "numerical_note",
    "pygraph",
    "set_stream",
    "state",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'cudnn' has no attribute {name!r}")
