"""MinibatchData: what a source gives for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk._members.data import LibraryMinibatch
from cntk.core import Value
from cntk.tensor import ArrayMixin

if TYPE_CHECKING:
    from cntk.variables import Variable


class MinibatchData(LibraryMinibatch, ArrayMixin):
    """The data of a stream in a minibatch.

    Args:
        value: the data.
        num_sequences: how many sequences they are.
        num_samples: how many samples these have.
        sweep_end: a sweep over the data ends here.
    """

    def __init__(self, value: Any, num_sequences: int, num_samples: int, sweep_end: bool) -> None:
        self._value = value
        self._rows: Any = None
        self._lengths: NDArray[Any] | None = None
        self._shape: tuple[int, ...] = ()
        self._single = False
        self.number_of_sequences, self.number_of_samples = num_sequences, num_samples
        self.sweep_end = sweep_end

    @classmethod
    def of_rows(
        cls, rows: Any, lengths: NDArray[Any], shape: tuple[int, ...], *, sweep_end: bool, single: bool = False
    ) -> MinibatchData:
        """Return the data of sequences that lie one after the other.

        Args:
            rows: the frames, an array ``(frames, *shape)`` or a CSR matrix.
            lengths: frames of each sequence.
            shape: of a sample.
            sweep_end: a sweep over the data ends here.
            single: they are samples without an axis of steps.
        """
        made = cls(None, len(lengths), int(rows.shape[0]), sweep_end)
        made._rows, made._lengths, made._shape, made._single = rows, lengths, shape, single
        return made

    @property
    def num_sequences(self) -> int:
        """How many sequences there are."""
        return self.number_of_sequences

    @property
    def num_samples(self) -> int:
        """How many samples they have."""
        return self.number_of_samples

    @property
    def end_of_sweep(self) -> bool:
        """Whether a sweep over the data ends here."""
        return self.sweep_end

    @property
    def data(self) -> Value:
        """The data."""
        if self._value is None:
            self._value = self._made()
        found: Value = self._value
        return found

    def _made(self) -> Value:
        made = Value(self._rows) if self._single else Value._of(None, self.sequences())
        made._shape_of_samples = self._shape
        return made

    def sequences(self) -> list[Any]:
        """Return the frames of each sequence."""
        if self._rows is None:
            return list(self.data.as_sequences())
        assert self._lengths is not None
        ends = np.cumsum(self._lengths).tolist()
        return [self._rows[end - length : end] for end, length in zip(ends, self._lengths.tolist(), strict=True)]

    def for_variable(self, variable: Variable) -> Any:
        """Return the data as a variable takes them: a list of sequences, or samples ``(samples, *shape)``.

        Raises:
            GraphError: they do not fit it.
        """
        sequences = len(variable.dynamic_axes) > 1
        if self._rows is None or sequences or (self._lengths is not None and (self._lengths != 1).any()):
            found = self.data.for_variable(variable)
            return found if sequences else _stacked(found)
        rows = self._rows if variable.is_sparse or isinstance(self._rows, np.ndarray) else self._rows.toarray()
        return rows if variable.is_sparse else rows.reshape(-1, *variable.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the data: sequences, frames of the longest one, and a sample's."""
        return self.data.shape

    @property
    def mask(self) -> Any:
        """The mask of the data (:attr:`cntk.Value.mask`)."""
        return self.data.mask

    @property
    def is_sparse(self) -> bool:
        """Whether the data are sparse."""
        return self.data.is_sparse if self._rows is None else not isinstance(self._rows, np.ndarray)

    def as_sequences(self, variable: Variable | None = None) -> list[Any]:
        """Return a list with the frames of each sequence."""
        return self.sequences() if variable is None else self.data.as_sequences(variable)

    def asarray(self) -> Any:
        """Return the data as :meth:`cntk.Value.asarray` does."""
        return self.data.asarray()

    def __len__(self) -> int:
        return self.num_sequences


def _stacked(samples: list[Any]) -> Any:
    if samples and not isinstance(samples[0], np.ndarray):
        from scipy.sparse import vstack

        return vstack(samples, format="csr")
    return np.concatenate(samples)
