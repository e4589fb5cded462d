"""Functions of the stand-in's module: those of NumPy by their names, and those that make arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cntk_testing_gpu.cupy_stand_in.arrays import Host, compute, device, host, ndarray, refuse
from cntk_testing_gpu.cupy_stand_in.memory import allocate, held
from cntk_testing_gpu.cupy_stand_in.streams import settle, submit

SAME = frozenset({
    "abs", "all", "amax", "amin", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh",
    "argmax", "argmin", "argsort", "bincount",
    "broadcast_arrays", "ceil", "clip", "concatenate", "cos", "cosh", "count_nonzero", "cumprod", "cumsum",
    "diagonal", "diff", "divide", "dot", "einsum", "equal", "exp", "expand_dims", "expm1", "eye", "flatnonzero", "flip",
    "floor", "floor_divide", "full_like", "greater", "greater_equal", "hstack", "isfinite", "isinf", "isnan",
    "less", "less_equal", "linspace", "log", "log1p", "logaddexp", "logical_and", "logical_not", "logical_or",
    "matmul", "max", "maximum", "mean", "min", "minimum", "mod", "moveaxis", "multiply", "nan_to_num", "negative",
    "nonzero", "not_equal", "ones_like", "outer", "pad", "power", "prod", "put_along_axis", "ravel", "repeat",
    "reshape", "rint", "roll", "searchsorted", "sign", "sin", "sinh", "sort", "split", "sqrt", "square", "squeeze",
    "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile",
    "transpose", "tril", "triu", "true_divide", "unique", "var", "vstack", "where", "zeros_like",
})  # fmt: skip
"""Functions that CuPy has under the names and with the arguments of NumPy."""

VIEWS = frozenset(
    ["broadcast_to", "diagonal", "expand_dims", "moveaxis", "reshape", "squeeze", "swapaxes", "transpose", "ravel"]
)


def function(name: str) -> Callable[..., Any]:
    """A function of the module."""
    numpy_function = getattr(np, name)
    if name in VIEWS:
        return lambda array, *arguments, **settings: device(numpy_function(_own(array), *arguments, **settings))
    return lambda *arguments, **settings: compute(numpy_function, *arguments, **settings)


def _own(array: Any) -> Host:
    if not isinstance(array, ndarray):
        refuse(array)
    found: Host = array.use()
    return found


def _counted(shape: Any, dtype: Any) -> Host:
    return allocate(shape, float if dtype is None else dtype)


def empty(shape: Any, dtype: Any = None) -> ndarray:
    """An array that was never written, as shows in what is computed of it."""
    return ndarray(_counted(shape, dtype))


def full(shape: Any, value: Any, dtype: Any = None) -> ndarray:
    """An array of one number."""
    found = _counted(shape, np.asarray(value).dtype if dtype is None else dtype)
    found[...] = host(value)
    return ndarray(found)


def zeros(shape: Any, dtype: Any = None) -> ndarray:
    """An array of zeros."""
    return full(shape, 0, float if dtype is None else dtype)


def ones(shape: Any, dtype: Any = None) -> ndarray:
    """An array of ones."""
    return full(shape, 1, float if dtype is None else dtype)


def empty_like(value: ndarray) -> ndarray:
    """The same, as large as another."""
    return empty(value.shape, value.dtype)


def asarray(value: Any, dtype: Any = None, order: str | None = None) -> ndarray:
    """An array of anything: of an array of the host, too."""
    if isinstance(value, ndarray):
        if dtype is None or value.dtype == dtype:
            return value
        settle()
        return ndarray(held(value.use().astype(dtype)))
    if isinstance(value, list | tuple):
        value = host(value)
    return ndarray(held(np.asarray(value, dtype=dtype)))


def array(value: Any, dtype: Any = None, copy: bool = True) -> ndarray:
    """A new array of anything."""
    settle()
    return ndarray(held(np.asarray(value.use() if isinstance(value, ndarray) else value, dtype=dtype)))


def ascontiguousarray(value: Any, dtype: Any = None) -> ndarray:
    """An array in one piece."""
    found = asarray(value, dtype)
    if found.flags.c_contiguous:
        return found
    settle()
    return ndarray(held(found.use()))


def asnumpy(value: Any) -> Host:
    """A copy for the host."""
    found: Host = value.get() if isinstance(value, ndarray) else np.asarray(value)
    return found


def copyto(target: ndarray, source: Any, casting: Any = "same_kind") -> None:
    """Copy values."""
    into, given = _own(target), host(source)
    submit(lambda: np.copyto(into, given, casting=casting), target, source)


class Add:
    """``cupy.add``, with its ``at``."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """The sum."""
        return compute(np.add, *arguments, **settings)

    def at(self, target: ndarray, index: Any, values: Any) -> None:
        """Add values at places, of which some may be the same."""
        settle()
        np.add.at(_own(target), host(index), host(values))


MADE: dict[str, Any] = {
    "add": Add(), "array": array, "asarray": asarray, "ascontiguousarray": ascontiguousarray, "asnumpy": asnumpy,
    "copyto": copyto, "empty": empty, "empty_like": empty_like, "full": full, "ndarray": ndarray, "ones": ones,
    "zeros": zeros,
}  # fmt: skip
"""What the module has of its own, by name."""
