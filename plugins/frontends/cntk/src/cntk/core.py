"""Values: arrays as functions take and give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk._graph.errors import GraphError
from cntk._graph.feeding import has_sequences, is_sparse, sequences_of
from cntk._members.views import LibraryValue, LibraryView
from cntk.device import DeviceDescriptor, use_default_device
from cntk.tensor import ArrayMixin

if TYPE_CHECKING:
    from cntk.variables import Variable


def plain_array(value: Any) -> NDArray[Any]:
    """Return a number, an array, a view or a value as an array."""
    to_array = getattr(value, "asarray", None)
    return np.asarray(to_array() if callable(to_array) else value)


class NDArrayView(LibraryView, ArrayMixin):
    """An array of numbers of one type, dense or sparse.

    Args:
        shape: in NumPy's order.
        data_type: float32 or float64.
        device: is taken for compatibility.
    """

    def __init__(self, shape: Any, data_type: Any = np.float32, device: DeviceDescriptor | None = None) -> None:
        from cntk.internal.sanitize import sanitize_dtype_numpy, sanitize_shape

        self._device = device or use_default_device()
        self._data: Any = np.zeros(sanitize_shape(shape), sanitize_dtype_numpy(data_type))
        self._shape: tuple[int, ...] | None = None
        self._read_only = False

    @classmethod
    def _of(cls, data: Any, shape: Any = None, *, device: Any = None, read_only: bool = False) -> NDArrayView:
        made = cls.__new__(cls)
        made._data, made._shape, made._read_only = data, shape, read_only
        made._device = device or use_default_device()
        return made

    @staticmethod
    def from_dense(np_array: Any, device: Any = None, read_only: bool = False, borrow: bool = False) -> NDArrayView:
        """Return a view of an array; ``borrow`` shares its memory.

        Raises:
            TypeError: it is no array.
            ValueError: it is to be borrowed, and its numbers do not lie one after the other.
        """
        if not isinstance(np_array, np.ndarray):
            raise TypeError(f"data must be an array of NumPy, not {type(np_array).__name__}")
        if borrow and not np_array.flags.c_contiguous:
            raise ValueError("an array whose numbers do not lie one after the other cannot be borrowed")
        return NDArrayView._of(np_array if borrow else np.array(np_array), device=device, read_only=read_only)

    @staticmethod
    def from_csr(
        csr_array: Any, device: Any = None, read_only: bool = False, borrow: bool = False, shape: Any = None
    ) -> NDArrayView:
        """Return a view of a sparse matrix in CSR; ``shape`` may give its columns more axes.

        Raises:
            TypeError: it is no CSR matrix.
            ValueError: the shape has another number of elements.
        """
        if not is_sparse(csr_array) or csr_array.format != "csr":
            raise TypeError("only CSR is supported as of now. Please convert your data using 'tocsr()'")
        if shape is not None and int(np.prod(shape)) != int(np.prod(csr_array.shape)):
            raise ValueError(f"the shape {tuple(shape)} does not have the elements of {csr_array.shape}")
        return NDArrayView._of(
            csr_array if borrow else csr_array.copy(), tuple(shape) if shape else None, device=device,
            read_only=read_only,
        )  # fmt: skip

    @staticmethod
    def from_data(data: Any, device: Any = None, read_only: bool = False, borrow: bool = False) -> NDArrayView:
        """Return a view of an array or a CSR matrix; numbers and lists become arrays in single precision."""
        if is_sparse(data):
            return NDArrayView.from_csr(data, device, read_only, borrow)
        if not isinstance(data, np.ndarray):
            data = np.asarray(data, np.float32)
        return NDArrayView.from_dense(data, device, read_only, borrow)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape, in NumPy's order."""
        return tuple(self._data.shape) if self._shape is None else self._shape

    @property
    def dtype(self) -> Any:
        """Type of the numbers."""
        return self._data.dtype.type

    @property
    def device(self) -> DeviceDescriptor:
        """The device that was named."""
        return self._device

    @property
    def is_read_only(self) -> bool:
        """Whether it must not be changed."""
        return self._read_only

    @property
    def is_sparse(self) -> bool:
        """Whether it is a CSR matrix."""
        return is_sparse(self._data)

    def _held(self) -> Any:
        return self._data

    def as_shape(self, shape: Any) -> NDArrayView:
        """Return a view of the same numbers in another shape.

        Raises:
            ValueError: it has another number of elements, or is sparse.
        """
        if self.is_sparse:
            raise ValueError("a sparse view cannot have another shape")
        return NDArrayView._of(self._data.reshape(shape), device=self._device, read_only=self._read_only)

    def slice_view(self, start_offset: Any, extent: Any, read_only: bool = True) -> NDArrayView:
        """Return a part of it that shares its memory.

        Args:
            start_offset: where the part begins, for each axis.
            extent: how large it is along the last so many axes; along those in front it is one element.
            read_only: it must not be changed.
        """
        begins, sizes = tuple(start_offset), tuple(extent)
        outer = len(begins) - len(sizes)
        index: list[Any] = list(begins[:outer])
        index += [slice(begin, begin + size) for begin, size in zip(begins[outer:], sizes, strict=True)]
        return NDArrayView._of(self._data[tuple(index)], device=self._device, read_only=read_only)


