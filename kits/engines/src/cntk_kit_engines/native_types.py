"""Values of native functions as their text in LLVM's language has them: numbers, arrays, several together."""

from __future__ import annotations

import re
import struct

import attrs
import numpy as np

FAST = "reassoc nsz arcp contract"
"""Liberties that keep NaN and infinities as they are."""

NAMES = {
    "boolean": "i1",
    "bool": "i1",
    "uint8": "i8",
    "int32": "i32",
    "int64": "i64",
    "intp": "i64",
    "float32": "float",
    "float64": "double",
    "void": "void",
}
"""Types by the names that NumPy and signatures have for them. A byte counts as a number without sign."""

SIZES = {"i1": 1, "i8": 1, "i32": 4, "i64": 8, "float": 4, "double": 8}

DTYPES = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.uint8),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}

_RANKS = ("i1", "i8", "i32", "i64")


class NotNative(Exception):
    """A function cannot be compiled; the text says where and why. A mistake of who wrote it, never of a user."""


@attrs.frozen
class Number:
    """A number: its type, and what stands for it in the text (a register or a literal)."""

    type: str
    text: str


@attrs.frozen
class View:
    """An array in one piece: type of its elements, address of the first, and its sizes (``i64``)."""

    item: str
    pointer: str
    sizes: tuple[str, ...]


@attrs.frozen
class Several:
    """Several values: what a function returns, or an array's shape."""

    values: tuple[Number | View, ...]


Value = Number | View | Several


@attrs.frozen
class Parameter:
    """The type of a parameter: of a number, or of the elements of an array with so many axes."""

    item: str
    axes: int = 0

    @property
    def slots(self) -> int:
        """Places that an argument takes in a block: a number one, an array its address and its sizes."""
        return 1 + self.axes


_PARAMETER = re.compile(r"(\w+)(?:\[((?::, )*)::1\])?")


def parse_signature(signature: str) -> tuple[str, tuple[Parameter, ...]]:
    """Return the type of the result and the parameters of ``void(float32[:, ::1], int64)`` and its like.

    Raises:
        NotNative: it is no such text.
    """
    found = re.fullmatch(r"(\w+)\((.*)\)", signature.strip())
    if found is None or found[1] not in NAMES:
        raise NotNative(f"'{signature}' is no signature")
    parts = re.split(r", (?![:])", found[2]) if found[2] else []
    parameters = []
    for part in parts:
        one = _PARAMETER.fullmatch(part.strip())
        if one is None or one[1] not in NAMES:
            raise NotNative(f"'{part}' is no type")
        axes = 0 if one[2] is None else 1 + one[2].count(":")
        parameters.append(Parameter(NAMES[one[1]], axes))
    return NAMES[found[1]], tuple(parameters)


def is_float(type_: str) -> bool:
    """Whether a type is that of real numbers."""
    return type_ in ("float", "double")


def common_type(left: str, right: str) -> str:
    """The type in which two numbers meet: as in numba, an integer of 32 bits or more makes single precision double."""
    if left == right:
        return left
    if is_float(left) or is_float(right):
        return "float" if {left, right} <= {"float", "i1", "i8"} else "double"
    return max(left, right, key=_RANKS.index)


def literal(value: complex) -> Number:
    """A number of Python's."""
    if isinstance(value, bool):
        return Number("i1", "true" if value else "false")
    if isinstance(value, int):
        return Number("i64", str(value))
    assert isinstance(value, float)
    return Number("double", f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")
