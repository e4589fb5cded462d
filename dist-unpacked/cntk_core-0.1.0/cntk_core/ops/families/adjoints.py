"""What gradients are made of beside the ops whose gradients they are: sums over frames, values repeated, moments.

With these, the derivative of a network is a network again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.convolution import CONVOLUTION, ConvolutionAttributes
from cntk_core.ops.families.normalization import BatchNormalizationAttributes, groups, statistics_size
from cntk_core.ops.families.outputs import define_outputs
from cntk_core.ops.language.define import define_op, elementwise_op, first_shape, guess_first, scalar_shape
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import Traits

_SUMS = Traits(pure_xp=True, keeps_nothing=True, ignores_zero_rows=True)


@elementwise_op(
    "BroadcastLike",
    gradient=lambda m, attributes, g, y, x, like: (g, None),
    differentiable=(True, False),
)
def BROADCAST_LIKE(m: Any, attributes: Any, x: Any, like: Any) -> Any:
    """The first input, repeated along the axes and for the frames of the second."""
    return m.where(m.equal(like, like), x, x)


def _sum_frames_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (xp.broadcast_to(gradient, inputs[0].shape),)


@define_op(
    "SumFrames",
    infer=first_shape,
    guess=guess_first,
    gradient=_sum_frames_gradient,
    reduces_frames=True,
    reads_inputs=False,
    reads_output=False,
    traits=_SUMS,
)
def SUM_FRAMES(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Sum over all frames of the minibatch, of the shape of a sample."""
    return xp.sum(inputs[0], axis=0) if context.framed[0] else inputs[0]


def _infer_outer(shapes: Sequence[Shape], attributes: Any) -> Shape:
    left, right = shapes
    if not left or not right or elements(left[:-1]) != elements(right[:-1]):
        raise ShapeError(f"the vectors of {show(left)} and {show(right)} do not make pairs")
    return (right[-1], left[-1])


def _rows(value: Array) -> Array:
    return value.reshape(elements(value.shape[:-1]), value.shape[-1])


def _outer_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    left, right = inputs
    to_left = (_rows(right) @ gradient).reshape(left.shape) if needs[0] else None
    to_right = (_rows(left) @ gradient.T).reshape(right.shape) if needs[1] else None
    return to_left, to_right


@define_op(
    "SumOfOuterProducts",
    inputs=2,
    infer=_infer_outer,
    gradient=_outer_gradient,
    reduces_frames=True,
    reads_output=False,
    traits=_SUMS,
)
def SUM_OF_OUTER_PRODUCTS(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Sum of a b' over all frames and over all but CNTK's first axis, where a and b run along that: a matrix."""
    return _rows(inputs[1]).T @ _rows(inputs[0])


def _infer_weights(shapes: Sequence[Shape], attributes: ConvolutionAttributes) -> Shape:
    found = CONVOLUTION.infer(shapes[:2], attributes)
    if found != shapes[2]:
        raise ShapeError(f"the convolution gives {show(found)}, not {show(shapes[2])}")
    return shapes[0]


def _of_convolution(context: OpContext) -> OpContext:
    return attrs.evolve(context, framed=context.framed[:2], layouts=context.layouts[:2])


def _convolution_gradients(
    xp: Any, gradient: Array, inputs: Sequence[Array], attributes: Any, context: OpContext, *needs: bool
) -> Sequence[Array | None]:
    assert CONVOLUTION.gradient is not None
    return CONVOLUTION.gradient(xp, gradient, None, inputs, attributes, _of_convolution(context), needs)


def _weights_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ConvolutionAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    assert CONVOLUTION.forward is not None
    pair = [gradient, inputs[1]]
    to_data = _convolution_gradients(xp, inputs[2], pair, attributes, context, False, True)[1] if needs[1] else None
    return None, to_data, CONVOLUTION.forward(xp, pair, attributes, _of_convolution(context)) if needs[2] else None


@define_op(
    "ConvolutionWeights",
    inputs=3,
    infer=_infer_weights,
    gradient=_weights_gradient,
    attributes=ConvolutionAttributes,
    differentiable=(False, True, True),
    unframed=frozenset({0}),
    reduces_frames=True,
    reads_output=False,
    traits=Traits(keeps_nothing=True, ignores_zero_rows=True),
)
def CONVOLUTION_WEIGHTS(
    xp: Any, inputs: Sequence[Array], attributes: ConvolutionAttributes, context: OpContext
) -> Array:
    """The gradient of a convolution by its weights; inputs: the weights, the data, the gradient of the result."""
    return _convolution_gradients(xp, inputs[2], inputs[:2], attributes, context, True, False)[0]


@attrs.frozen
class MomentsAttributes:
    """Attributes of BatchMoments.

    Attributes:
        spatial: one mean and variance for each channel instead of each element.
    """

    spatial: bool = False


def _moments_shape(shapes: Sequence[Shape], attributes: MomentsAttributes) -> Shape:
    return (statistics_size(shapes[0], BatchNormalizationAttributes(attributes.spatial)),)


def _moments_gradient(
    xp: Any,
    gradients: Sequence[Array],
    values: Sequence[Array],
    inputs: Sequence[Array],
    attributes: MomentsAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    mean, _, share = values
    data = groups(inputs[0], context.framed[0], mean.size)
    centred = data - mean[:, None]
    found = share[0] * (gradients[0][:, None] + 2.0 * centred * gradients[1][:, None])
    return found.reshape(inputs[0].shape), None, None


@define_outputs(
    "BatchMoments",
    {"mean": _moments_shape, "variance": _moments_shape, "share": scalar_shape},
    inputs=3,
    gradient=_moments_gradient,
    attributes=MomentsAttributes,
    differentiable=(True, False, False),
    unframed=frozenset({1, 2}),
    reduces_frames=True,
)
def BATCH_MOMENTS(
    xp: Any, inputs: Sequence[Array], attributes: MomentsAttributes, context: OpContext
) -> Sequence[Array]:
    """Mean and variance in training, and with what share a number enters; else the running ones, and 0."""
    data = groups(inputs[0], context.framed[0], inputs[1].size)
    size = data.shape[0] * data.shape[2]
    if not context.training or not size:
        return inputs[1].reshape(-1), inputs[2].reshape(-1), xp.zeros((1,), inputs[0].dtype)
    mean = xp.mean(data, axis=(0, 2))
    centred = data - mean[:, None]
    return mean, xp.mean(centred * centred, axis=(0, 2)), xp.full((1,), 1.0 / size, inputs[0].dtype)


OPS = (BROADCAST_LIKE, SUM_FRAMES, SUM_OF_OUTER_PRODUCTS, CONVOLUTION_WEIGHTS, BATCH_MOMENTS)
