"""Operators for images, normalization and recurrent stacks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cntk.internal import sanitize_convolution_args, sanitize_input, sanitize_pooling_args, sanitize_shape
from cntk.ops import _elements as elements
from cntk.ops import _reductions as reductions
from cntk.ops import _shapes as shapes
from cntk.ops._making import block, made, one, operands, size
from cntk.ops._making import shape as shape_of
from cntk.ops.functions import Function
from cntk.variables import Variable

MAX_POOLING, AVG_POOLING, MAX_UNPOOLING = 0, 1, 0
PoolingType_Max, PoolingType_Average = MAX_POOLING, AVG_POOLING

_NO_PADDING = [False]


def convolution(
    convolution_map: Any,
    operand: Any,
    strides: Any = (1,),
    sharing: Any = [True],  # noqa: B006
    auto_padding: Any = [True],  # noqa: B006
    sequential: bool = False,
    dilation: Any = (1,),
    reduction_rank: int = 1,
    groups: int = 1,
    max_temp_mem_size_in_samples: int = 0,
    name: str = "",
) -> Function:
    """Convolution of images with kernels.

    Args:
        convolution_map: kernels ``(maps, channels, height, width)``.
        operand: images ``(channels, height, width)``.
        strides: steps of the kernel.
        sharing: kernels are the same everywhere.
        auto_padding: for each axis whether zeros are put around, so that the size stays.
        sequential: along sequences, which layers do with shifted copies.
        dilation: distances between the elements of a kernel.
        reduction_rank: how many axes are summed over; with 0 a channel is put in front.
        groups: channels that are convolved on their own.
        max_temp_mem_size_in_samples: is taken for compatibility.
        name: of the user.
    """
    found = _windows(strides, sharing, auto_padding)
    kernel, value = operands(convolution_map, operand)
    if reduction_rank == 0:
        return _without_channels(kernel, value, strides, sharing, auto_padding, dilation, name)
    return made(
        "Convolution", kernel, value, name=name, **found, sequential=sequential, transpose=False,
        dilation=shape_of(sanitize_shape(dilation)), reductionRank=size(reduction_rank), groups=size(groups),
        outputShape=shape_of((0,)), maxTempMemSizeInSamples=size(max_temp_mem_size_in_samples),
    )  # fmt: skip


def _without_channels(
    kernel: Variable, value: Variable, strides: Any, sharing: Any, padding: Any, dilation: Any, name: str
) -> Function:
    def inside(a: Variable, b: Variable) -> Function:
        image = shapes.reshape(b, (1, *b.shape))
        weights = shapes.reshape(a, (a.shape[0] if len(a.shape) > len(b.shape) else 1, 1, *a.shape[-len(b.shape) :]))
        return convolution(
            weights, image, _channel(strides, b), sharing, _flag(padding, b), dilation=_channel(dilation, b)
        )

    return block("Convolution", name, [kernel, value], inside)


def _channel(values: Any, image: Variable) -> Any:
    several = tuple(sanitize_shape(values))
    return (1, *several) if len(several) == len(image.shape) else several


def _flag(values: Any, image: Variable) -> Any:
    several = list(values) if isinstance(values, list | tuple) else [values]
    return [False, *(several * len(image.shape) if len(several) == 1 else several)]


def _windows(strides: Any, sharing: Any, auto_padding: Any) -> dict[str, Any]:
    steps, shared, padded = sanitize_convolution_args(strides, sharing, auto_padding)
    return {
        "strides": shape_of(steps),
        "sharing": shared,
        "autoPadding": padded,
        "lowerPad": shape_of((0,)),
        "upperPad": shape_of((0,)),
    }


def convolution_transpose(
    convolution_map: Any,
    operand: Any,
    strides: Any = (1,),
    sharing: Any = [True],  # noqa: B006
    auto_padding: Any = [True],  # noqa: B006
    output_shape: Any = None,
    dilation: Any = (1,),
    reduction_rank: int = 1,
    max_temp_mem_size_in_samples: int = 0,
    name: str = "",
) -> Function:
    """The transposed convolution, which enlarges images; arguments as of :func:`convolution`.

    ``convolution_map`` is ``(channels, maps, height, width)``, and ``output_shape`` says the size where several are
    possible.
    """
    kernel, value = operands(convolution_map, operand)
    dims = (0,) if output_shape is None else sanitize_shape(output_shape)
    axes = len(value._shape or ())
    if auto_padding in ([True], (True,), True) and axes > 1 and len(kernel._shape or ()) == axes + 1:
        auto_padding = [False] + [True] * (axes - 1)  # channels have no border
    return made(
        "Convolution", kernel, value, name=name, **_windows(strides, sharing, auto_padding), sequential=False,
        transpose=True, dilation=shape_of(sanitize_shape(dilation)), reductionRank=size(reduction_rank),
        groups=size(1), outputShape=shape_of(dims), maxTempMemSizeInSamples=size(max_temp_mem_size_in_samples),
    )  # fmt: skip


def pooling(
    operand: Any,
    pooling_type: int,
    pooling_window_shape: Any,
    strides: Any = (1,),
    auto_padding: Any = _NO_PADDING,
    ceil_out_dim: bool = False,
    include_pad: bool = False,
    name: str = "",
) -> Function:
    """The largest element or the mean of each window of an image.

    Args:
        operand: images ``(channels, height, width)``.
        pooling_type: :data:`MAX_POOLING` or :data:`AVG_POOLING`.
        pooling_window_shape: size of the window.
        strides: steps of the window.
        auto_padding: for each axis whether there is a border around.
        ceil_out_dim: a window that is not full at the end counts, too.
        include_pad: the border counts in means.
        name: of the user.
    """
    window, steps, padded = sanitize_pooling_args(pooling_window_shape, strides, auto_padding)
    return made(
        "Pooling", one(operand), name=name, poolingType=pooling_type, poolingWindowShape=shape_of(window),
        strides=shape_of(steps), autoPadding=padded, lowerPad=shape_of((0,)), upperPad=shape_of((0,)),
        ceilOutDim=ceil_out_dim, includePad=include_pad,
    )  # fmt: skip


def unpooling(
    operand: Any,
    pooling_input: Any,
    unpooling_type: int,
    unpooling_window_shape: Any,
    strides: Any = (1,),
    auto_padding: Any = _NO_PADDING,
    name: str = "",
) -> Function:
    """Put what was pooled back to where the largest elements were; arguments as of :func:`pooling`."""
    window, steps, padded = sanitize_pooling_args(unpooling_window_shape, strides, auto_padding)
    return made(
        "Unpooling", one(operand), one(pooling_input), name=name, poolingType=unpooling_type,
        unpoolingWindowShape=shape_of(window), strides=shape_of(steps), autoPadding=padded, lowerPad=shape_of((0,)),
        upperPad=shape_of((0,)),
    )  # fmt: skip


def roipooling(
    operand: Any, rois: Any, pooling_type: Any = None, roi_output_shape: Any = None, spatial_scale: Any = None,
    name: str = "",
) -> Function:  # fmt: skip
    """The largest elements of regions of an image, each brought to one size.

    Args:
        operand: images ``(channels, height, width)``.
        rois: regions ``(count, 4)``: corners in the original's image.
        pooling_type: :data:`MAX_POOLING`. In CNTK 2.0 the shape stood here; that works, too.
        roi_output_shape: the size ``(width, height)`` of each region.
        spatial_scale: size of this image by that of the original one.
        name: of the user.
    """
    if isinstance(pooling_type, list | tuple):  # CNTK 2.0
        pooling_type, roi_output_shape, spatial_scale = MAX_POOLING, pooling_type, spatial_scale
    scale = 1.0 if spatial_scale is None else float(spatial_scale)
    return made("ROIPooling", one(operand), one(rois), name=name, poolingType=pooling_type,
                roiOutputShape=shape_of(sanitize_shape(roi_output_shape)), spatialScale=scale)  # fmt: skip


def batch_normalization(
    operand: Any,
    scale: Any,
    bias: Any,
    running_mean: Any,
    running_inv_std: Any,
    spatial: bool,
    normalization_time_constant: float = 5000,
    blend_time_constant: float = 0,
    epsilon: float = 0.00001,
    use_cudnn_engine: bool = False,
    disable_regularization: bool = False,
    name: str = "",
    running_count: Any = None,
) -> Function:
    """Normalize by mean and variance of the minibatch in training, by running ones otherwise.

    Ioffe and Szegedy, "Batch normalization", ICML 2015.

    Args:
        operand: the values.
        scale, bias: what the normalized values are multiplied by and what is added.
        running_mean, running_inv_std: constants that follow mean and variance.
        spatial: one mean for each channel of an image.
        normalization_time_constant: over how many samples the running ones are taken.
        blend_time_constant: how much the running ones count in training.
        epsilon: is added to the variance.
        use_cudnn_engine: is taken for compatibility.
        disable_regularization: scale and bias are not regularized.
        name: of the user.
        running_count: a constant that counts samples.
    """
    if running_count is None:
        warnings.warn("batch_normalization requires an additional 'running_count' parameter: constant(0)", Warning,
                      stacklevel=2)  # fmt: skip
    count = sanitize_input(0.0) if running_count is None else one(running_count)
    given = [one(each) for each in (operand, scale, bias, running_mean, running_inv_std)]
    return made(
        "BatchNormalization", *given, count, name=name, spatial=spatial,
        normalizationTimeConstant=float(normalization_time_constant), blendTimeConstant=float(blend_time_constant),
        epsilon=float(epsilon), useCuDNNEngine=use_cudnn_engine, disableRegularization=disable_regularization,
        runCountUntied=size(0),
    )  # fmt: skip


def local_response_normalization(
    operand: Any, depth_radius: int, bias: float, alpha: float, beta: float, name: str = ""
) -> Function:
    """Divide by ``(bias + alpha * mean of squares of neighbouring channels) ** beta``.

    Krizhevsky et al., NIPS 2012, sum up; CNTK 2.7 takes the mean, with zeros beyond the first and last channel.
    """

    def inside(a: Variable) -> Function:
        squares = elements.square(a)
        width = 2 * depth_radius + 1
        kernel = np.full((1, 1, width, 1, 1), alpha / width, np.float32)
        image = shapes.reshape(squares, (1, *a.shape))
        border = [(0, 0), (depth_radius, depth_radius)] + [(0, 0)] * (len(a.shape) - 1)
        summed = convolution(kernel, shapes.pad(image, border), auto_padding=[False])
        whole = shapes.reshape(summed, a.shape)
        return elements.element_divide(
            a, elements.exp(elements.element_times(beta, elements.log(elements.plus(bias, whole))))
        )

    return block("LocalResponseNormalization", name, [one(operand)], inside, bias=float(bias), alpha=float(alpha),
                 beta=float(beta), depthRadius=size(depth_radius))  # fmt: skip


def mean_variance_normalization(
    operand: Any,
    epsilon: float = 0.00001,
    use_stats_across_channels: bool = False,
    do_variance_scaling: bool = True,
    name: str = "",
) -> Function:
    """Subtract the mean of each channel of an image (or of all), and divide by the standard deviation.

    Raises:
        ValueError: ``epsilon`` is negative.
    """
    if epsilon < 0:
        raise ValueError("epsilon must be greater than 0")

    def inside(a: Variable) -> Function:
        # A vector has no channels.
        axes = list(range(0 if use_stats_across_channels or len(a.shape) == 1 else 1, len(a.shape)))
        centred = elements.minus(a, reductions.reduce_mean(a, axes))
        if not do_variance_scaling:
            return centred
        deviation = elements.sqrt(reductions.reduce_mean(elements.square(centred), axes))
        return elements.element_divide(centred, elements.plus(deviation, epsilon))

    return block("MeanVarianceNormalization", name, [one(operand)], inside, epsilon=float(epsilon),
                 useStatsAcrossChannels=use_stats_across_channels, doVarianceScaling=do_variance_scaling)  # fmt: skip


def per_dim_mean_variance_normalize(operand: Any, mean: Any, inv_stddev: Any, name: str = "") -> Function:
    """Subtract given means, and multiply by given inverse standard deviations."""
    given = operands(operand, mean, inv_stddev)
    return block("PerDimMeanVarianceNormalize", name, given,
                 lambda a, m, s: elements.element_times(elements.minus(a, m), s))  # fmt: skip


def optimized_rnnstack(
    operand: Any,
    weights: Any,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool = False,
    recurrent_op: str = "lstm",
    name: str = "",
) -> Function:
    """Layers of recurrent cells in one operation, with the weights of all in one parameter.

    Args:
        operand: sequences.
        weights: the parameter, whose shape is inferred.
        hidden_size: width of each direction.
        num_layers: how many layers.
        bidirectional: also backwards.
        recurrent_op: ``lstm``, ``gru``, ``rnnTanh`` or ``rnnReLU``.
        name: of the user.

    Raises:
        ValueError: there is no such cell.
    """
    if recurrent_op not in ("lstm", "gru", "rnnTanh", "rnnReLU"):
        raise ValueError(f'unsupported recurrent_op value "{recurrent_op}"')
    return made("OptimizedRNNStack", one(operand), one(weights), name=name, hiddenSize=size(hidden_size),
                numLayers=size(num_layers), bidirectional=bidirectional, recurrentOp=recurrent_op)  # fmt: skip


def labels_to_graph(labels: Any, name: str = "") -> Function:
    """Labels of frames as what :func:`forward_backward` reads."""
    return made("LabelsToGraph", one(labels), name=name)


def forward_backward(
    graph: Any,
    features: Any,
    blankTokenId: int,
    delayConstraint: int = -1,
    name: str = "",
) -> Function:
    """The criterion of connectionist temporal classification (Graves et al., ICML 2006)."""
    return made("ForwardBackward", one(graph), one(features), name=name, BlankTokenId=size(blankTokenId),
                DelayConstraint=delayConstraint)  # fmt: skip


__all__ = [
    "AVG_POOLING",
    "MAX_POOLING",
    "MAX_UNPOOLING",
    "PoolingType_Average",
    "PoolingType_Max",
    "batch_normalization",
    "convolution",
    "convolution_transpose",
    "forward_backward",
    "labels_to_graph",
    "local_response_normalization",
    "mean_variance_normalization",
    "optimized_rnnstack",
    "per_dim_mean_variance_normalize",
    "pooling",
    "roipooling",
    "unpooling",
]
