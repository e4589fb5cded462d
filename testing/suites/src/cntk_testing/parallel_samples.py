"""What the contracts of parallel training share: arrays, a store of parameters, gradients of ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.parallel import Communicator, StepCounts
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Parameter

RunRanks = Callable[[int, Callable[[Communicator], Any]], list[Any]]
Array = NDArray[Any]

STEPS = 4
"""Updates of a run of a parallelizer."""


def numbers_of(rank: int, dtype: Any, size: int = 257) -> Array:
    """Numbers of very different sizes, so that the order of a sum shows in its last bits."""
    rng = np.random.default_rng([rank, size])
    return (rng.normal(size=size) * 10.0 ** rng.integers(-6, 7, size=size)).astype(dtype)


def serial_sum(arrays: list[Array]) -> Array:
    """The sum in the order given."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


def store_of(dtype: Any = np.float32) -> ParameterStore:
    """A store of two parameters, the same each time."""
    rng = np.random.default_rng(2)
    shapes = {"W": (7, 5), "b": (5,)}
    return ParameterStore([Parameter.make(name, s, value=rng.normal(size=s)) for name, s in shapes.items()], dtype)


def fill_gradients(store: ParameterStore, rank: int, step: int) -> None:
    """Gradients of a rank in a step."""
    store.gradients[...] = numbers_of(1000 * step + rank, store.dtype, store.gradients.size)


def counts_of(rank: int, step: int) -> StepCounts:
    """Counts of a rank in a step; some ranks have no samples, but never all of them."""
    samples = (3 * rank + step + 1) % 5
    return StepCounts(samples, {"ce": 0.5 * samples, "err": float(rank)})


def gradients_in(store: ParameterStore) -> Array:
    """The gradients of all parameters, without what lies between them in the buffer."""
    return np.concatenate([store.gradient(parameter).reshape(-1) for parameter in store.parameters])


def gradients_of(rank: int, step: int, dtype: Any = np.float32) -> Array:
    """What :func:`gradients_in` gives for a rank in a step."""
    store = store_of(dtype)
    fill_gradients(store, rank, step)
    return gradients_in(store)
