"""Arrays of the stand-in: NumPy arrays in a wrapper that mixes with nothing, as CuPy's do not mix with NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_testing_gpu.cupy_stand_in.memory import allocate
from cntk_testing_gpu.cupy_stand_in.streams import (
    CudaError,
    Stream,
    current_device,
    current_stream,
    launch,
    settle,
    submit,
)

Host = NDArray[Any]


def refuse(value: Any) -> None:
    """Raise what CuPy raises for what is not its own."""
    raise TypeError(f"Unsupported type {type(value)}")


def host(value: Any) -> Any:
    """The NumPy array in an array; numbers as they are. Arrays of NumPy are refused, in lists and tuples, too."""
    if isinstance(value, ndarray):
        return value.use()
    if isinstance(value, np.ndarray):
        refuse(value)
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
    """An array that is not NumPy's, on a device: the current one, unless another is given."""

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __init__(self, array: Host, number: int | None = None) -> None:
        assert isinstance(array, np.ndarray)
        self._array = array
        self._device = current_device() if number is None else number

    def use(self) -> Host:
        """What it holds. Raises CudaError if its device is not the current one."""
        if current_device() != self._device:
            raise CudaError(f"an array of device {self._device} is used on device {current_device()}")
        return self._array

    def _like(self, array: Host) -> ndarray:
        return ndarray(array, self._device)

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def data(self) -> SimpleNamespace:
        """Where it lies."""
        return SimpleNamespace(ptr=int(self._array.__array_interface__["data"][0]))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = self._array.__array_interface__
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (interface["data"][0], False), "version": 3}

    @property
    def T(self) -> ndarray:
        """With its axes in reverse."""
        return self._like(self._array.T)

    @property
    def device(self) -> SimpleNamespace:
        """The GPU."""
        return SimpleNamespace(id=self._device)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("shape", "dtype", "size", "ndim", "nbytes", "strides", "flags", "itemsize"):
            return getattr(self._array, name)
        if name in ("sum", "max", "min", "mean", "prod", "argmax", "argmin", "any", "all", "cumsum", "dot", "clip"):
            return lambda *arguments, **settings: compute(getattr(np.ndarray, name), self, *arguments, **settings)
        if name in ("reshape", "transpose", "swapaxes", "ravel", "squeeze", "view"):
            return lambda *arguments, **settings: self._seen(name, *arguments, **settings)
        if name in ("astype", "take", "nonzero", "argsort", "flatten", "repeat", "round"):
            return lambda *arguments, **settings: compute(getattr(np.ndarray, name), self, *arguments, **settings)
        raise AttributeError(f"'cupy.ndarray' object has no attribute '{name}'")

    def _seen(self, name: str, *arguments: Any, **settings: Any) -> ndarray:
        """What a method gives that looks at the same memory; where it has to copy, that is done in its turn."""
        found = getattr(self._array, name)(*arguments, **settings)
        if found.size and not np.may_share_memory(found, self._array):
            made: ndarray = compute(getattr(np.ndarray, name), self, *arguments, **settings)
            return made
        return self._like(found)

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

    def get(self, stream: Stream | None = None, order: str = "C", out: Any = None, blocking: bool = True) -> Host:
        """Return a copy for the host."""
        self.use()
        settle()
        if out is not None:
            assert out.flags.c_contiguous
            assert (out.shape, out.dtype) == (self._array.shape, self._array.dtype)
            np.copyto(out, self._array)
            found: Host = out
            return found
        return np.array(self._array, order="C")

    def set(self, array: Host, stream: Stream | None = None) -> None:
        """Take the values of an array of the host."""
        assert isinstance(array, np.ndarray), "set() takes an array of NumPy"
        if array.dtype != self._array.dtype:
            raise TypeError(f"{array.dtype} array cannot be set to {self._array.dtype} array")
        if array.shape != self._array.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self._array.shape}, new shape: {array.shape}")
        given = self.use()
        (stream or current_stream()).add(lambda: np.copyto(given, array), [array, self])

    def copy(self, order: str = "C") -> ndarray:
        """Return a copy on the device."""
        source, found = self.use(), allocate(self._array.shape, self._array.dtype)
        submit(lambda: np.copyto(found, source), found, self)
        return self._like(found)

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
        number, array = host(value), self.use()
        launch("fill", lambda: array.fill(number), self)

    def __getitem__(self, index: Any) -> Any:
        places = host(index)
        if _copies(places):
            return compute(np.ndarray.__getitem__, self, index)
        return self._like(np.asarray(self._array[places]))

    def __setitem__(self, index: Any, value: Any) -> None:
        places, given, array = host(index), host(value), self.use()
        if _copies(places):
            settle()
            array[places] = given
        else:
            submit(lambda: np.copyto(array[places], given, casting="unsafe"), self, value)

    def __iter__(self) -> Iterator[Any]:
        return (self._like(np.asarray(part)) for part in self._array)


def _copies(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, np.ndarray | list | bool) for part in parts)


def _binary(function: Callable[..., Any], *, reverse: bool) -> Callable[[ndarray, Any], Any]:
    def method(self: ndarray, other: Any) -> Any:
        return compute(function, other, self) if reverse else compute(function, self, other)

    return method


def _in_place(function: Callable[..., Any]) -> Callable[[ndarray, Any], Any]:
    def method(self: ndarray, other: Any) -> Any:
        array, given = self.use(), host(other)
        submit(lambda: function(array, given), self, other)
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
