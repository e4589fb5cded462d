"""Where arrays lie: in the memory of the processor, or in that of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator
from cntk_parallel_onebit.format import Words
from cntk_parallel_onebit.kernels import Kernels, kernels

Array = NDArray[Any]


class Home(Protocol):
    """What can be done with arrays that lie in some place."""

    @property
    def kernels(self) -> Kernels:
        """Kernels for arrays that lie here."""

    def current(self) -> AbstractContextManager[Any]:
        """Within, everything else here is to be called."""

    def view(self, array: Any) -> Array:
        """Return an array that lies here as one that can be calculated with, of the same memory."""

    def put(self, array: Array) -> Array:
        """Bring an array of the processor here."""

    def get(self, array: Array) -> Array:
        """Bring an array that lies here to the processor."""

    def zeros(self, size: int, dtype: Any) -> Array:
        """Return zeros."""

    def allreduce(self, array: Array, communicator: Communicator) -> None:
        """Sum an array over all ranks, in place."""

    def alltoall(self, arrays: Sequence[Array], communicator: Communicator) -> list[Array]:
        """Exchange arrays between all ranks."""

    def allgather(self, words: Words, header: Array, communicator: Communicator) -> list[tuple[Words, Array]]:
        """Return the words and the headers of all ranks; a header is an array of the processor everywhere."""

    def finish(self) -> None:
        """Wait until everything is done that was begun here."""


class Host:
    """Arrays of the processor."""

    @property
    def kernels(self) -> Kernels:
        """The fastest that can run here."""
        return kernels()

    def current(self) -> AbstractContextManager[Any]:
        """Nothing needs to be done."""
        return nullcontext()

    def view(self, array: Any) -> Array:
        """The array itself."""
        found: Array = array
        return found

    def put(self, array: Array) -> Array:
        """The array itself."""
        return array

    def get(self, array: Array) -> Array:
        """The array itself."""
        return array

    def zeros(self, size: int, dtype: Any) -> Array:
        """Return zeros."""
        return np.zeros(size, dtype)

    def allreduce(self, array: Array, communicator: Communicator) -> None:
        """Sum over all ranks, in place."""
        communicator.allreduce(array)

    def alltoall(self, arrays: Sequence[Array], communicator: Communicator) -> list[Array]:
        """Exchange arrays between all ranks."""
        return communicator.alltoall(arrays)

    def allgather(self, words: Words, header: Array, communicator: Communicator) -> list[tuple[Words, Array]]:
        """Send both in one piece."""
        found = communicator.allgather(np.concatenate([words, header.view(words.dtype)]))
        cut = -(header.nbytes // words.itemsize)
        return [(one[:cut], one[cut:].view(header.dtype)) for one in found]

    def finish(self) -> None:
        """Everything is."""


HOST: Home = Host()


def home_of(array: Any) -> Home:
    """Return where an array lies.

    Raises:
        UnsupportedError: on a GPU, and CuPy is not installed.
    """
    if not hasattr(array, "__cuda_array_interface__"):
        return HOST
    from cntk_parallel_onebit.device import device_of

    return device_of(array)
