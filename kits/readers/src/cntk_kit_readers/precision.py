"""Values of files in the precision of a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def in_precision(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers in a precision; they are copied only if they have another.

    Infinite values stay what they are.

    Raises:
        OverflowError: a finite value is too large for the precision; the text says which.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = values.astype(dtype, copy=False)
    if np.finfo(dtype).max < np.finfo(values.dtype).max:
        large = np.isinf(found)
        if large.any() and (large := large & np.isfinite(values)).any():
            value = values[large][0]
            raise OverflowError(f"{value:g} is too large for {dtype.name}")
    return found
