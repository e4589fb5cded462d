"""Pooling of regions of an image."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from onnx import TensorProto

from cntk_core.api import Node
from cntk_model_onnx.export.graph import TYPES
from cntk_model_onnx.export.scope import Scope, Value, plain
from cntk_model_onnx.export.table import writes


@writes("ROIPooling")
def _pooled(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    """``MaxRoiPool`` of borders that are whole numbers already: it rounds in single precision, here as there."""
    most = max(values, key=lambda value: value.lead)
    image, regions = (_for_all(scope, value, most) for value in values)
    corners = _rounded(scope, scope.merged(regions), node.attributes.spatial_scale)
    count = scope.op("Shape", corners, start=0, end=2)
    store = scope.graph.store
    samples = scope.op("Squeeze", scope.op("Shape", corners, start=0, end=1))
    numbers = scope.to_numbers(scope.op("Range", store.constant(0), samples, store.constant(1)))
    numbers = scope.op("Expand", scope.op("Reshape", numbers, scope.ints(-1, 1, 1)),
                       scope.op("Concat", count, scope.ints(1), axis=0))  # fmt: skip
    boxes = scope.op("Reshape", scope.op("Concat", numbers, corners, axis=2), scope.ints(-1, 5))
    width, height = node.attributes.roi_output_shape
    found = scope.op("MaxRoiPool", scope.merged(image), boxes, pooled_shape=[height, width])
    sizes = scope.op("Concat", count, scope.ints(*plain(node.known_shape[1:])), axis=0)
    return scope.unmerged(scope.op("Reshape", found, sizes), most, node.known_shape)


def _for_all(scope: Scope, value: Value, like: Value) -> Value:
    """A value that is there for each sample of another."""
    if value.lead == like.lead:
        return value
    return attrs.evolve(value, name=scope.repeated(value, like), lead=like.lead)


def _rounded(scope: Scope, regions: str, scale: float) -> str:
    """Places of pixels as places of elements; halves go away from 0, which ``Round`` takes to the even number."""
    scaled = scope.op("Cast", regions, to=TensorProto.DOUBLE)
    scaled = scope.op("Mul", scaled, scope.graph.store.constant(scale, np.float64))
    up = scope.op("Floor", scope.op("Add", scope.op("Abs", scaled), scope.graph.store.constant(0.5, np.float64)))
    return scope.op("Cast", scope.op("Mul", scope.op("Sign", scaled), up), to=TYPES[scope.dtype])
