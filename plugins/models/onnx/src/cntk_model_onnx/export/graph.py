"""A graph of ONNX while it is written: nodes, constants and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from cntk_core.api import CntkError, Node

Array = NDArray[Any]

TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(bool): TensorProto.BOOL,
}
"""Types of elements, as files name them."""

END = 2**62
"""An index past all ends."""


class Refused(Exception):
    """A node cannot be written: why, and what helps. The walk over the network says which node it is."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy

    def as_error(self, node: Node) -> CntkError:
        """Return the error that names the node."""
        from cntk_core.api import UnsupportedError

        message = f"{node.op.name} '{node.name}' cannot be written as ONNX: {self.reason}"
        return UnsupportedError(message, where=node.where, hint=self.remedy or None)


class Store:
    """What all parts of a file share.

    Attributes:
        dtype: of the numbers.
        initializers: constant tensors by name; the arrays are those of the network, not copies.
    """

    def __init__(self, dtype: np.dtype[Any], reserved: Sequence[str] = ()) -> None:
        self.dtype = dtype
        self.initializers: dict[str, Array] = {}
        self._names = {*reserved}
        self._constants: dict[tuple[Any, ...], str] = {}

    def unique(self, wanted: str) -> str:
        """Return a name that nothing else has, and keep it."""
        found, number = wanted, 1
        while found in self._names:
            number += 1
            found = f"{wanted}_{number}"
        self._names.add(found)
        return found

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Return the name of a small constant; equal ones are kept once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.unique(f"constant_{len(self._constants) + 1}")
            self.initializers[self._constants[key]] = array
        return self._constants[key]


class GraphWriter:
    """The nodes of a graph or of the body of a loop.

    Attributes:
        store: names and constants.
        nodes: in order.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nodes: list[NodeProto] = []
        self.near = ""

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result, and return the name of that."""
        return self.ops(kind, *inputs, **attributes)[0]

    def ops(self, kind: str, *inputs: str, count: int = 1, **attributes: Any) -> list[str]:
        """Add a node with some results, and return their names."""
        names = [self.store.unique(f"{self.near}/{kind}") for _ in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names

    def name_last(self, found: str, wanted: str, count: int) -> str:
        """Give what the last node has computed the name that it is to have; what was there is copied.

        Args:
            found: what was computed.
            wanted: its name.
            count: how many nodes there were before.
        """
        if len(self.nodes) > count and list(self.nodes[-1].output) == [found]:
            self.nodes[-1].output[0] = wanted
            self.nodes[-1].name = wanted
        else:
            self.nodes.append(helper.make_node("Identity", [found], [wanted], name=wanted))
        return wanted
