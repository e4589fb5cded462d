"""Values of Python in the dictionaries of the original's files, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from cntk_model_cntk2.values import Array, Axis, Float, NDShape, SizeT

_LARGEST_INT = 2**31
_OTHER = "{!r} is no number, text, array, list, or dictionary with texts as keys"


def plain_value(value: Any) -> Any:
    """Return a value as a file can hold it.

    Raises:
        ValueError: it cannot.
    """
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, int | np.integer):
        number = int(value)
        return number if abs(number) < _LARGEST_INT else SizeT(number)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64):
        return Array(tuple(reversed(value.shape)), np.ascontiguousarray(value).reshape(-1))
    raise ValueError(_OTHER.format(value))


def python_value(value: Any) -> Any:
    """Return a value of a file as Python has it."""
    if isinstance(value, NDShape):
        return value.dims
    if isinstance(value, Axis):
        if value.is_static:
            return "ordered", "static", value.index
        return ("ordered" if value.ordered else "unordered"), "dynamic", value.name
    if isinstance(value, Mapping):
        return {key: python_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [python_value(each) for each in value]
    if isinstance(value, Array):
        return value.values.reshape(tuple(reversed(value.dims)))
    if isinstance(value, SizeT):
        return int(value)
    if isinstance(value, Float):
        return float(value)
    return value


__all__ = ["plain_value", "python_value"]
