"""Rules of convolutions, poolings and normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.network.node import Node
from cntk_core.ops.families.adjoints import BATCH_MOMENTS, CONVOLUTION_WEIGHTS, MomentsAttributes
from cntk_core.ops.families.convolution import CONVOLUTION
from cntk_core.ops.families.geometry import ImageDims, is_legacy, window_of
from cntk_core.ops.families.image_adjoints import (
    CONVOLUTION_DATA,
    MAX_UNPOOLING_GRADIENT,
    POOLING_GRADIENT,
    POOLING_TANGENT,
)
from cntk_core.ops.families.normalization import statistics_size, statistics_used
from cntk_core.ops.families.outputs import OUTPUT_MULTIPLEXER, MultiplexerAttributes
from cntk_core.ops.families.pooling import (
    AVERAGE_POOLING,
    MAX_POOLING,
    MAX_UNPOOLING,
    LegacyPoolingAttributes,
    PoolingAttributes,
)
from cntk_core.ops.families.slicing import SLICE, SliceAttributes
from cntk_core.ops.language.shapes import Shape, elements, to_cntk
from cntk_kit_builders.derivatives.registry import Gradients, derivative_rule
from cntk_kit_builders.derivatives.writing import DerivativeWriter, NotDifferentiable, Term

# -- convolution --------------------------------------------------------------------------------------------


def _to_data(d: DerivativeWriter, node: Node, weights: Node, g: Node) -> Node:
    """The gradient of a convolution by its data: the transposed convolution, where there is one."""
    attributes, data = node.attributes, node.inputs[1]
    if attributes.convolution_2d or is_legacy(attributes.image_layout) or attributes.groups > 1:
        return d.op(CONVOLUTION_DATA, weights, data, g, attributes=attributes)
    # The kernel may lack axes of what it goes over, and that is something else now.
    window = window_of(to_cntk(data.known_shape), attributes, reduces=True, dilation=attributes.dilation)
    back = attrs.evolve(
        attributes,
        kernel_shape=window.kernel,
        stride=window.stride,
        auto_padding=window.auto,
        lower_pad=window.lower,
        upper_pad=window.upper,
        dilation=window.dilation,
        transpose=not attributes.transpose,
        output_shape=(0,) if attributes.transpose else to_cntk(data.known_shape),
    )
    return d.reshape(d.op(CONVOLUTION, weights, g, attributes=back), data.known_shape)


@derivative_rule("Convolution")
def _convolution(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    weights, data = node.inputs
    to_weights = d.op(CONVOLUTION_WEIGHTS, weights, data, g, attributes=node.attributes) if needs[0] else None
    return to_weights, _to_data(d, node, weights, g) if needs[1] else None


@derivative_rule(CONVOLUTION_WEIGHTS)
def _convolution_weights(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    _, data, maps = node.inputs
    to_data = _to_data(d, node, g, maps) if needs[1] else None
    return None, to_data, d.op(CONVOLUTION, g, data, attributes=node.attributes) if needs[2] else None


@derivative_rule(CONVOLUTION_DATA)
def _convolution_data(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    weights, _, maps = node.inputs
    to_weights = d.op(CONVOLUTION_WEIGHTS, weights, g, maps, attributes=node.attributes) if needs[0] else None
    return to_weights, None, d.op(CONVOLUTION, weights, g, attributes=node.attributes) if needs[2] else None


# -- pooling ------------------------------------------------------------------------------------------------


@derivative_rule("Pooling")
def _pooling(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return (d.op(POOLING_GRADIENT, node.inputs[0], g, attributes=node.attributes),)


@derivative_rule(MAX_POOLING, AVERAGE_POOLING)
def _image_pooling(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    """These are poolings without padding over width and height."""
    old: LegacyPoolingAttributes = node.attributes
    if is_legacy(old.image_layout):
        raise NotDifferentiable("only poolings of images of the layout CHW have derivatives as nodes")
    kernel = ImageDims(old.window_width, old.window_height, 1).dims(old.image_layout)
    stride = ImageDims(old.horizontal_subsample, old.vertical_subsample, 1).dims(old.image_layout)
    kind = "average" if node.op is AVERAGE_POOLING else "max"
    settings = PoolingAttributes(kernel, kind, stride, auto_padding=(False,))
    return (d.op(POOLING_GRADIENT, node.inputs[0], g, attributes=settings),)


@derivative_rule(POOLING_GRADIENT)
def _pooling_gradient(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return None, d.op(POOLING_TANGENT, node.inputs[0], g, attributes=node.attributes)


@derivative_rule(POOLING_TANGENT)
def _pooling_tangent(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return None, d.op(POOLING_GRADIENT, node.inputs[0], g, attributes=node.attributes)


@derivative_rule("MaxUnpooling")
def _unpooling(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return d.op(MAX_UNPOOLING_GRADIENT, node.inputs[1], g, attributes=node.attributes), None


@derivative_rule(MAX_UNPOOLING_GRADIENT)
def _unpooling_gradient(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return None, d.op(MAX_UNPOOLING, g, node.inputs[0], attributes=node.attributes)


# -- normalization ------------------------------------------------------------------------------------------


def _outputs(d: DerivativeWriter, node: Node, shape: Shape) -> tuple[Node, Node, Node]:
    """Mean and variance of BatchMoments in a shape, and the share."""
    mean, variance, share = (
        d.op(OUTPUT_MULTIPLEXER, node, attributes=MultiplexerAttributes(index)) for index in range(3)
    )
    return d.reshape(mean, shape), d.reshape(variance, shape), share


def _lying(data: Shape, *, spatial: bool) -> Shape:
    """The shape of statistics beside the data."""
    return (data[0], *(1,) * (len(data) - 1)) if spatial else data


@derivative_rule("BatchNormalization")
def _batch_normalization(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    x, scale, bias, *running = node.inputs
    attributes, data = node.attributes, x.known_shape
    if attributes.blend_time_constant:
        raise NotDifferentiable("statistics of the minibatch are blended with running ones")
    if statistics_used(data, scale.known_shape, attributes) != statistics_size(data, attributes):
        raise NotDifferentiable("only some of its statistics are used")
    shape = _lying(data, spatial=attributes.spatial)
    moments = d.op(BATCH_MOMENTS, x, *running[:2], attributes=MomentsAttributes(attributes.spatial))
    mean, variance, share = _outputs(d, moments, shape)
    inverse = d.op("Reciprocal", d.op("Sqrt", d.node(d.plus(variance, attributes.epsilon))))
    standard = d.op("ElementTimes", d.op("Minus", x, mean), inverse)
    to_bias, to_scale = d.fit(g, mean), d.fit(d.times(g, standard), mean)
    to_data = None
    if needs[0]:
        through = d.plus(to_bias, d.times(standard, to_scale))
        factor = d.times(inverse, d.reshape(scale, shape))
        to_data = d.times(factor, d.minus(g, d.node(d.times(share, through))))
    rest = (None,) * len(running)
    return to_data, d.reshape(to_scale, scale.known_shape), d.reshape(to_bias, bias.known_shape), *rest


@derivative_rule(BATCH_MOMENTS)
def _batch_moments(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    """``share * (g_mean + 2 (x - mean) g_variance)``; the share is what it is."""
    x = node.inputs[0]
    shape = _lying(x.known_shape, spatial=node.attributes.spatial)
    size = elements(shape)
    by_mean, by_variance = (
        d.reshape(d.op(SLICE, g, attributes=SliceAttributes(begin, begin + size, 1)), shape) for begin in (0, size)
    )
    mean, _, share = _outputs(d, node, shape)
    slope = d.times(d.times(d.op("Minus", x, mean), 2.0), by_variance)
    return d.times(share, d.plus(by_mean, slope)), None, None


@derivative_rule("LayerNormalization")
def _layer_normalization(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    x, *others = node.inputs
    shape = x.known_shape
    rank = node.attributes.rank_of(shape)
    count = elements(shape[-rank:])

    def mean(value: Term) -> Term:
        found = d.node(value)
        for axis in range(len(shape) - rank, len(shape)):
            found = d.sum_axis(found, axis)
        return d.times(found, 1.0 / count)

    centred = d.minus(x, mean(x))
    variance = d.plus(mean(d.times(centred, centred)), node.attributes.epsilon)
    inverse = d.op("Reciprocal", d.op("Sqrt", d.node(variance)))
    standard = d.times(centred, inverse)
    incoming = d.times(g, others[0]) if others else g
    slope = d.plus(mean(incoming), d.times(standard, mean(d.times(incoming, standard))))
    return d.times(inverse, d.minus(incoming, d.node(slope))), *(d.times(g, standard), g)[: len(others)]
