"""What arguments of functions may be, brought into one form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cntk.axis import Axis

_TYPES: dict[str, Any] = {"float": np.float32, "float32": np.float32, "double": np.float64, "float64": np.float64,
                          "float16": np.float16}  # fmt: skip

_NUMBERED: dict[int, Any] = {1: np.float32, 2: np.float64, 4: np.float16}
"""The numbers that the original's library has for types."""


def is_string(value: Any) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def is_byte_buffer(value: Any) -> bool:
    """Whether a value is a piece of a file in memory."""
    return isinstance(value, bytes | bytearray)


def sanitize_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Raises:
        ValueError: a dimension is no whole number.
    """
    if shape is None:
        return ()
    dims = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if any(not isinstance(dim, int | np.integer) for dim in dims):
        raise ValueError(f"a shape has whole numbers, not {shape!r}")
    return tuple(int(dim) for dim in dims)


def sanitize_dtype_numpy(dtype: Any) -> Any:
    """Return a type of numbers as NumPy has it.

    Raises:
        ValueError: it is none that values can have.
    """
    if dtype is float or dtype is int:
        return np.float64 if dtype is float else np.float32
    if isinstance(dtype, str) and dtype in _TYPES:
        return _TYPES[dtype]
    if type(dtype) is int and dtype in _NUMBERED:
        return _NUMBERED[dtype]
    for known in (np.float32, np.float64, np.float16, np.int8, np.int16):
        if dtype == known:
            return known
    raise ValueError(f'data type "{dtype}" is not supported')


def sanitize_dtype_cntk(dtype: Any) -> Any:
    """Return a type of numbers as functions take it, which is NumPy's."""
    return sanitize_dtype_numpy(dtype)


def sanitize_precision(precision: Any) -> Any:
    """Return the type of numbers that ``float``, ``double`` or a type of NumPy means.

    Raises:
        ValueError: it is none.
    """
    if precision in _TYPES:
        return _TYPES[precision]
    return sanitize_dtype_numpy(precision)


def sanitize_dynamic_axes(axes: Any) -> tuple[Axis, ...]:
    """Return dynamic axes in the order of files: the reverse of Python's.

    Raises:
        TypeError: something is no axis.
        ValueError: two are the same.
    """
    if axes is None:
        return ()
    several = tuple(axes) if isinstance(axes, list | tuple) else (axes,)
    if any(not isinstance(axis, Axis) for axis in several):
        raise TypeError(f"dynamic axes have to be of the type Axis, not {several!r}")
    if len(set(several)) < len(several):
        raise ValueError("an axis is named twice")
    return several[::-1]


def sanitize_axis(axis: Any) -> Axis:
    """Return an axis of a sample as files have it, which count from the other end; dynamic axes as they are.

    Raises:
        TypeError: it is no axis.
    """
    if axis is None:
        return Axis.all_static_axes()
    if isinstance(axis, int | np.integer):
        return Axis(-int(axis) - 1)
    if not isinstance(axis, Axis):
        raise TypeError(f"an axis is a number or of the type Axis, not {axis!r}")
    if axis.is_static_axis and axis != Axis.new_leading_axis():
        return Axis(-1 - axis.static_axis_index())
    return axis


def sanitize_axis_list(axes: Any) -> list[Axis]:
    """Return several axes as :func:`sanitize_axis` returns one."""
    several = axes if isinstance(axes, list | tuple) else [axes]
    return [sanitize_axis(axis) for axis in several]


def sanitize_multi_axis_reduction_list(axes: Any) -> list[Axis]:
    """Return the axes over which something is reduced."""
    return sanitize_axis_list(axes)


def sanitize_permutation(perm: Sequence[int]) -> list[int]:
    """Return a permutation of axes as files have it, which count from the other end.

    Raises:
        ValueError: it is no permutation.
    """
    size = len(perm)
    numbers = [int(axis) + size if axis < 0 else int(axis) for axis in perm]
    if sorted(numbers) != list(range(size)):
        raise ValueError(f"{tuple(perm)} is no permutation of {size} axes")
    return [size - 1 - axis for axis in numbers][::-1]


def sanitize_2d_number(value: Any) -> tuple[Any, Any]:
    """Return a number twice, or two numbers as they are.

    Raises:
        ValueError: there are more.
    """
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise ValueError(f"expected one number or two, not {value!r}")
        return value[0], value[1]
    return value, value


def sanitize_range(value: Any) -> tuple[Any, Any]:
    """Return a range: of one number, from its negative."""
    if isinstance(value, list | tuple):
        return sanitize_2d_number(value)
    return -value, value


def sanitize_random_args(shape: Any, dtype: Any) -> tuple[tuple[int, ...], Any]:
    """Return shape and type of random numbers.

    Raises:
        ValueError: there is no shape, or the type is none that values can have.
    """
    if shape is None:
        raise ValueError("random numbers need a shape")
    return sanitize_shape(shape), sanitize_dtype_numpy(dtype)


def sanitize_pooling_args(window: Any, strides: Any, auto_padding: Any) -> tuple[Any, Any, list[bool]]:
    """Return window, strides and padding of a pooling in one form; padding is in the order of files."""
    return sanitize_shape(window), sanitize_shape(strides), list(reversed(_flags(auto_padding)))


def sanitize_convolution_args(strides: Any, sharing: Any, auto_padding: Any) -> tuple[Any, list[bool], list[bool]]:
    """Return strides, sharing and padding of a convolution in one form; flags are in the order of files."""
    return sanitize_shape(strides), list(reversed(_flags(sharing))), list(reversed(_flags(auto_padding)))


def _flags(values: Any) -> list[bool]:
    return [bool(value) for value in (values if isinstance(values, list | tuple) else [values])]
