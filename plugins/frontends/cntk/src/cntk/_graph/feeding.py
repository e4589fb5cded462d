"""Data: what a variable is given, as the core takes it; and values of the core as the original gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk._graph.errors import GraphError

if TYPE_CHECKING:
    from cntk.variables import Variable


def has_sequences(variable: Variable) -> bool:
    """Whether a variable has a sequence axis."""
    return len(variable._axes or ()) > 1


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse matrix of SciPy."""
    return hasattr(value, "tocsr") and hasattr(value, "nnz")


def is_fed_sparse(variable: Variable) -> bool:
    """Whether the core has a sparse input of a variable: by such there are no gradients, and their sizes are known."""
    return variable.is_sparse and not variable.needs_gradient and min(variable._shape or (), default=1) > 0


def sequences_of(variable: Variable, batch: Any) -> list[Any]:
    """Return what is given to a variable as a list: for each sample or sequence an array ``(frames, *shape)``, or CSR.

    A variable without sequences has one frame in each.

    Raises:
        GraphError: it does not fit.
    """
    shape = variable._shape or ()
    if getattr(batch, "is_sparse", False) and any(dim < 0 for dim in shape):
        return sequences_of(variable, batch.asarray().toarray().reshape(batch.shape))
    if getattr(batch, "is_sparse", False):  # a view: its first axis is that of samples or sequences
        return _parts(_rows(variable, batch.asarray()), batch.shape[0])
    if is_sparse(batch):
        rows = _rows(variable, batch)
        return _parts(rows, 1 if has_sequences(variable) else rows.shape[0])
    if isinstance(batch, np.ndarray) and batch.ndim == 0:
        batch = [batch.item()]
    if not isinstance(batch, list | tuple | np.ndarray):
        batch = [batch]
    if isinstance(batch, np.ndarray) and _is_alone(variable, batch):
        batch = batch[None]
    return [_frames(variable, each) for each in batch]


def _rows(variable: Variable, matrix: Any) -> Any:
    """Return a sparse matrix with one row for each sample: the last axis of a sample may be a row of what is given."""
    width = int(np.prod(variable._shape or (1,)))
    if width > 0 and matrix.shape[1] != width and matrix.shape[0] * matrix.shape[1] % width == 0:
        matrix = matrix.reshape((-1, width))
    return matrix.tocsr()


def _parts(rows: Any, count: int) -> list[Any]:
    size = rows.shape[0] // max(count, 1)
    return [rows[index * size : (index + 1) * size] for index in range(count)]


def _is_alone(variable: Variable, batch: NDArray[Any]) -> bool:
    """Whether an array is one sample, or one sequence."""
    shape = variable._shape or ()
    if batch.ndim == len(shape) and _fits(shape, batch.shape):
        return True
    steps = has_sequences(variable) and batch.dtype != object and batch.ndim == len(shape) + 1
    return steps and _fits(shape, batch.shape[1:])


def _frames(variable: Variable, value: Any) -> Any:
    shape = variable._shape or ()
    if getattr(value, "is_sparse", False):
        value = value.asarray()
    if is_sparse(value):
        return _rows(variable, value)
    array = _array(variable, value)
    if shape and isinstance(value, np.ndarray) and not value.ndim:
        raise _wrong(variable, array.shape)  # an array of no axes is no sample of some; a plain number may be
    if array.ndim == len(shape) and _fits(shape, array.shape):
        return array[None]
    if array.ndim == len(shape) + 1 and _fits(shape, array.shape[1:]):
        if not has_sequences(variable) and len(array) != 1:
            raise _wrong(variable, array.shape)
        return array
    if array.ndim > len(shape) + 1 and _fits(shape, array.shape[array.ndim - len(shape) :]) and len(array) == 1:
        return _frames(variable, array[0])
    if has_sequences(variable) and shape == (1,) and array.ndim == 1:
        return array[:, None]
    size = int(np.prod(shape)) if all(dim >= 0 for dim in shape) else -1
    if array.size == size and array.ndim < len(shape):
        return array.reshape(1, *shape)
    if array.ndim == 1 + len(shape) and array.shape[-1:] == (1,) and _fits(shape, array.shape[:-1]):
        return array[..., 0][None]
    raise _wrong(variable, array.shape)


