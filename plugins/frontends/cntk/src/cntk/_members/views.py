"""What arrays and values have of the original's library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cntk._graph.errors import GraphError
from cntk._members.variables import DATA_TYPES

if TYPE_CHECKING:
    from cntk.core import NDArrayView, Value
    from cntk.device import DeviceDescriptor
    from cntk.variables import Variable

DENSE, SPARSE = 0, 1
"""The original's numbers of storage formats."""


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


class LibraryArray:
    """Members of :class:`cntk.NDArrayView` and :class:`cntk.Value`."""

    shape: Any
    dtype: Any
    is_sparse: Any
    device: Any

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{_size(self.shape)}], {self.device})"

    def as_string(self) -> str:
        """Return what is printed of it."""
        return repr(self)

    def get_data_type(self) -> int:
        """Return the number of its type: 1 for float32, 2 for float64, 4 for float16."""
        return DATA_TYPES[np.dtype(self.dtype)]

    def get_storage_format(self) -> int:
        """Return how the numbers are kept: 0 dense, 1 sparse."""
        return SPARSE if self.is_sparse else DENSE


class LibraryView(LibraryArray):
    """Members of :class:`cntk.NDArrayView`."""

    _data: Any
    _shape: Any
    _device: DeviceDescriptor
    _read_only: bool
    asarray: Any
    _of: Any

    def to_ndarray(self) -> Any:
        """Return the numbers."""
        return self.asarray()

    def alias(self, read_only: bool = False) -> NDArrayView:
        """Return another view of the same numbers."""
        found: NDArrayView = self._of(self._data, self._shape, device=self._device, read_only=read_only)
        return found

    def deep_clone(self, *args: Any) -> NDArrayView:
        """Return a view of a copy of the numbers.

        Args:
            args: a device, which is taken for compatibility, and whether it must not be changed.
        """
        read_only = any(each is True for each in args)
        found: NDArrayView = self._of(self._data.copy(), self._shape, device=self._device, read_only=read_only)
        return found

    def copy_from(self, source: NDArrayView) -> None:
        """Take over the numbers of another view of this shape.

        Raises:
            ValueError: it has another shape, or this one must not be changed.
        """
        self._check_writable()
        if tuple(source.shape) != tuple(self.shape):
            raise GraphError(f"an array of the shape {self.shape} cannot take the numbers of one of {source.shape}")
        if self.is_sparse or source.is_sparse:
            self._data = source._data.copy()
        else:
            self._data[...] = source._data

    def set_value(self, value: Any) -> None:
        """Set all numbers to one.

        Raises:
            ValueError: they must not be changed.
        """
        self._check_writable()
        self._data[...] = value

    def _check_writable(self) -> None:
        if self._read_only:
            raise GraphError("this array is read-only")

    def change_device(self, device: Any) -> None:
        """Name another device."""
        self._device = device

    def is_slice_view(self) -> bool:
        """Return whether it may share its numbers with others, as every view may."""
        return True

    @classmethod
    def _drawn(cls, kind: Any, shape: Any, begin: float, end: float, seed: int, device: Any) -> NDArrayView:
        from cntk.initializer import Initial
        from cntk.internal.sanitize import sanitize_shape

        width = (end - begin) / 2
        numbers = Initial("uniform", scale=width, seed=seed).values(sanitize_shape(shape), kind)
        found: NDArrayView = cls._of(np.asarray(numbers + (begin + width), kind), device=device)
        return found

    @classmethod
    def random_uniform_float(cls, shape: Any, begin: float, end: float, seed: int, device: Any = None) -> NDArrayView:
        """Return uniform random numbers between two, in single precision."""
        return cls._drawn(np.float32, shape, begin, end, seed, device)

    @classmethod
    def random_uniform_double(cls, shape: Any, begin: float, end: float, seed: int, device: Any = None) -> NDArrayView:
        """Return uniform random numbers between two, in double precision."""
        return cls._drawn(np.float64, shape, begin, end, seed, device)


