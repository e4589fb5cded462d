"""Reshape of what data bring the size of: each minibatch shows whether it fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_core.api import DataError, Node
from cntk_core.api.builders import UserFunction, infer_node, op_of


def reshape_open(node: Node) -> None:
    """Let a node make tensors of a fixed shape of tensors whose size is open: shape rules cannot know that they fit."""
    shape = node.inputs[0].shape
    if node.shape is not None or shape is None or not all(node.attributes.dims) or min(shape, default=1) > 0:
        return
    kind = _reshaper(node.name, node.attributes)
    node.op, node.attributes = op_of(kind), kind()
    infer_node(node)


def _reshaper(name: str, attributes: Any) -> type[UserFunction]:
    """Return the class of a function that replaces the axes of the original's attributes, which count from the end."""

    class _Reshaped(UserFunction):
        def infer_outputs(self, *shapes: Any) -> Any:
            dims = shapes[0][::-1]
            end = attributes.end_axis - 1 if attributes.end_axis > 0 else len(dims)
            return (*dims[: attributes.begin_axis - 1], *attributes.dims, *dims[end:])[::-1]

        def forward(self, context: Any, value: Any) -> Any:
            rows = value.shape[:1] if context.framed[0] else ()
            given = value.shape[len(rows) :]
            wanted = self.infer_outputs(given)
            if np.prod(given) != np.prod(wanted):
                sizes, others = (" x ".join(map(str, each)) for each in (given, wanted))
                raise DataError(f"{name}: a value of the shape [{sizes}] cannot become [{others}]")
            context.saved["shape"] = value.shape
            return value.reshape(*rows, *wanted)

        def backward(self, context: Any, gradient: Any) -> Any:
            return gradient.reshape(context.saved["shape"])

    _Reshaped.__name__ = _Reshaped.__qualname__ = name
    return _Reshaped
