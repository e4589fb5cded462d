"""What variables have of the original's library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cntk._graph.errors import GraphError

if TYPE_CHECKING:
    from cntk.core import NDArrayView

DATA_TYPES: dict[Any, int] = {np.dtype(np.float32): 1, np.dtype(np.float64): 2, np.dtype(np.float16): 4}
"""The original's numbers of types; 0 is one that is not known."""


def element_type(given: Any) -> Any:
    """Return the type that one of the original's numbers means; other types as they are."""
    numbers = {number: kind.type for kind, number in DATA_TYPES.items()}
    return numbers.get(given, given) if isinstance(given, int) else np.dtype(given).type


class LibraryVariable:
    """Members of all variables."""

    _kind: int
    _shape: Any
    _axes: Any
    _dtype: Any

    def as_string(self) -> str:
        """Return what is printed of it."""
        return repr(self)

    def kind(self) -> int:
        """Return the number of its kind: an input, an output, a parameter, a constant, a placeholder."""
        return self._kind

    def get_data_type(self) -> int:
        """Return the number of its type: 1 for float32, 2 for float64, 4 for float16, 0 where it is not known."""
        return 0 if self._dtype is None else DATA_TYPES[np.dtype(self._dtype)]

    def has_batch_axis(self) -> bool:
        """Return whether it has a batch axis."""
        return any(axis.is_batch_axis for axis in self._axes or ())

    def has_sequence_axis(self) -> bool:
        """Return whether it has a sequence axis."""
        return any(axis.is_sequence_axis for axis in self._axes or ())

    def is_initialized(self) -> bool:
        """Return whether it says what it is: it always does."""
        return True

    def get_value(self) -> NDArrayView:
        """Return the value of a parameter or a constant.

        Raises:
            ValueError: it is another variable.
        """
        raise GraphError(f"{self!r} has no value: parameters and constants have one")

    def current_value_time_stamp(self) -> int:
        """Return how often a program has set the value of a parameter or a constant.

        Raises:
            ValueError: it is another variable.
        """
        raise GraphError(f"{self!r} has no value, so it was never set")


class LibraryKept:
    """Members of parameters and constants."""

    _times_set = 0
    value: Any

    def get_value(self) -> NDArrayView:
        """Return the value."""
        from cntk.core import NDArrayView

        return NDArrayView.from_dense(self.value)

    def current_value_time_stamp(self) -> int:
        """Return how often a program has set the value."""
        return self._times_set

    def clone_as(self, dtype: Any) -> Any:
        """Return a constant with this value in another type, or its number."""
        from cntk.variables import Constant

        return Constant(self.value, dtype=element_type(dtype))

    def record_value_update(self) -> None:
        """Count that the value was set."""
        self._times_set += 1
