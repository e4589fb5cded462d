"""Arrays of the stand-in: NumPy arrays in a wrapper that mixes with nothing, as CuPy's do not mix with NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from cupy_standin.streams import Stream, settle, submit


class _Memory:
    def __init__(self, array: np.ndarray) -> None:
        self.ptr = int(array.__array_interface__["data"][0])


def _refuse(value: Any) -> None:
    raise TypeError(f"Unsupported type {type(value)}")


def host(value: Any) -> Any:
    """The NumPy array in an array; numbers as they are. Arrays of NumPy are refused, in lists and tuples, too."""
    if isinstance(value, ndarray):
        return value._array
    if isinstance(value, np.ndarray):
        _refuse(value)
    if isinstance(value, list | tuple):
        return type(value)([host(part) for part in value])
    return value


def device(value: Any) -> Any:
    """What NumPy gave as arrays of the stand-in; numbers become arrays without axes."""
    if isinstance(value, np.ndarray | np.generic):
        return ndarray(np.asarray(value))
    if isinstance(value, tuple | list):
        return type(value)(device(part) for part in value)
    return value


def compute(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call a function of NumPy as CuPy would."""
    settle()
    return device(function(*map(host, arguments), **{name: host(value) for name, value in settings.items()}))


class ndarray:
    """An array that is not NumPy's."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: np.ndarray) -> None:
        assert isinstance(array, np.ndarray)
        self._array = array

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def data(self) -> _Memory:
        """Where it lies."""
        return _Memory(self._array)

    @property
    def T(self) -> ndarray:
        """With its axes in reverse."""
        return ndarray(self._array.T)

    @property
    def device(self) -> int:
        """Number of the GPU."""
        return 0

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "size", "ndim", "nbytes", "strides", "flags", "itemsize"):
            return getattr(self._array, name)
        if name in ("sum", "max", "min", "mean", "prod", "argmax", "argmin", "any", "all", "cumsum", "dot", "clip"):
            return lambda *arguments, **settings: compute(getattr(np.ndarray, name), self, *arguments, **settings)
        if name in ("reshape", "transpose", "swapaxes", "ravel", "squeeze", "view"):
            return lambda *arguments, **settings: ndarray(getattr(self._array, name)(*arguments, **settings))
        if name in ("astype", "copy", "take", "nonzero", "argsort", "flatten", "repeat", "round"):
            return lambda *arguments, **settings: compute(getattr(np.ndarray, name), self, *arguments, **settings)
        raise AttributeError(f"'cupy.ndarray' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return f"standin {self._array!r}"

    def __len__(self) -> int:
        return len(self._array)

    def __array__(self, *arguments: Any, **settings: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def __array_function__(self, *arguments: Any) -> Any:
        raise TypeError("a function of NumPy was given an array of CuPy")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        # A number of NumPy on the left of an operator comes here; anything else is a function of NumPy.
        if method != "__call__" or any(isinstance(value, np.ndarray) for value in inputs):
            raise TypeError("a function of NumPy was given an array of CuPy")
        return compute(function, *inputs, **settings)

    # -- to and from the host -----------------------------------------------------------------------------

    def get(self, stream: Stream | None = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        """Return a copy for the host."""
        settle()
        if out is not None:
            assert out.flags.c_contiguous
            assert (out.shape, out.dtype) == (self._array.shape, self._array.dtype)
            np.copyto(out, self._array)
            return out
        return np.array(self._array, order="C")

    def set(self, array: np.ndarray, stream: Stream | None = None) -> None:
        """Take the values of an array of the host."""
        assert isinstance(array, np.ndarray), "set() takes an array of NumPy"
        if array.dtype != self._array.dtype:
            raise TypeError(f"{array.dtype} array cannot be set to {self._array.dtype} array")
        if array.shape != self._array.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self._array.shape}, new shape: {array.shape}")
        (stream or _current()).add(lambda: np.copyto(self._array, array), [array])

    def item(self, *index: Any) -> Any:
        """Return one element as a number of Python."""
        settle()
        return self._array.item(*index)

    def tolist(self) -> Any:
        """Return lists of numbers."""
        settle()
        return self._array.tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        settle()
        return operator.index(self._array)

    def __bool__(self) -> bool:
        settle()
        return bool(self._array)

    # -- contents -----------------------------------------------------------------------------------------

    def fill(self, value: Any) -> None:
        """Set all elements."""
        number = host(value)
        submit(lambda: self._array.fill(number), self)

    def __getitem__(self, index: Any) -> Any:
        places = host(index)
        if _copies(places):
            return compute(np.ndarray.__getitem__, self, index)
        return ndarray(np.asarray(self._array[places]))

    def __setitem__(self, index: Any, value: Any) -> None:
        places, given = host(index), host(value)
        if isinstance(value, ndarray | int | float | np.generic) and not _copies(places):
            submit(lambda: np.copyto(self._array[places], given, casting="unsafe"), self, value)
            return
        settle()
        self._array[places] = given

    def __iter__(self) -> Any:
        return (device(part) for part in self._array)


def _copies(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, np.ndarray | list | bool) for part in parts)


def _current() -> Stream:
    from cupy_standin.streams import get_current_stream

    return get_current_stream()


def _binary(function: Callable[..., Any], *, reverse: bool) -> Callable[[ndarray, Any], Any]:
    def method(self: ndarray, other: Any) -> Any:
        return compute(function, other, self) if reverse else compute(function, self, other)

    return method


def _in_place(function: Callable[..., Any]) -> Callable[[ndarray, Any], Any]:
    def method(self: ndarray, other: Any) -> Any:
        settle()
        function(self._array, host(other))
        return self

    return method


def _unary(function: Callable[..., Any]) -> Callable[[ndarray], Any]:
    return lambda self: compute(function, self)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul"):
    _function = getattr(operator, f"__{_name}__")
    setattr(ndarray, f"__{_name}__", _binary(_function, reverse=False))
    setattr(ndarray, f"__r{_name}__", _binary(_function, reverse=True))
    setattr(ndarray, f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(ndarray, f"__{_name}__", _binary(getattr(operator, f"__{_name}__"), reverse=False))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(ndarray, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))


# -- functions of the module --------------------------------------------------------------------------------

SAME = frozenset({
    "abs", "add", "all", "amax", "amin", "any", "arange", "argmax", "argmin", "argsort", "bincount",
    "broadcast_arrays", "ceil", "clip", "concatenate", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "diff",
    "divide", "dot", "einsum", "empty_like", "equal", "exp", "expand_dims", "expm1", "eye", "flatnonzero", "flip",
    "floor", "floor_divide", "full_like", "greater", "greater_equal", "hstack", "isfinite", "isinf", "isnan",
    "less", "less_equal", "linspace", "log", "log1p", "logaddexp", "logical_and", "logical_not", "logical_or",
    "matmul", "max", "maximum", "mean", "min", "minimum", "mod", "moveaxis", "multiply", "nan_to_num", "negative",
    "nonzero", "not_equal", "ones_like", "outer", "pad", "power", "prod", "put_along_axis", "ravel", "repeat",
    "reshape", "rint", "roll", "searchsorted", "sign", "sin", "sinh", "sort", "split", "sqrt", "square", "squeeze",
    "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile",
    "transpose", "tril", "triu", "true_divide", "unique", "var", "vstack", "where", "zeros_like",
})  # fmt: skip
"""Functions that CuPy has under the names and with the arguments of NumPy."""

VIEWS = frozenset(["broadcast_to", "expand_dims", "moveaxis", "reshape", "squeeze", "swapaxes", "transpose", "ravel"])


def function(name: str) -> Callable[..., Any]:
    """A function of the module."""
    numpy_function = getattr(np, name)
    if name in VIEWS:
        return lambda array, *arguments, **settings: device(numpy_function(_own(array), *arguments, **settings))
    return lambda *arguments, **settings: compute(numpy_function, *arguments, **settings)


def _own(array: Any) -> np.ndarray:
    if not isinstance(array, ndarray):
        _refuse(array)
    return array._array


def made(name: str) -> Callable[..., ndarray]:
    """A function that makes an array of a shape."""

    def make(shape: Any, *arguments: Any, **settings: Any) -> ndarray:
        if name == "empty":  # what was never written shows
            dtype = np.dtype(settings.get("dtype", arguments[0] if arguments else float))
            filler = np.nan if dtype.kind == "f" else 0x7A if dtype.kind in "iu" else 0
            return ndarray(np.full(shape, filler, dtype))
        return ndarray(getattr(np, name)(shape, *map(host, arguments), **settings))

    return make


def asarray(value: Any, dtype: Any = None, order: str | None = None, **settings: Any) -> ndarray:
    """An array of anything: of an array of the host, too."""
    if isinstance(value, ndarray):
        found = value._array
        if dtype is None or found.dtype == dtype:
            return value
        settle()
        return ndarray(np.asarray(found, dtype=dtype, order=order))
    if isinstance(value, list | tuple):
        value = host(value)
    return ndarray(np.array(value, dtype=dtype, order=order))


def array(value: Any, dtype: Any = None, copy: bool = True, **settings: Any) -> ndarray:
    """A new array of anything."""
    settle()
    return ndarray(np.array(value._array if isinstance(value, ndarray) else value, dtype=dtype))


def ascontiguousarray(value: Any, dtype: Any = None) -> ndarray:
    """An array in one piece."""
    found = asarray(value, dtype)
    if found.flags.c_contiguous:
        return found
    settle()
    return ndarray(np.ascontiguousarray(found._array))


def asnumpy(value: Any, *arguments: Any, **settings: Any) -> np.ndarray:
    """A copy for the host."""
    return value.get() if isinstance(value, ndarray) else np.asarray(value)


def copyto(target: ndarray, source: Any, casting: str = "same_kind", where: Any = None) -> None:
    """Copy values."""
    assert where is None
    given = host(source)
    submit(lambda: np.copyto(_own(target), given, casting=casting), target, source)


def add_at(target: ndarray, index: Any, values: Any) -> None:
    """``cupy.add.at``."""
    settle()
    np.add.at(_own(target), host(index), host(values))


@attrs.frozen
class _Add:
    """``cupy.add``, with its ``at``."""

    at: Callable[..., None] = add_at

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return compute(np.add, *arguments, **settings)


add = _Add()
