"""Small graphs as other programs write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 2
node = helper.make_node


def number(values: Any) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)


def whole(*values: Any) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)


def same(values: Any) -> NDArray[np.int64]:
    """The same whole numbers for all samples."""
    return np.stack([whole(*values)] * SAMPLES)


def some(*shape: int) -> NDArray[np.float32]:
    """Numbers without a pattern, of which none recurs."""
    return number(np.random.default_rng(5).permutation(int(np.prod(shape))).reshape(shape)) / 4 - 1


@attrs.frozen
class Graph:
    """Nodes from ``x``, samples first, to ``y``.

    Attributes:
        nodes: in order.
        shape: of a sample of ``x``.
        more: constants by name.
        opset: version of the operators.
        x: values of all samples; by default some.
        samples: the size of the first axis, where the file says it.
    """

    nodes: list[Any]
    shape: tuple[int, ...]
    more: dict[str, Any] = attrs.field(factory=dict)
    opset: int = attrs.field(default=20, kw_only=True)
    x: Any = attrs.field(default=None, kw_only=True)
    samples: Any = attrs.field(default="N", kw_only=True)

    def save(self, path: Path) -> Path:
        tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in self.more.items()]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [self.samples, *self.shape])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        made = helper.make_graph(self.nodes, "g", inputs, outputs, tensors)
        versions = [helper.make_opsetid("", self.opset)]
        onnx.save(helper.make_model(made, opset_imports=versions, ir_version=9), path)
        return path


def one(
    kind: str, shape: tuple[int, ...], *more: Any, opset: int = 20, x: Any = None, samples: Any = "N", **settings: Any
) -> Graph:
    """A graph of one node, whose other inputs are constants; None leaves one out."""
    named = {f"c{place}": each for place, each in enumerate(more) if each is not None}
    inputs = ["x", *(f"c{place}" if each is not None else "" for place, each in enumerate(more))]
    return Graph([node(kind, inputs, ["y"], **settings)], shape, named, opset=opset, x=x, samples=samples)


def turned(kind: str, shape: tuple[int, ...], constant: Any, x: Any = None) -> Graph:
    """A graph of one node of which the constant is the first input."""
    return Graph([node(kind, ["c", "x"], ["y"])], shape, {"c": constant}, x=x)


def rounding(nodes: list[Any], more: dict[str, Any], row: list[float]) -> Graph:
    """A graph of whole numbers ``i``, which are those of ``x``, and ``q``."""
    casts = node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    return Graph([casts[0], *nodes, casts[1]], (len(row),), more, x=[row])


def truths(nodes: list[Any]) -> Graph:
    """A graph of truth values ``a`` and ``b``, which differ, and ``t``."""
    sides = [node("Greater", ["x", "low"], ["a"]), node("Less", ["x", "high"], ["b"])]
    row = [-2.0, -0.5, 0.5, 2.0]
    more = {"low": number([-1, 1, -1, 1]), "high": number([-1, -1, 1, 1])}
    return Graph([*sides, *nodes, node("Cast", ["t"], ["y"], to=TensorProto.FLOAT)], (4,), more, x=[row])
