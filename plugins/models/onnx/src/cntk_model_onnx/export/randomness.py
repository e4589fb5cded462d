"""Random numbers. They are of the same distribution, not the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cntk_core.api import Node, OpContext
from cntk_model_onnx.export.graph import TYPES
from cntk_model_onnx.export.scope import Scope, Value, plain
from cntk_model_onnx.export.table import writes


@writes("RandomDistribution")
def _random(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    attributes = node.attributes
    kind, args = attributes.type.lower(), [float(number) for number in attributes.args]
    sizes = scope.op("Shape", values[0].name) if values else scope.ints(*plain(node.known_shape))
    like = scope.op("Expand", scope.number(0.0), sizes)
    dtype = TYPES[scope.dtype]
    if kind == "bernoulli":
        uniform = scope.op("RandomUniformLike", like, low=0.0, high=1.0, dtype=dtype)
        return scope.to_numbers(scope.op("Less", uniform, scope.number(args[0])))
    if kind == "normal":
        return scope.op("RandomNormalLike", like, mean=args[0], scale=args[1], dtype=dtype)
    if kind == "uniform":
        return scope.op("RandomUniformLike", like, low=args[0], high=args[1], dtype=dtype)
    uniform = scope.op("RandomUniformLike", like, low=1e-7, high=1.0, dtype=dtype)
    noise = scope.op("Neg", scope.op("Log", scope.op("Neg", scope.op("Log", uniform))))
    return scope.op("Add", scope.op("Mul", noise, scope.number(args[1])), scope.number(args[0]))


@writes("EnvironmentInput")
def _environment(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    return scope.op("Identity", scope.numbers([0.0]))


@writes("RandomSampleInclusionFrequency")
def _frequency(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    weights = node.inputs[0].value
    from cntk_model_onnx.export.graph import Refused

    if weights is None or node.op.forward is None:
        raise Refused("the weights of its classes are not constant")
    context = OpContext((False,), 1, random=lambda: np.random.default_rng(0))
    found = node.op.forward(np, [np.asarray(weights, scope.dtype)], node.attributes, context)
    return scope.op("Identity", scope.numbers(found))
