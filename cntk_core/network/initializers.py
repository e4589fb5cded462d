"""How parameters get their first values (INV 6.14 of the project's reference; formulas in each class)."""

from __future__ import annotations

from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.shapes import Shape


class Initializer(Protocol):
    """Gives the first value of a parameter."""

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return values of a shape (memory order). ``seed`` differs from parameter to parameter."""
        ...


@attrs.frozen
class FixedValue:
    """Every element is ``value``."""

    value: float = 0.0

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return a constant array."""
        return np.full(shape, self.value, dtype)
