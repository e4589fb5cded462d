"""Sums of the scalar roots: on the device until somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from cntk_core.api import Node
from cntk_engine_xla.lowering import Array


class Totals:
    """The sums of the scalar roots since they were last read.

    Args:
        scalars: the roots, in the order of :attr:`array`.
        hosted: those of them that the host computes.

    Attributes:
        places: of each root in the sums.
    """

    def __init__(self, scalars: Sequence[Node], hosted: Collection[Node]) -> None:
        self.places = {node: place for place, node in enumerate(scalars)}
        self._array: Array = np.zeros(len(scalars), np.float64)
        self._hosted = {node.name: 0.0 for node in scalars if node in hosted}

    def read(self) -> dict[str, float]:
        """Return the sums by name."""
        sums = dict(zip(self.places, np.asarray(self._array).tolist(), strict=True))
        return {node.name: self._hosted.get(node.name, number) for node, number in sums.items()}

    def write(self, totals: Mapping[str, float]) -> None:
        """Go on from other sums."""
        self._array = np.array([totals[node.name] for node in self.places], np.float64)
        self._hosted = {name: totals[name] for name in self._hosted}

    def add(self, node: Node, number: float) -> None:
        """Add what the host has computed."""
        self._hosted[node.name] += number

    def lend(self) -> Array:
        """Return the sums on the device, for a function that gives them back in another array (:meth:`put`)."""
        if isinstance(self._array, np.ndarray):
            import jax.numpy as jnp

            self._array = jnp.array(self._array)  # a copy: it will be written over
        return self._array

    def put(self, array: Array) -> None:
        """Take the sums back."""
        self._array = array
