"""Values or gradients of nodes between units: on the device with padding, on the host without, or in both places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Node
from cntk_engine_xla.inputs import padded
from cntk_engine_xla.lowering import Array


class ValueCache(MutableMapping[Node, NDArray[Any]]):
    """As a mapping it gives the host's arrays: ``(frames, *shape)``, or ``shape``. They may be changed in place.

    Args:
        dtype: of what goes to the device.
        frames: how many frames a node has, and how many rows with its padding.
        repeat: the padding repeats the first frame; otherwise it is zeros.

    Attributes:
        host: arrays without padding.
        device: arrays with padding, which nobody changes: of JAX, or of NumPy.
    """

    def __init__(self, dtype: np.dtype[Any], frames: Callable[[Node], tuple[int, int]], *, repeat: bool) -> None:
        self._dtype = dtype
        self._frames = frames
        self._repeat = repeat
        self.host: dict[Node, NDArray[Any]] = {}
        self.device: dict[Node, Array] = {}

    def __getitem__(self, node: Node) -> NDArray[Any]:
        found = self.host.get(node)
        if found is None:
            array = np.array(self.device[node])
            found = self.host[node] = array[: self._frames(node)[0]] if node.framed else array
        return found

    def __setitem__(self, node: Node, value: NDArray[Any]) -> None:
        self.host[node] = value
        self.device.pop(node, None)

    def __delitem__(self, node: Node) -> None:
        if node not in self:
            raise KeyError(node)
        self.host.pop(node, None)
        self.device.pop(node, None)

    def __iter__(self) -> Iterator[Node]:
        return iter({**self.host, **self.device})

    def __len__(self) -> int:
        return len({**self.host, **self.device})

    def __contains__(self, node: object) -> bool:
        return node in self.host or node in self.device

    def clear(self) -> None:
        """Forget everything."""
        self.host.clear()
        self.device.clear()

    def put(self, node: Node, array: Array) -> None:
        """Take an array of the device; one of NumPy that nobody changes any more will do."""
        self.device[node] = array
        self.host.pop(node, None)

    def put_all(self, nodes: Iterable[Node], arrays: Iterable[Array]) -> None:
        """Take an array of the device for each of some nodes."""
        found = dict(zip(nodes, arrays, strict=True))
        self.device.update(found)
        if self.host:
            for node in found:
                self.host.pop(node, None)

    def put_beside(self, node: Node, arrays: Any) -> None:
        """Take what stands on the device for a host's value, which stays: the elements of a sparse input."""
        self.device[node] = arrays

    def take(self, node: Node) -> Array:
        """Return what a compiled function reads: an array with padding."""
        found = self.device.get(node)
        if found is None:
            value = np.asarray(self.host[node], self._dtype)
            if node.framed:
                value = padded(value, self._frames(node)[1], repeat=self._repeat)
            found = self.device[node] = value
        return found

    def changed(self, node: Node) -> None:
        """Say that the host's array was changed in place."""
        if node in self.host:
            self.device.pop(node, None)