def _array(variable: Variable, value: Any) -> NDArray[Any]:
    to_array = getattr(value, "asarray", None)
    if callable(to_array):
        value = to_array()
    try:
        array = np.asarray(value)
    except ValueError:
        raise GraphError(f"the values for {variable} are of several shapes") from None
    if array.dtype == object:
        raise GraphError(f"the values for {variable} are no numbers, or of several shapes")
    return array


def _fits(shape: Sequence[int], given: Sequence[int]) -> bool:
    return len(shape) == len(given) and all(dim in (-3, -1, size) for dim, size in zip(shape, given, strict=True))


def _wrong(variable: Variable, given: Sequence[int]) -> GraphError:
    sizes = " x ".join(map(str, given))
    return GraphError(f"a value of the shape [{sizes}] does not fit the variable {variable}")


def to_core(variable: Variable, batch: Any) -> Any:
    """Return data as the core takes them for the input of a variable.

    Raises:
        GraphError: they do not fit.
    """
    if not (variable._axes or ()):
        array = _array(variable, batch)
        shape = variable._shape or ()
        if not _fits(shape, array.shape) and array.ndim == len(shape) + 1 and len(array) == 1:
            array = array[0]
        if not _fits(shape, array.shape):
            raise _wrong(variable, array.shape)
        return array
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "fiu" and _are_samples(variable, batch):
        return batch
    found = sequences_of(variable, batch)
    if not is_fed_sparse(variable):
        found = [one.toarray().reshape(-1, *(variable._shape or ())) if is_sparse(one) else one for one in found]
    if has_sequences(variable):
        if not variable._shape and found and not is_sparse(found[0]) and all(len(one) == 1 for one in found):
            return np.stack(found)[..., None]  # arrays of one number each could be samples, too
        return found
    if found and is_sparse(found[0]):
        from scipy.sparse import vstack

        return vstack(found, format="csr")
    if not found:
        raise GraphError(f"no samples are given for {variable}")
    return np.concatenate(found)


def _are_samples(variable: Variable, batch: NDArray[Any]) -> bool:
    """Whether an array has samples, as the core takes them, for a variable without sequences."""
    shape = variable._shape or ()
    if batch.shape[1:] != shape or not len(batch) or len(variable._axes or ()) > 1:
        return False
    return min(shape, default=1) > 0 and not is_fed_sparse(variable)


def from_core(variable: Variable, value: Any, *, scalar: bool) -> Any:
    """Return a value of the core in the variable's shape: an array, or a list of arrays of sequences."""
    shape = variable._shape or ()
    if not (variable._axes or ()):
        return _typed(variable, value.reshape(()) if scalar and not shape else value)
    if has_sequences(variable):
        # the core takes numbers of one frame each for samples
        found = list(value) if isinstance(value, list) else list(value.reshape(-1, 1, *shape))
        return [_typed(variable, one.reshape(one.shape[0]) if scalar and not shape else one) for one in found]
    array = np.concatenate(value) if isinstance(value, list) else value
    return _typed(variable, array.reshape(array.shape[0]) if scalar and not shape else array)


def _typed(variable: Variable, value: NDArray[Any]) -> NDArray[Any]:
    dtype = variable._dtype if variable._dtype is not None else value.dtype
    return np.array(value, dtype)


def seeds_of(variable: Variable, value: Any, *, scalar: bool, listed: bool) -> Any:
    """Return gradients that are given for a root as the core takes them: a list where its node has sequences."""
    if not (variable._axes or ()):
        array = np.asarray(value, dtype=float)
        return array.reshape(1) if scalar else array
    found = [np.asarray(one, dtype=float) for one in sequences_of(variable, value)]
    if scalar and not (variable._shape or ()):
        found = [one.reshape(-1, 1) for one in found]
    return found if listed else np.concatenate(found)
