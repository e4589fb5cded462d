"""The memory of a Pillow image as an array, without a copy.

Pillow gives its memory away through the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk_reader_image.resample import Bytes

if TYPE_CHECKING:
    from PIL import Image

_PLANES = {"L": 1, "RGB": 4, "RGBA": 4}
"""Bytes of a pixel in Pillow's memory."""
_NAME = b"arrow_array"


class _ArrowArray(ctypes.Structure):
    """``struct ArrowArray`` of the interface."""


_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Memory:
    """Memory that lives as long as its capsule; NumPy keeps this object."""

    def __init__(self, capsule: object, address: int, shape: tuple[int, ...]) -> None:
        self.capsule = capsule
        self.__array_interface__ = {"data": (address, True), "shape": shape, "typestr": "|u1", "version": 3}


def view(image: Image.Image) -> Bytes:
    """Return the pixels of an image ``(rows, columns, planes)``, read-only; colours have a fourth plane.

    Images that lie in several pieces of memory are copied.
    """
    planes = _PLANES.get(image.mode)
    export: Any = getattr(image, "__arrow_c_array__", None)
    if planes is not None and export is not None:
        image.load()
        try:
            _, capsule = export()
        except ValueError:  # several pieces
            return _copy(image)
        address = _address(capsule, image.width * image.height, planes)
        if address is not None:
            return np.asarray(_Memory(capsule, address, (image.height, image.width, planes)))
    return _copy(image)


def _address(capsule: object, pixels: int, planes: int) -> int | None:
    """Return where the bytes begin; None if they do not lie as expected."""
    array = ctypes.cast(_pointer(capsule, _NAME), ctypes.POINTER(_ArrowArray)).contents
    if array.length != pixels or array.offset:
        return None
    if planes > 1:
        if array.n_children != 1:
            return None
        array = array.children[0].contents
        if array.length != pixels * planes or array.offset:
            return None
    return array.buffers[1] if array.n_buffers == 2 and not array.n_children else None


def _copy(image: Image.Image) -> Bytes:
    pixels: Bytes = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]
