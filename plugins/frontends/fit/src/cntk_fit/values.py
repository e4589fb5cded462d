"""What one input is given: an array, a sparse matrix, a tensor, a column, sequences, numbers or names of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Input, elements
from cntk_core.api.builders import BATCH, Free
from cntk_fit.encoding import Encoding
from cntk_fit.rows import Classes

_BLOCK = 1 << 20
"""Elements that are looked at at once for numbers that are not finite."""


def plain(value: Any) -> Any:
    """Return what stands behind a tensor, a column or a list: an array, a sparse matrix, or a list of arrays."""
    if hasattr(value, "tocsr"):
        return _rows_of_sparse(value)
    if hasattr(value, "detach"):  # a tensor of PyTorch, on whatever device
        return value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return _unboxed(value)
    if hasattr(value, "to_numpy"):  # columns of pandas, polars and Arrow
        arrow = type(value).__module__.partition(".")[0] == "pyarrow" and not hasattr(value, "chunks")
        return _unboxed(value.to_numpy(zero_copy_only=False) if arrow else value.to_numpy())
    if isinstance(value, list | tuple):
        return _of_list([one if _is_number(one) else plain(one) for one in value])
    return _unboxed(np.asarray(value))


def _rows_of_sparse(value: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | str | np.generic) or value is None


def _unboxed(array: NDArray[Any]) -> Any:
    """Return an array; of one that holds arrays, a list of these."""
    if array.dtype == object and array.size and array.ndim == 1 and isinstance(array[0], np.ndarray | list | tuple):
        return _of_list([np.asarray(one) for one in array])
    return np.asarray(array)


def _of_list(found: list[Any]) -> Any:
    """Return an array of numbers or words; a list as it is if it holds arrays."""
    if not found or all(map(_is_number, found)):
        return np.asarray(found)
    return [_stacked(one) if isinstance(one, list) else one for one in found]


def _stacked(parts: list[Any]) -> Any:
    """Return what was lists in lists as one array, if all of them are as long."""
    alike = all(isinstance(one, np.ndarray) and one.shape == parts[0].shape for one in parts)
    return np.stack(parts) if alike else parts


class ValueReader:
    """Reads what an input is given.

    Args:
        node: the input.
        encoding: knows the names of its classes, or learns them.
        exact: look for numbers that are not finite.
    """

    def __init__(self, node: Input, encoding: Encoding, *, exact: bool = True) -> None:
        self.node, self.encoding, self.exact = node, encoding, exact
        self.shape = node.known_shape
        self.is_free = any(isinstance(dim, Free) for dim in self.shape)
        self.width = 0 if self.is_free else elements(self.shape)
        self.has_sequences = node.framed and node.axis != BATCH

    def read(self, given: Any) -> Any:
        """Return what rows can be taken of.

        Raises:
            DataError: it is not of the input's shape, has numbers that are not finite, or classes that there are not.
        """
        value = plain(given)
        if isinstance(value, list):
            return self._several(value)
        if not isinstance(value, np.ndarray):
            return self._sparse(value)
        if value.dtype.kind in "OUSM" or (value.dtype == bool and value.ndim == 1 and self.width > 1):
            return self._named(value)
        if value.dtype.kind not in "fiub":
            raise self._error(f"is given values of the type {value.dtype}, which are no numbers")
        if value.ndim:
            self._check_finite(value, rows=value)
        if value.ndim == 1 and value.dtype.kind in "iu" and self.width > 1:
            return self._classes(value)
        if value.ndim == 1 and value.size and self.width > 1 and self.node.name.lower() in self.encoding.labels:
            return self._named(value)  # numbers of classes that came as floating-point numbers
        if not (self._is_sample(value.shape[1:]) or self._are_sequences(value)) or not value.ndim:
            raise self._wrong(f"an array of the shape {_show(value.shape)}")
        return value

    # -- arrays -------------------------------------------------------------------------------------------

    def _sparse(self, value: Any) -> Any:
        if self.is_free or value.ndim != 2 or value.shape[1] != self.width:
            raise self._wrong(f"a sparse matrix of the shape {_show(value.shape)}")
        self._check_finite(value.data, rows=None)
        return value

    def _is_sample(self, sizes: tuple[int, ...]) -> bool:
        if self.is_free:
            pairs = zip(self.shape, sizes, strict=False)
            return len(sizes) == len(self.shape) and all(isinstance(dim, Free) or dim == size for dim, size in pairs)
        return sizes in (self.shape, (self.width,)) or (not sizes and self.width == 1)

    def _are_sequences(self, value: NDArray[Any]) -> bool:
        """Whether an array has sequences of one length."""
        if not self.has_sequences or value.ndim < 2:
            return False
        return (self.node.sparse and value.ndim == 2 and value.dtype.kind in "iu") or self._is_sample(value.shape[2:])

    # -- sequences ----------------------------------------------------------------------------------------

    def _several(self, value: list[Any]) -> Any:
        """Return a list with an array of a sample or of a sequence for each row."""
        if not all(isinstance(one, np.ndarray) or hasattr(one, "tocsr") for one in value):
            raise self._error("is given a list of numbers and arrays")
        first = value[0]
        if isinstance(first, np.ndarray) and self._is_one_sample(first) and self._all_alike(value):
            return self.read(np.stack(value))
        if not self.has_sequences:
            sizes = ", ".join(dict.fromkeys(_show(one.shape) for one in value[:20]))
            raise self._wrong(f"a list of arrays of the shapes {sizes}")
        named = [one for one in value if isinstance(one, np.ndarray) and one.dtype.kind in "OU" and one.size]
        if named:
            known = self.encoding.classes_of(self.node, np.concatenate(named), self.width)
            value = [self.encoding.numbers_of(self.node, one, known) for one in value]
        wrong = [place for place, one in enumerate(value) if not self._is_sequence(one)]
        if wrong:
            place = wrong[0]
            raise self._wrong(f"in row {place} of {len(value)} a sequence of the shape {_show(value[place].shape)}")
        self._check_sequences(value)
        return self._hot(value)

    def _is_one_sample(self, one: NDArray[Any]) -> bool:
        codes = self.has_sequences and one.ndim == 1 and one.dtype.kind in "iu" and self.node.sparse
        return bool(one.ndim) and self._is_sample(one.shape) and not codes

    def _all_alike(self, value: list[Any]) -> bool:
        return all(isinstance(one, np.ndarray) and one.shape == value[0].shape for one in value)

    def _is_sequence(self, one: Any) -> bool:
        if not isinstance(one, np.ndarray):
            return bool(one.ndim == 2 and one.shape[1] == self.width)
        if one.ndim == 1 and one.dtype.kind in "iu" and self.width > 1:
            return True
        return not one.size or (bool(one.ndim) and self._is_sample(one.shape[1:]))

    def _check_sequences(self, value: list[Any]) -> None:
        arrays = [one if isinstance(one, np.ndarray) else one.data for one in value]
        bad = [place for place, one in enumerate(arrays) if one.dtype.kind == "f" and not np.isfinite(one).all()]
        if self.exact and bad:
            raise self._not_finite(len(bad), len(value), bad[0])
        if self.width > 1:
            numbers = [one for one in value if isinstance(one, np.ndarray) and one.ndim == 1 and one.size]
            if numbers:
                self._check_classes(np.concatenate(numbers))

    def _hot(self, value: list[Any]) -> Any:
        """One-hot sequences where numbers of classes were given to an input that is not sparse."""
        hot = self.width > 1 and any(isinstance(one, np.ndarray) and one.ndim == 1 and one.size for one in value)
        if not hot or self.node.sparse:
            return value
        return Classes([np.asarray(one, np.int64) for one in value], self.width, self.shape)

    # -- classes ------------------------------------------------------------------------------------------

    def _named(self, value: NDArray[Any]) -> Any:
        """Return rows of classes that have names."""
        if value.ndim != 1:
            raise self._error(f"is given values of the type {value.dtype}, which are no numbers")
        bad = [place for place, one in enumerate(value) if one is None or one != one]  # NaN is not equal to itself
        if bad:
            raise self._error(
                f"has no value in {len(bad)} of {len(value)} rows; the first is row {bad[0]}",
                "Leave these rows out, or fill them in.",
            )
        known = self.encoding.classes_of(self.node, value, self.width)
        return self._classes(self.encoding.numbers_of(self.node, value, known))

    def _classes(self, numbers: NDArray[Any]) -> Any:
        self._check_classes(numbers)
        return numbers if self.node.sparse else Classes(numbers, self.width, self.shape)

    def _check_classes(self, numbers: NDArray[Any]) -> None:
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.width:
            raise self._error(
                f"has {self.width} classes, and is given numbers of classes from {numbers.min()} to {numbers.max()}",
                f"Classes are numbered from 0 to {self.width - 1}; or give their names.",
            )

    # -- errors -------------------------------------------------------------------------------------------

    def _check_finite(self, value: NDArray[Any], rows: NDArray[Any] | None) -> None:
        """Look for NaN and infinite numbers, block by block."""
        if not self.exact or value.dtype.kind != "f" or not value.size:
            return
        size = max(1, _BLOCK // max(1, math.prod(value.shape[1:])))
        bad = 0
        first = -1
        for begin in range(0, len(value), size):
            found = np.isfinite(value[begin : begin + size])
            if not found.all():
                places = np.flatnonzero(~found.reshape(len(found), -1).all(axis=1))
                bad += len(places)
                first = begin + int(places[0]) if first < 0 else first
        if bad and rows is None:
            raise self._error("is given a sparse matrix with numbers that are not finite (NaN or infinite)", _FILL)
        if bad:
            raise self._not_finite(bad, len(value), first)

    def _not_finite(self, bad: int, count: int, first: int) -> CntkError:
        said = f"is not finite (NaN or infinite) in {bad} of {count} rows; the first is row {first}"
        return self._error(said, _FILL)

    def _error(self, what: str, hint: str | None = None) -> CntkError:
        return DataError(f"the input '{self.node.name}' {what}", hint=hint)

    def _wrong(self, given: str) -> CntkError:
        sample = "" if self.shape == (1,) else "".join(f", {_dim(dim)}" for dim in self.shape)
        wanted = f"an array (rows{sample})"
        if self.width > 1:
            wanted += f", or numbers of classes below {self.width}"
        if self.has_sequences:
            wanted += f", or for sequences a list of arrays (steps{sample})"
        return self._error(f"takes samples of the shape {_show(self.shape)}, and is given {given}", f"Give {wanted}.")


_FILL = "Leave these rows out, or fill them in."


def _dim(dim: Any) -> str:
    return "any" if isinstance(dim, Free) else str(dim)


def _show(shape: Sequence[Any]) -> str:
    return f"({', '.join(_dim(dim) for dim in shape)}{',' if len(shape) == 1 else ''})"


def rows_of(value: Any) -> int:
    """Return how many rows a value has."""
    if isinstance(value, Classes):
        return len(value.numbers)
    return int(value.shape[0]) if hasattr(value, "shape") else len(value)
