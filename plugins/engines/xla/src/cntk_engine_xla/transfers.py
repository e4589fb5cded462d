"""Arrays of the host on their way to the device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from cntk_engine_xla.lowering import Array


def on_device(values: ArrayLike, dtype: Any = None) -> Array:
    """Return a copy on the device that nobody else has: a function may write over it.

    The host copies, because JAX may go on to use the memory of an array that it is given, and because ``jnp.array``
    compiles a function for each shape that it copies: some ten milliseconds for each parameter of a network.
    """
    return jax.device_put(np.array(values, dtype))
