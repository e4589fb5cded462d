"""What derivatives of poolings and convolutions are made of, so that these are networks again.

Poolings choose or add elements: for given data they are linear, and what goes back through one is linear, too. So each
of these operations is the adjoint of another, by all that a gradient flows to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.convolution import CONVOLUTION, ConvolutionAttributes
from cntk_core.ops.families.pooling import MAX_UNPOOLING, POOLING, Pool, PoolingAttributes, pooling_geometry
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import sample_shape, samples
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import Traits

_TRAITS = Traits(keeps_nothing=True)


def _rows(xp: Any, inputs: Sequence[Array], context: OpContext) -> list[Array]:
    """The samples of two inputs; those of one without a dynamic axis are repeated."""
    count = context.frames if any(context.framed) else 1
    found = [samples(value, framed) for value, framed in zip(inputs, context.framed, strict=True)]
    return [xp.broadcast_to(rows, (count, rows.shape[1])) for rows in found]


def _shaped(rows: Array, context: OpContext, shape: Shape) -> Array:
    return rows.reshape((len(rows), *shape) if any(context.framed) else shape)


def _to(rows: Array, value: Array, framed: bool) -> Array:
    """The gradient of an input from that of its repeated samples."""
    return (rows if framed else rows.sum(axis=0)).reshape(value.shape)


def _pool_of(inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext) -> Pool:
    return Pool.of(pooling_geometry(sample_shape(inputs[0], context.framed[0]), attributes), attributes)


def _pooled(data: Shape, attributes: PoolingAttributes) -> Shape:
    return POOLING.infer([data], attributes)


def _same(found: Shape, wanted: Shape, what: str) -> None:
    if found != wanted:
        raise ShapeError(f"the {what} is {show(found)}, not {show(wanted)}")


def _infer_tangent(shapes: Sequence[Shape], attributes: PoolingAttributes) -> Shape:
    _same(shapes[1], shapes[0], "change of the data")
    return _pooled(shapes[0], attributes)


def _tangent_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: PoolingAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    data, _ = _rows(xp, inputs, context)
    found = _pool_of(inputs, attributes, context).gradient(xp, samples(gradient, any(context.framed)), data)
    return None, _to(found, inputs[1], context.framed[1])


@define_op(
    "PoolingTangent",
    inputs=2,
    infer=_infer_tangent,
    gradient=_tangent_gradient,
    attributes=PoolingAttributes,
    differentiable=(False, True),
    reads_output=False,
    traits=_TRAITS,
)
def POOLING_TANGENT(xp: Any, inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext) -> Array:
    """How the value of Pooling changes with its data; inputs: the data, their change."""
    data, change = _rows(xp, inputs, context)
    found = _pool_of(inputs, attributes, context).tangent(xp, change, data)
    return _shaped(found, context, _pooled(sample_shape(inputs[0], context.framed[0]), attributes))


def _infer_pooling_gradient(shapes: Sequence[Shape], attributes: PoolingAttributes) -> Shape:
    _same(shapes[1], _pooled(shapes[0], attributes), "gradient of the value")
    return shapes[0]


def _pooling_gradient_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: PoolingAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    data, _ = _rows(xp, inputs, context)
    found = _pool_of(inputs, attributes, context).tangent(xp, samples(gradient, any(context.framed)), data)
    return None, _to(found, inputs[1], context.framed[1])


@define_op(
    "PoolingGradient",
    inputs=2,
    infer=_infer_pooling_gradient,
    gradient=_pooling_gradient_gradient,
    attributes=PoolingAttributes,
    differentiable=(False, True),
    reads_output=False,
    traits=_TRAITS,
)
def POOLING_GRADIENT(xp: Any, inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext) -> Array:
    """The gradient of Pooling by its data; inputs: the data, the gradient of the value."""
    data, incoming = _rows(xp, inputs, context)
    found = _pool_of(inputs, attributes, context).gradient(xp, incoming, data)
    return _shaped(found, context, sample_shape(inputs[0], context.framed[0]))


def _infer_unpooling_gradient(shapes: Sequence[Shape], attributes: PoolingAttributes) -> Shape:
    _same(shapes[1], shapes[0], "gradient of the value")
    return _pooled(shapes[0], attributes)


def _unpooling_gradient_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: PoolingAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    assert MAX_UNPOOLING.forward is not None
    framed = any(context.framed)
    found = MAX_UNPOOLING.forward(
        xp, [gradient, inputs[0]], attributes, attrs.evolve(context, framed=(framed, context.framed[0]))
    )
    return None, _to(samples(found, framed), inputs[1], context.framed[1])


@define_op(
    "MaxUnpoolingGradient",
    inputs=2,
    infer=_infer_unpooling_gradient,
    gradient=_unpooling_gradient_gradient,
    attributes=PoolingAttributes,
    differentiable=(False, True),
    reads_output=False,
    traits=_TRAITS,
)
def MAX_UNPOOLING_GRADIENT(
    xp: Any, inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext
) -> Array:
    """The gradient of MaxUnpooling by what is put back; inputs: the data of the pooling, the gradient of the value."""
    assert MAX_UNPOOLING.gradient is not None
    framed = any(context.framed)
    data, incoming = inputs
    sample = _pooled(sample_shape(data, context.framed[0]), attributes)
    like = xp.zeros((context.frames, *sample) if framed else sample, dtype=incoming.dtype)
    if framed and not context.framed[1]:
        incoming = xp.broadcast_to(incoming, (context.frames, *incoming.shape))
    own = attrs.evolve(context, framed=(framed, context.framed[0]))
    return MAX_UNPOOLING.gradient(xp, incoming, None, [like, data], attributes, own, (True, False))[0]


def _infer_data(shapes: Sequence[Shape], attributes: ConvolutionAttributes) -> Shape:
    _same(shapes[2], CONVOLUTION.infer(shapes[:2], attributes), "gradient of the value")
    return shapes[1]


def _of_convolution(context: OpContext) -> OpContext:
    return attrs.evolve(context, framed=context.framed[:2], layouts=context.layouts[:2])


def _data_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ConvolutionAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    assert CONVOLUTION.forward is not None
    assert CONVOLUTION.gradient is not None
    own, pair = _of_convolution(context), [inputs[0], gradient]
    to_weights = to_maps = None
    if needs[0]:
        to_weights = CONVOLUTION.gradient(xp, inputs[2], None, pair, attributes, own, (True, False))[0]
    if needs[2]:
        to_maps = CONVOLUTION.forward(xp, pair, attributes, own)
    return to_weights, None, to_maps


@define_op(
    "ConvolutionData",
    inputs=3,
    infer=_infer_data,
    gradient=_data_gradient,
    attributes=ConvolutionAttributes,
    differentiable=(True, False, True),
    unframed=frozenset({0}),
    reads_output=False,
    traits=_TRAITS,
)
def CONVOLUTION_DATA(xp: Any, inputs: Sequence[Array], attributes: ConvolutionAttributes, context: OpContext) -> Array:
    """The gradient of a convolution by its data; inputs: the weights, the data, the gradient of the value."""
    assert CONVOLUTION.gradient is not None
    own = _of_convolution(context)
    return CONVOLUTION.gradient(xp, inputs[2], None, inputs[:2], attributes, own, (False, True))[1]


OPS = (POOLING_TANGENT, POOLING_GRADIENT, MAX_UNPOOLING_GRADIENT, CONVOLUTION_DATA)
