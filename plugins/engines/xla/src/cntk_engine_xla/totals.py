"""Sums of the scalar roots: on the device until somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from cntk_core.api import Node
from cntk_engine_xla.lowering import Array
from cntk_engine_xla.transfers import on_device


class Totals:
    """The sums of the scalar roots since they were last read.

    Args:
        scalars: the roots, in the order of :attr:`array`.
        hosted: those of them that the host computes.

    Attributes:
        places: of each root in the sums.
        array: the sums, of NumPy or on the device. A function may be given the latter (:meth:`lend`) and give it back.
    """

    def __init__(self, scalars: Sequence[Node], hosted: Collection[Node]) -> None:
        self.places = {node: place for place, node in enumerate(scalars)}
        self.array: Array = np.zeros(len(scalars), np.float64)
        self._hosted = {node.name: 0.0 for node in scalars if node in hosted}

    def read(self) -> dict[str, float]:
        """Return the sums by name."""
        sums = dict(zip(self.places, np.asarray(self.array).tolist(), strict=True))
        return {node.name: self._hosted.get(node.name, number) for node, number in sums.items()}

    def write(self, totals: Mapping[str, float]) -> None:
        """Go on from other sums."""
        self.array = np.array([totals[node.name] for node in self.places], np.float64)
        self._hosted = {name: totals[name] for name in self._hosted}

    def add(self, node: Node, number: float) -> None:
        """Add what the host has computed."""
        self._hosted[node.name] += number

    def lend(self) -> Array:
        """Return the sums on the device, for a function that writes over them; another array is put in their place."""
        if isinstance(self.array, np.ndarray):
            self.array = on_device(self.array)
        return self.array