class LibraryValue(LibraryArray):
    """Members of :class:`cntk.Value`."""

    _list: Any
    _data: Any
    _variable: Any
    _read_only: bool
    _erased = False
    _outdated = False
    mask: Any
    _of: Any

    def __len__(self) -> int:
        """How many sequences, or samples, there are."""
        return int(self.shape[0])

    def masked_count(self) -> int:
        """Return how many frames lie behind the ends of sequences."""
        mask = self.mask
        return 0 if mask is None else int((mask == 0).sum())

    def erase(self) -> None:
        """Give the numbers up; the value is not valid from now on."""
        self._list = self._data = None
        self._erased = True

    def alias(self, read_only: bool = False) -> Value:
        """Return another value of the same numbers."""
        found = self._twin()
        found._read_only = read_only
        return found

    def deep_clone(self, read_only: bool = False) -> Value:
        """Return a value of a copy of the numbers."""
        found = self._twin()
        found._list = None if self._list is None else [each.copy() for each in self._list]
        found._data = None if self._data is None else self._data.copy()
        found._read_only = read_only
        return found

    def _twin(self) -> Value:
        found: Value = type(self).__new__(type(self))  # type: ignore[assignment]  # the class that has these members
        found.__dict__.update(self.__dict__)
        return found

    def copy_from(self, source: Self) -> None:
        """Take over the numbers of another value of this shape.

        Raises:
            ValueError: it has another shape.
        """
        if tuple(source.shape) != tuple(self.shape):
            raise GraphError(f"a value of the shape {self.shape} cannot take the numbers of one of {source.shape}")
        copied = source.deep_clone()
        self._list, self._data = copied._list, copied._data

    def unpack_variable_value(self, variable: Variable, *args: Any) -> tuple[tuple[NDArrayView, ...], tuple[bool, ...]]:
        """Return the sequences of a variable one by one, and for each whether it begins here.

        Args:
            variable: the variable.
            args: whether sequences are padded, which they never are, and a device; taken for compatibility.
        """
        from cntk.core import NDArrayView

        rows = self.for_variable(variable)  # type: ignore[attr-defined]  # of the class that has these members
        starts = self._starts  # type: ignore[attr-defined]
        found = tuple(NDArrayView.from_data(each) for each in rows)
        return found, tuple(starts) if starts else (True,) * len(found)

    @classmethod
    def _sequences(cls, shape: Any, sequences: Any, kind: Any, device: Any) -> Value:
        rows = [np.asarray(each, kind).reshape(-1, *shape) for each in sequences]
        found: Value = cls._of(None, rows, device=device)
        return found

    @classmethod
    def create_dense_float(cls, shape: Any, sequences: Any, starts: Any = (), device: Any = None, *more: Any) -> Value:
        """Return a value of sequences of samples of a shape, the numbers of each one after the other."""
        return cls._started(cls._sequences(shape, sequences, np.float32, device), starts)

    @classmethod
    def create_dense_double(cls, shape: Any, sequences: Any, starts: Any = (), device: Any = None, *more: Any) -> Value:
        """Return a value of sequences as :meth:`create_dense_float`, in double precision."""
        return cls._started(cls._sequences(shape, sequences, np.float64, device), starts)

    @classmethod
    def create_one_hot_float(cls, size: Any, sequences: Any, starts: Any = (), *more: Any) -> Value:
        """Return one-hot samples of whole numbers, a list for each sequence."""
        return cls.one_hot(sequences, size, np.float32)  # type: ignore[attr-defined,no-any-return]

    @classmethod
    def create_one_hot_double(cls, size: Any, sequences: Any, starts: Any = (), *more: Any) -> Value:
        """Return one-hot samples as :meth:`create_one_hot_float`, in double precision."""
        return cls.one_hot(sequences, size, np.float64)  # type: ignore[attr-defined,no-any-return]

    @staticmethod
    def _started(value: Value, starts: Any) -> Value:
        value._starts = list(starts) or None
        return value
