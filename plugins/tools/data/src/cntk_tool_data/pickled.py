"""Batches of CIFAR-10's "python version": pickles, read without running anything that they name.

A pickle may ask for any function of any module to be called. The reader here knows three names, those of a NumPy array,
and gives records in their place that only keep what they are told; anything else ends it.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import numpy as np

from cntk_core.api import DataError, Location
from cntk_tool_data.files import Pixels


class _Kept:
    """Stands for an array or its data type: keeps arguments and state, and does nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Kind(_Kept):
    """Stands for a data type."""


class _Array(_Kept):
    """Stands for an array."""


_KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Kept,
    ("numpy", "dtype"): _Kind,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name."""
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        """Refuse objects outside the file."""
        raise pickle.UnpicklingError("it asks for an object outside the file")


def read_batch(data: bytes, name: str, width: int) -> tuple[Pixels, Pixels]:
    """Return labels ``(images,)`` and pixels ``(images, width)`` of a batch.

    Raises:
        DataError: it is no batch, is damaged, or asks for anything but an array.
    """
    try:
        found = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    except _DAMAGE as error:
        raise DataError(f"this is no batch of CIFAR-10: {error}", where=Location(name)) from None
    if not isinstance(found, dict):
        raise DataError("this is no batch of CIFAR-10: it holds no dictionary", where=Location(name))
    pixels = _array(found.get(b"data"), name, width)
    labels = found.get(b"labels")
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise DataError("this is no batch of CIFAR-10: it has no list of labels", where=Location(name))
    if len(labels) != len(pixels):
        raise DataError(f"there are {len(labels)} labels, but {len(pixels)} images", where=Location(name))
    return np.array(labels, np.uint8), pixels


_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    struct.error,
)
"""What reading a damaged pickle ends with."""


def _array(found: Any, name: str, width: int) -> Pixels:
    """Make an array of unsigned bytes of what was kept."""
    match found:
        case _Array(state=(int(), (int(rows), int(columns)), _Kind(arguments=(kind, *_)), _, bytes(raw))) if (
            columns == width and rows >= 0 and len(raw) == rows * columns and kind in (b"u1", "u1")
        ):
            return np.frombuffer(raw, np.uint8).reshape(rows, columns)
        case _:
            raise DataError(
                f"this is no batch of CIFAR-10: 'data' is no array of bytes with {width} columns", where=Location(name)
            )
