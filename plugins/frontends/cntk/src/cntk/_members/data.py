"""What streams and sources have of the original's library."""

from __future__ import annotations

from typing import Any, ClassVar

from cntk._members.views import DENSE, SPARSE


class LibraryStream:
    """Members of :class:`cntk.io.StreamInformation`; what is set of them is set of the stream."""

    m_is_binary: ClassVar[bool] = False
    m_name: str
    storage_format: str
    sample_shape: tuple[int, ...]
    m_element_type: Any

    @property
    def m_storage_format(self) -> int:
        """How numbers are kept: 0 dense, 1 sparse."""
        return SPARSE if self.storage_format == "sparse" else DENSE

    @m_storage_format.setter
    def m_storage_format(self, number: int) -> None:
        self.storage_format = "dense" if number == DENSE else "sparse"

    @property
    def m_sample_layout(self) -> tuple[int, ...]:
        """Shape of a sample."""
        return self.sample_shape

    @m_sample_layout.setter
    def m_sample_layout(self, shape: Any) -> None:
        self.sample_shape = tuple(shape)

    def as_string(self) -> str:
        """Return what is printed of it."""
        return repr(self)

    def __repr__(self) -> str:
        return f"{self.m_name}([{' x '.join(map(str, self.sample_shape))}])"


class LibrarySource:
    """Members of all sources."""

    full_data_sweep: ClassVar[int] = 2**64 - 2
    infinitely_repeat: ClassVar[int] = 2**64 - 1
    default_randomization_window_in_chunks: ClassVar[int] = 128
    next_minibatch: Any

    def get_next_minibatch(self, minibatch_size_in_samples: int, *args: Any) -> Any:
        """Return the next minibatch by stream; nothing at the end.

        Args:
            minibatch_size_in_samples: samples.
            args: a device, which is taken for compatibility.
        """
        return self.next_minibatch(minibatch_size_in_samples)


class LibraryMinibatch:
    """Members of :class:`cntk.io.MinibatchData`."""

    data: Any
    number_of_samples: int
    number_of_sequences: int

    def as_string(self) -> str:
        """Return what is printed of it."""
        return repr(self)

    def __repr__(self) -> str:
        return f"MinibatchData(data={self.data!r}, samples={self.number_of_samples}, seqs={self.number_of_sequences})"