class Value(LibraryValue, ArrayMixin):
    """A minibatch of one variable: sequences of any lengths, or samples.

    Args:
        batch: an array ``(sequences, frames, *shape)`` or ``(samples, *shape)``, or an :class:`NDArrayView`.
        seq_starts: for each sequence whether it begins here; otherwise it goes on from the minibatch before.
        device: is taken for compatibility.
    """

    ONE_HOT_SKIP = one_hot_skip = 2**32 - 1

    def __init__(self, batch: Any, seq_starts: Sequence[bool] | None = None, device: Any = None) -> None:
        self._device = device or use_default_device()
        self._read_only = False
        self._starts = None if seq_starts is None else list(seq_starts)
        self._variable: Variable | None = None
        self._list: list[Any] | None = None
        self._data: Any = None
        if isinstance(batch, list | tuple) and not _is_regular(batch):
            self._list = [_plain(each) for each in batch]
        else:
            self._data = _plain(batch)

    @classmethod
    def _of(cls, variable: Variable | None, sequences: list[Any], *, device: Any = None) -> Value:
        """Return the value of sequences (or samples with one frame each) of a variable."""
        made = cls.__new__(cls)
        made._device, made._read_only, made._starts = device or use_default_device(), False, None
        made._variable, made._list, made._data = variable, sequences, None
        return made

    @staticmethod
    def create(
        var: Variable, data: Any, seq_starts: Sequence[bool] | None = None, device: Any = None, read_only: bool = False
    ) -> Value:
        """Return the value of a variable.

        Args:
            var: the variable.
            data: a list with an array or a CSR matrix for each sequence or sample, or one array of them.
            seq_starts: for each sequence whether it begins here.
            device: is taken for compatibility.
            read_only: it must not be changed.

        Raises:
            ValueError: the data do not fit the variable, or are of other types.
        """
        if isinstance(data, Value):
            return data
        if not (var._axes or ()):
            made = Value(np.asarray(plain_array(data), var._dtype), device=device)
            made._variable = var
            return made
        if isinstance(data, NDArrayView) and not data.is_sparse:
            data = data.asarray()
        found = sequences_of(var, data)
        _check_types(found, data)
        made = Value._of(var, [each if is_sparse(each) else np.asarray(each, var._dtype) for each in found],
                         device=device)  # fmt: skip
        made._starts = None if seq_starts is None else list(seq_starts)
        made._read_only = read_only
        return made

    @staticmethod
    def one_hot(batch: Any, num_classes: Any, dtype: Any = None, device: Any = None) -> Value:
        """Return one-hot samples of whole numbers.

        Args:
            batch: a list of numbers for each sequence; :data:`ONE_HOT_SKIP` gives zeros.
            num_classes: how many elements a sample has; of a shape, the last of its axes.
            dtype: float32 or float64.
            device: is taken for compatibility.

        Raises:
            ValueError: something is no whole number, or too large.
        """
        from scipy.sparse import csr_matrix

        shape = (num_classes,) if isinstance(num_classes, int | np.integer) else tuple(num_classes)
        width, inner = int(np.prod(shape)), int(shape[-1])
        typed = np.float32 if dtype is None else dtype
        rows = list(batch.asarray() if isinstance(batch, NDArrayView) else batch)
        sequences = [list(each) if isinstance(each, list | tuple | np.ndarray) else [each] for each in rows]
        found: list[Any] = []
        for numbers in sequences:
            given = np.asarray(numbers)
            if given.size and given.dtype.kind not in "iu":
                raise ValueError("supplied index is not a whole number")
            there = given != Value.ONE_HOT_SKIP
            if np.any(given[there] >= inner) or np.any(given[there] < 0):
                raise ValueError(f"one-hot numbers have to be below {inner}")
            per = width // inner
            frames = given.size // per
            place = np.arange(given.size)
            columns = (place % per) * inner + given
            matrix = csr_matrix(
                (np.ones(int(there.sum()), typed), (place[there] // per, columns[there])), shape=(frames, width)
            )
            found.append(matrix)
        made = Value._of(None, found, device=device)
        made._shape_of_samples = shape
        return made

    _shape_of_samples: tuple[int, ...] | None = None

    @property
    def data(self) -> NDArrayView:
        """The numbers as one array ``(sequences, longest, *shape)``, zeros behind the ends of sequences."""
        if self._list and self.is_sparse:
            return self._sparse_data(self._list)
        return NDArrayView._of(self.asarray(), device=self._device)

    def _sparse_data(self, rows: list[Any]) -> NDArrayView:
        from scipy.sparse import csr_matrix, vstack

        longest, width = max(each.shape[0] for each in rows), rows[0].shape[1]
        padded = [vstack([each, csr_matrix((longest - each.shape[0], width), dtype=each.dtype)]) for each in rows]
        return NDArrayView._of(vstack(padded, format="csr"), self.shape, device=self._device)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of :attr:`data`."""
        if self._list is not None and self._list and is_sparse(self._list[0]):
            width = self._shape_of_samples or self._sample()
            if self._variable is not None and not has_sequences(self._variable):
                return len(self._list), *width
            return len(self._list), max(each.shape[0] for each in self._list), *width
        return tuple(np.shape(self.asarray()))

    def _sample(self) -> tuple[int, ...]:
        if self._variable is not None:
            return self._variable.shape
        assert self._list is not None
        return (int(self._list[0].shape[1]),)

    @property
    def mask(self) -> NDArray[Any] | None:
        """For each frame of :attr:`data` 2 where a sequence begins, 1 where it goes on, 0 behind its end."""
        if self._list is None or (self._variable is not None and not has_sequences(self._variable)):
            return None
        lengths = [each.shape[0] for each in self._list]
        if len(set(lengths)) < 2 and self._starts is None:
            return None
        found = np.zeros((len(lengths), max(lengths, default=0)), np.int8)
        for row, length in enumerate(lengths):
            found[row, :length] = 1
            if length and (self._starts is None or self._starts[row]):
                found[row, 0] = 2
        return found

    @property
    def is_sparse(self) -> bool:
        """Whether it is sparse."""
        return is_sparse(self._data) or (self._list is not None and bool(self._list) and is_sparse(self._list[0]))

    @property
    def is_read_only(self) -> bool:
        """Whether it must not be changed."""
        return self._read_only

    @property
    def is_valid(self) -> bool:
        """Whether it has its numbers, and no later evaluation has taken their place in the function that gave it."""
        return not (self._erased or self._outdated)

    @property
    def device(self) -> DeviceDescriptor:
        """The device that was named."""
        return self._device

    @property
    def dtype(self) -> Any:
        """Type of the numbers."""
        some = self._data if self._list is None else self._list[0]
        return some.dtype.type

    def _held(self) -> Any:
        """Return the numbers as one array; sparse ones of several sequences as a list of CSR matrices."""
        if self._list is None:
            return self._data
        if self.is_sparse:
            return self._list[0] if len(self._list) == 1 else list(self._list)
        if self._variable is not None and not has_sequences(self._variable):
            return np.concatenate(self._list)
        longest = max((each.shape[0] for each in self._list), default=0)
        sample = self._list[0].shape[1:] if self._list else ()
        found = np.zeros((len(self._list), longest, *sample), self.dtype)
        for row, each in enumerate(self._list):
            found[row, : each.shape[0]] = each
        return found

    def as_sequences(self, variable: Variable | None = None) -> list[Any]:
        """Return a list with one array ``(frames, *shape)``, or CSR matrix, for each sequence.

        Raises:
            ValueError: it is sparse, or a variable without sequences is named.
        """
        if variable is not None and not has_sequences(variable):
            raise ValueError(f"{variable} has no sequences")
        if self._list is not None:
            return list(self._list)
        return list(self._data)

    def for_variable(self, variable: Variable) -> list[Any]:
        """Return the sequences (or samples with one frame each) of a variable.

        Raises:
            GraphError: they do not fit it.
        """
        if self._list is None:
            return sequences_of(variable, self._data)
        found = self._list
        if not has_sequences(variable):
            found = [each[index : index + 1] for each in found for index in range(each.shape[0])]
        if self.is_sparse and not variable.is_sparse:
            return [each.toarray().reshape(-1, *variable.shape) for each in found]
        return list(found)


def _is_regular(batch: Any) -> bool:
    return not any(isinstance(each, NDArrayView) or is_sparse(each) for each in batch) and len(
        {np.shape(plain_array(each)) for each in batch}
    ) < 2  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, NDArrayView | Value):
        value = value.asarray()
    if is_sparse(value):
        return value.tocsr()
    array = np.asarray(value)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def _check_types(found: list[Any], data: Any) -> None:
    kinds = {is_sparse(each) for each in found}
    if len(kinds) > 1:
        raise GraphError("sparse and dense sequences cannot be in one minibatch")
    if any(is_sparse(each) and each.format != "csr" for each in (data if isinstance(data, list) else ())):
        raise GraphError("only CSR is supported as of now. Please convert your data using 'tocsr()'")


def asarray(value: Any, dtype: Any = None) -> NDArray[Any]:
    """Return a value as an array."""
    found = plain_array(value)
    return found if dtype is None else found.astype(dtype)


def asvalue(variable: Variable, data_array: Any) -> Value:
    """Return an array as a value of a variable.

    Raises:
        ValueError: it does not fit.
    """
    return Value.create(variable, data_array)


def user_function(user_func: Any) -> Any:
    """Return a user's function so that it can be combined with others.

    Raises:
        TypeError: it is none.
    """
    from cntk.ops import as_composite
    from cntk.ops._user import UserFunction
    from cntk.ops.functions import Function

    if isinstance(user_func, Function) and not isinstance(user_func, UserFunction):
        return as_composite(user_func)
    if not isinstance(user_func, UserFunction):
        raise TypeError("user_function() takes a UserFunction")
    user_func._declare()
    return as_composite(user_func)
